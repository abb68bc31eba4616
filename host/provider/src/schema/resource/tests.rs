//! Marks of a type's fields in its schema.

use super::*;

/// A field that the server alone sets has the behavior 3.
const MADE: &str = "string made = 9 [(behavior) = 3];";

/// The type of the message `M` of these declarations.
fn schema(declarations: &str) -> ResourceSchema {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "syntax = \"proto3\";\npackage t;\nimport \"google/protobuf/descriptor.proto\";\n\
         extend google.protobuf.FieldOptions {{ repeated int32 behavior = 1052; }}\n{declarations}"
    );
    std::fs::write(dir.path().join("t.proto"), text).unwrap();
    let mut compiler = protox::Compiler::new([dir.path()]).unwrap();
    compiler.include_imports(true).open_file("t.proto").unwrap();
    let descriptors = FileDescriptorSet::decode(compiler.encode_file_descriptor_set().as_slice()).unwrap();
    let kind = pb::Type { group: "demo".into(), group_version: "v1".into(), kind: "M".into() };
    let info = TypeInfo { r#type: Some(kind), message: "t.M".into(), ..TypeInfo::default() };
    ResourceSchema::of(&info, &descriptors, "mortise", Arc::default()).unwrap()
}

#[test]
fn values_that_the_server_alone_sets_are_found_at_any_depth() {
    let schema = schema(&format!(
        "message In {{ string text = 1; {MADE} }}
         message M {{ string text = 1; In one = 2; repeated In list = 3; map<string, In> by = 4; {MADE} }}"
    ));
    let text = |text: &str| Value::String(text.to_owned());
    let inner = |made: Value| Value::object([("text", text("x")), ("made", made)]);
    let data = |made: &Value| {
        Value::object([
            ("text", text("x")),
            ("made", made.clone()),
            ("one", inner(made.clone())),
            ("list", Value::List(vec![inner(Value::Null), inner(made.clone())])),
            ("by", Value::object([("a", inner(made.clone()))])),
        ])
    };
    let found = |made| schema.set_by_server(&Value::object([("data", data(&made))]));
    assert_eq!(found(Value::Null), Vec::<Vec<Step>>::new());
    let name = |name: &str| Step::Attribute(name.to_owned());
    let mut paths = [
        vec![name("data"), name("made")],
        vec![name("data"), name("one"), name("made")],
        vec![name("data"), name("list"), Step::Index(1), name("made")],
        vec![name("data"), name("by"), Step::Key("a".to_owned()), name("made")],
    ];
    for made in [text("x"), Value::unknown()] {
        let mut found = found(made);
        found.sort();
        paths.sort();
        assert_eq!(found, paths);
    }
}

#[test]
fn a_deprecated_message_is_a_deprecated_block() {
    for (option, expected) in [("", false), ("option deprecated = true;", true), ("option deprecated = false;", false)]
    {
        let schema = schema(&format!("message M {{ {option} string text = 1; }}"));
        assert_eq!(schema.to_proto().block.unwrap().deprecated, expected, "{option}");
        assert_eq!(schema.data_source_to_proto().block.unwrap().deprecated, expected, "{option}");
    }
}
