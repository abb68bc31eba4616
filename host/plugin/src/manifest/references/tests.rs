use super::*;

/// `FieldDescriptorProto` with the option.
#[derive(Clone, PartialEq, prost::Message)]
struct WholeField {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "3")]
    number: i32,
    #[prost(int32, tag = "4")]
    label: i32,
    #[prost(int32, tag = "5")]
    kind: i32,
    #[prost(string, optional, tag = "6")]
    target: Option<String>,
    #[prost(message, optional, tag = "8")]
    options: Option<RawOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WholeMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<WholeField>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WholeFile {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<WholeMessage>,
    #[prost(string, tag = "12")]
    syntax: String,
}

const STRING: i32 = 9;
const DOUBLE: i32 = 1;
const INT32: i32 = 5;
const MESSAGE: i32 = 11;
const LIST: i32 = 3;

fn field(name: &str, number: i32, label: i32, kind: i32, type_name: &str) -> WholeField {
    let type_name = (!type_name.is_empty()).then(|| type_name.to_owned());
    WholeField { name: name.into(), number, label, kind, target: type_name, options: None }
}

fn refers(field: WholeField, to: &str, on_delete: i32) -> WholeField {
    let reference = Some(ReferenceOptions { r#type: to.into(), on_delete });
    WholeField { options: Some(RawOptions { reference }), ..field }
}

/// Declarations of `t.Top`, whose fields are these; `t.Inner` holds itself and has a reference.
fn read(fields: Vec<WholeField>) -> Result<(ReferenceDecls, MessageDescriptor), String> {
    let inner =
        vec![field("deeper", 1, LIST, MESSAGE, ".t.Inner"), refers(field("to", 2, 1, STRING, ""), "demo.v2.Artist", 2)];
    let messages = vec![
        WholeMessage { name: "Top".into(), fields },
        WholeMessage { name: "Inner".into(), fields: inner },
        WholeMessage { name: "Loop".into(), fields: vec![field("again", 1, 1, MESSAGE, ".t.Loop")] },
    ];
    let file = WholeFile { name: "t.proto".into(), package: "t".into(), messages, syntax: "proto3".into() };
    let mut pool = DescriptorPool::new();
    pool.decode_file_descriptor_proto(file.encode_to_vec().as_slice()).unwrap();
    let message = pool.get_message_by_name("t.Top").unwrap();
    let decls = ReferenceDecls::read(&pool, &message).map_err(|fault| fault.to_string())?;
    Ok((decls, message))
}

#[test]
fn what_is_no_reference_is_refused_with_its_field() {
    let text = || field("x", 1, 1, STRING, "");
    for (bad, says) in [
        (refers(text(), "Artist", 1), "\"Artist\" is not the full name of a type"),
        (refers(text(), "Demo.v2.Artist", 1), "group must match"),
        (refers(text(), "demo.v2.Artist", 0), "on_delete is required"),
        (refers(text(), "demo.v2.Artist", 7), "on_delete is required"),
        (refers(field("x", 1, 1, INT32, ""), "demo.v2.Artist", 1), "a reference is a string"),
        (refers(field("x", 1, 1, MESSAGE, ".t.Inner"), "demo.v2.Artist", 1), "a reference is a string"),
    ] {
        let fault = read(vec![bad]).unwrap_err();
        assert!(fault.starts_with("the option mortise.v1.reference of t.Top.x: ") && fault.contains(says), "{fault}");
    }
    assert!(read(vec![text()]).unwrap().0.is_empty(), "no declaration is within reach");
    assert!(!read(vec![field("x", 1, 1, MESSAGE, ".t.Inner")]).unwrap().0.is_empty());
}

#[test]
fn references_are_found_and_cleared_wherever_they_stand() {
    let fields = vec![
        refers(field("one", 1, 1, STRING, ""), "demo.v2.Artist", 1),
        refers(field("many", 2, LIST, STRING, ""), "demo.v2.Album", 3),
        field("inner", 3, 1, MESSAGE, ".t.Inner"),
        field("loop", 4, 1, MESSAGE, ".t.Loop"),
    ];
    let (decls, message) = read(fields).unwrap();
    let mut targets: Vec<_> = decls.targets().map(|target| target.kind.clone()).collect();
    targets.sort();
    assert_eq!(targets, ["Album", "Artist", "Artist"]);
    // one: "a", many: ["b", "", "n/c"], inner { deeper { to: "p/n/d" } to: "a" }, loop { again { } }
    let data =
        [&b"\x0a\x01a\x12\x01b\x12\x00\x12\x03n/c"[..], b"\x1a\x0c\x0a\x07\x12\x05p/n/d\x12\x01a", b"\x22\x02\x0a\x00"]
            .concat();
    let found = decls.find(&message, &data).unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|reference| {
            format!(
                "{} {}/{}/{}",
                reference.field, reference.tenancy.partition, reference.tenancy.namespace, reference.name
            )
        })
        .collect();
    assert_eq!(shown, ["one //a", "many //b", "many /n/c", "inner.to //a", "inner.deeper.to p/n/d"]);
    let cleared = decls.clear(&message, &data, &|reference| reference.name == "a" || reference.name == "b").unwrap();
    let left: Vec<_> = decls.find(&message, &cleared).unwrap().into_iter().map(|reference| reference.name).collect();
    assert_eq!(left, ["c", "d"]);
    assert!(matches!(decls.find(&message, &[0xff]), Err(DataReferenceError::Undecodable(_))));
}

#[test]
fn the_rest_of_a_message_keeps_the_sign_of_its_zeros() {
    let fields = vec![refers(field("one", 1, 1, STRING, ""), "demo.v2.Artist", 3), field("ratio", 2, 1, DOUBLE, "")];
    let (decls, message) = read(fields).unwrap();
    let ratio = b"\x11\0\0\0\0\0\0\0\x80";
    let data = [&b"\x0a\x01a"[..], ratio].concat();
    assert_eq!(decls.clear(&message, &data, &|_| true).unwrap(), ratio);
}

#[test]
fn one_resource_has_so_many_references() {
    let fields = vec![refers(field("many", 2, LIST, STRING, ""), "demo.v2.Album", 3)];
    let (decls, message) = read(fields).unwrap();
    let data = |count: usize| b"\x12\x01b".repeat(count);
    assert_eq!(decls.find(&message, &data(MAX_REFERENCES)).unwrap().len(), MAX_REFERENCES);
    let fault = decls.find(&message, &data(MAX_REFERENCES + 1)).unwrap_err();
    assert_eq!(fault.to_string(), "data has more than 1024 references");
}
