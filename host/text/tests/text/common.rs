//! Types for the tests: the demo's, and one with a field of every kind.

use std::sync::LazyLock;

use mortise_resource::{data::TypeInfo, manifest::Scope, pb, types::Gvk};
use mortise_text::{Document, Format, Source, TypeTable, Types, parse};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};

/// The types: demo.v1 and demo.v2, and test.v1.Everything.
pub fn types() -> &'static TypeTable {
    static TYPES: LazyLock<TypeTable> = LazyLock::new(|| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text/proto");
        let files = [
            "hashicorp/consul/internal/demo/v1/demo.proto",
            "hashicorp/consul/internal/demo/v2/demo.proto",
            "everything.proto",
        ];
        let descriptors = protox::compile(files, [root, own]).unwrap();
        let mut table = TypeTable::new();
        let demo = "hashicorp.consul.internal.demo";
        for (group, version, kind, message, scope) in [
            ("demo", "v1", "Executive", format!("{demo}.v1.Executive"), Scope::Cluster),
            ("demo", "v1", "RecordLabel", format!("{demo}.v1.RecordLabel"), Scope::Partition),
            ("demo", "v1", "Artist", format!("{demo}.v1.Artist"), Scope::Namespace),
            ("demo", "v1", "Concept", format!("{demo}.v1.Concept"), Scope::Namespace),
            ("demo", "v2", "Artist", format!("{demo}.v2.Artist"), Scope::Namespace),
            ("demo", "v2", "Album", format!("{demo}.v2.Album"), Scope::Namespace),
            ("demo", "v2", "Festival", format!("{demo}.v2.Festival"), Scope::Namespace),
            ("test", "v1", "Everything", "test.Everything".to_owned(), Scope::Namespace),
            ("test", "v1", "Free", "google.protobuf.Struct".to_owned(), Scope::Namespace),
        ] {
            let info = TypeInfo {
                r#type: Some(Gvk::new(group, version, kind).to_pb()),
                scope: scope.into(),
                message,
                short_names: vec![format!("{}s", kind.to_lowercase())],
                ..Default::default()
            };
            table.add(&info, &descriptors.clone().into()).unwrap();
        }
        table
    });
    &TYPES
}

pub fn pool() -> DescriptorPool {
    types().message(&Gvk::new("test", "v1", "Everything").to_pb()).unwrap().parent_pool().clone()
}

/// The documents of a text that has no faults.
pub fn documents(text: &str, format: Format) -> Vec<Document> {
    parse(Source { name: "-", text }, Some(format), types()).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

/// The only resource of a text that has no faults.
pub fn resource(text: &str, format: Format) -> pb::Resource {
    let mut documents = documents(text, format);
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0).resource
}

/// The data of a resource.
pub fn data(resource: &pb::Resource) -> DynamicMessage {
    let any = resource.data.as_ref().unwrap();
    let name = any.type_url.rsplit('/').next().unwrap();
    DynamicMessage::decode(pool().get_message_by_name(name).unwrap(), any.value.as_slice()).unwrap()
}

/// The faults of a text, as they are printed.
pub fn faults(text: &str, format: Format) -> String {
    match parse(Source { name: "f", text }, Some(format), types()) {
        Ok(documents) => panic!("no faults: {documents:?}\n{text}"),
        Err(faults) => faults.to_string(),
    }
}

/// A resource of test.v1.Everything.
pub fn everything(message: &DynamicMessage) -> pb::Resource {
    pb::Resource {
        id: Some(pb::Id {
            name: "x".into(),
            r#type: Some(Gvk::new("test", "v1", "Everything").to_pb()),
            tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
            uid: String::new(),
        }),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/test.Everything".into(),
            value: message.encode_to_vec(),
        }),
        ..Default::default()
    }
}

/// A field of test.v1.Everything that a line of YAML or JSON sets.
pub fn field(line: &str, name: &str) -> Value {
    let text = format!("type: test.v1.Everything\nname: x\ndata:\n  {line}\n");
    data(&resource(&text, Format::Yaml)).get_field_by_name(name).unwrap().into_owned()
}

/// The one fault of a line of YAML in test.v1.Everything, without its place.
pub fn field_fault(line: &str) -> String {
    let text = format!("type: test.v1.Everything\nname: x\ndata:\n  {line}\n");
    let printed = faults(&text, Format::Yaml);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let fault = printed.splitn(4, ':').nth(3).unwrap().trim();
    fault.to_owned()
}
