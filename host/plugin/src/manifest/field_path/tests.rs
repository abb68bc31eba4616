use prost_reflect::DescriptorPool;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, OneofDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use super::*;

/// `demo.Spec`, with a field of each kind that matters, and `demo.Inner` for its `inner`.
fn pool() -> DescriptorPool {
    let field = |number, name: &str, label: Label, kind: Type, type_name: Option<&str>| FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        type_name: type_name.map(Into::into),
        ..FieldDescriptorProto::default()
    };
    let scalar = |number, name: &str, kind| field(number, name, Label::Optional, kind, None);
    let message =
        |number, name: &str, label, type_name: &str| field(number, name, label, Type::Message, Some(type_name));
    let reference = ".hashicorp.consul.resource.Reference";
    let mut optional = scalar(9, "maybe", Type::Bool);
    optional.oneof_index = Some(0);
    optional.proto3_optional = Some(true);
    let spec = DescriptorProto {
        name: Some("Spec".into()),
        field: vec![
            message(1, "inner", Label::Optional, ".demo.Inner"),
            message(2, "inners", Label::Repeated, ".demo.Inner"),
            message(3, "owner", Label::Optional, ".hashicorp.consul.resource.ID"),
            scalar(4, "text", Type::String),
            scalar(5, "number", Type::Int64),
            field(6, "words", Label::Repeated, Type::String, None),
            field(7, "colour", Label::Optional, Type::Enum, Some(".demo.Colour")),
            scalar(8, "raw", Type::Bytes),
            optional,
        ],
        oneof_decl: vec![OneofDescriptorProto { name: Some("_maybe".into()), ..OneofDescriptorProto::default() }],
        ..DescriptorProto::default()
    };
    let inner = DescriptorProto {
        name: Some("Inner".into()),
        field: vec![
            message(1, "target", Label::Optional, reference),
            message(2, "targets", Label::Repeated, reference),
            scalar(3, "weight", Type::Double),
        ],
        ..DescriptorProto::default()
    };
    let value = |name: &str, number| EnumValueDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        ..EnumValueDescriptorProto::default()
    };
    let colour = EnumDescriptorProto {
        name: Some("Colour".into()),
        value: vec![value("COLOUR_UNSPECIFIED", 0), value("COLOUR_RED", 1)],
        ..EnumDescriptorProto::default()
    };
    let file = FileDescriptorProto {
        name: Some("demo.proto".into()),
        package: Some("demo".into()),
        dependency: vec!["hashicorp/consul/resource/resource.proto".into()],
        message_type: vec![spec, inner],
        enum_type: vec![colour],
        syntax: Some("proto3".into()),
        ..FileDescriptorProto::default()
    };
    let mut files = FileDescriptorSet::decode(mortise_resource::DESCRIPTORS).unwrap();
    files.file.push(file);
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

fn spec() -> MessageDescriptor {
    pool().get_message_by_name("demo.Spec").unwrap()
}

/// Encoded data with these fields.
fn data(fields: &[(&str, Value)]) -> Vec<u8> {
    let mut message = DynamicMessage::new(spec());
    fields.iter().for_each(|(name, value)| message.set_field_by_name(name, value.clone()));
    message.encode_to_vec()
}

fn known(message_name: &str, message: &impl prost::Message) -> Value {
    let descriptor = pool().get_message_by_name(&format!("hashicorp.consul.resource.{message_name}")).unwrap();
    Value::Message(DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).unwrap())
}

fn inner(fields: &[(&str, Value)]) -> Value {
    let mut message = DynamicMessage::new(pool().get_message_by_name("demo.Inner").unwrap());
    fields.iter().for_each(|(name, value)| message.set_field_by_name(name, value.clone()));
    Value::Message(message)
}

fn references(path: &str) -> Result<References, String> {
    DataPath::new(path).and_then(|path| path.references(&spec())).map_err(|e| e.to_string())
}

fn values(path: &str) -> Result<Values, String> {
    DataPath::new(path).and_then(|path| path.values(&spec())).map_err(|e| e.to_string())
}

fn artist(name: &str) -> pb::Reference {
    let (group, group_version, kind) = ("demo".into(), "v2".into(), "Artist".into());
    pb::Reference {
        r#type: Some(pb::Type { group, group_version, kind }),
        tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: "n".into() }),
        name: name.into(),
        section: String::new(),
    }
}

#[test]
fn references_are_found_single_repeated_and_as_ids() {
    let targets = ["one", "two"].map(|name| known("Reference", &artist(name)));
    let id = pb::Id { uid: "01".into(), name: "three".into(), r#type: artist("").r#type, tenancy: artist("").tenancy };
    let bytes = data(&[
        ("inner", inner(&[("target", targets[0].clone()), ("targets", Value::List(targets.to_vec()))])),
        ("owner", known("ID", &id)),
    ]);
    assert_eq!(references("inner.target").unwrap().read(&bytes).unwrap(), [artist("one")]);
    assert_eq!(references("inner.targets").unwrap().read(&bytes).unwrap(), [artist("one"), artist("two")]);
    assert_eq!(references("owner").unwrap().read(&bytes).unwrap(), [artist("three")]);
}

#[test]
fn what_is_not_set_or_not_whole_refers_to_nothing() {
    for path in ["inner.target", "inner.targets", "owner"] {
        assert_eq!(references(path).unwrap().read(&[]).unwrap(), [], "{path}");
    }
    let nameless = pb::Reference { name: String::new(), ..artist("") };
    let typeless = pb::Reference { r#type: None, ..artist("x") };
    let targets = vec![known("Reference", &nameless), known("Reference", &typeless)];
    let bytes = data(&[("inner", inner(&[("targets", Value::List(targets))]))]);
    assert_eq!(references("inner.targets").unwrap().read(&bytes).unwrap(), []);
}

#[test]
fn values_are_text() {
    let bytes = data(&[
        ("text", Value::String("blue".into())),
        ("number", Value::I64(-3)),
        ("words", Value::List(["b", "", "a"].map(|word| Value::String(word.into())).to_vec())),
        ("colour", Value::EnumNumber(1)),
        ("maybe", Value::Bool(false)),
        ("inner", inner(&[("weight", Value::F64(0.5))])),
    ]);
    for (path, expected) in [
        ("text", &["blue"][..]),
        ("number", &["-3"]),
        ("words", &["b", "a"]),
        ("colour", &["COLOUR_RED"]),
        ("maybe", &["false"]),
        ("inner.weight", &["0.5"]),
    ] {
        assert_eq!(values(path).unwrap().read(&bytes).unwrap(), expected, "{path}");
    }
    for (path, expected) in [
        ("text", &[][..]),
        ("number", &["0"]),
        ("colour", &["COLOUR_UNSPECIFIED"]),
        ("maybe", &[]),
        ("inner.weight", &[]),
        ("words", &[]),
    ] {
        assert_eq!(values(path).unwrap().read(&[]).unwrap(), expected, "{path}, nothing set");
    }
    assert_eq!(values("colour").unwrap().read(&data(&[("colour", Value::EnumNumber(7))])).unwrap(), ["7"]);
}

#[test]
fn entries_of_a_map_are_values() {
    let files = FileDescriptorSet::decode(mortise_resource::DESCRIPTORS).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let resource = pool.get_message_by_name("hashicorp.consul.resource.Resource").unwrap();
    let metadata = [("app", "web"), ("empty", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let data = mortise_resource::pb::Resource { metadata, ..Default::default() }.encode_to_vec();
    let found = DataPath::new("metadata").unwrap().values(&resource).unwrap();
    let mut values = found.read(&data).unwrap();
    values.sort();
    assert_eq!(values, ["app=web", "empty="]);
    let fault = DataPath::new("status").unwrap().values(&resource).unwrap_err().to_string();
    assert!(fault.contains("only maps of string to string"), "{fault}");
}

#[test]
fn a_path_that_leads_nowhere_says_why() {
    for (path, says) in [
        ("", "is not a path"),
        ("inner..target", "is not a path"),
        ("a b", "is not a path"),
        ("1a", "is not a path"),
        (&"a.".repeat(200), "is not a path"),
        ("nothing", "demo.Spec has no field \"nothing\""),
        ("inner.nothing", "demo.Inner has no field \"nothing\""),
        ("inners.target", "goes through a field that is not a single message"),
        ("text.more", "goes through a field that is not a single message"),
        ("text", "is neither a hashicorp.consul.resource.Reference nor an hashicorp.consul.resource.ID"),
        ("inner", "is neither a hashicorp.consul.resource.Reference"),
    ] {
        let fault = references(path).unwrap_err();
        assert!(fault.contains(says), "{path}: {fault}");
    }
    for path in ["inner", "raw", "inner.target"] {
        assert!(values(path).unwrap_err().contains("is not a string, number, bool or enum"), "{path}");
    }
}

#[test]
fn data_that_does_not_decode_is_an_error() {
    let fault = values("text").unwrap().read(&[0xff]).unwrap_err().to_string();
    assert!(fault.starts_with("data is not a demo.Spec: "), "{fault}");
}

/// A plugin's descriptors may have a message of that name with other content.
#[test]
fn a_false_reference_is_an_error_and_no_panic() {
    let mut files = FileDescriptorSet::decode(mortise_resource::DESCRIPTORS).unwrap();
    for file in &mut files.file {
        for message in &mut file.message_type {
            if message.name() == "Reference" {
                // `type` is text.
                message.field[0].r#type = Some(Type::String.into());
                message.field[0].type_name = None;
            }
        }
    }
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let condition = pool.get_message_by_name("hashicorp.consul.resource.Condition").unwrap();
    let found = DataPath::new("resource").unwrap().references(&condition).unwrap();
    let reference = pool.get_message_by_name("hashicorp.consul.resource.Reference").unwrap();
    let mut false_one = DynamicMessage::new(reference);
    false_one.set_field_by_name("type", Value::String("x".into()));
    let mut data = DynamicMessage::new(condition);
    data.set_field_by_name("resource", Value::Message(false_one));
    assert!(found.read(&data.encode_to_vec()).is_err());
}
