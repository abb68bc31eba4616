//! The document, against the meta-schema and by what it must say.
use crate::common::{message, pool};
use mortise_resource::{Scope, types::Gvk};
use mortise_text::schema::{Api, TypeDoc, openapi};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde_json::{Value, json};

const META: &str = include_str!("meta/openapi-3.1.json");

struct Type(Gvk, Scope, Option<&'static str>, MessageDescriptor);

fn document(types: &[Type]) -> Value {
    let resource = message("hashicorp.consul.resource.Resource");
    openapi(&Api {
        version: "1.2.3",
        group: None,
        resource: &resource,
        types: types
            .iter()
            .map(|Type(gvk, scope, plugin, message)| TypeDoc {
                gvk,
                scope: *scope,
                plugin: *plugin,
                message,
                path: format!("/api/{}/{}/{}", gvk.group, gvk.group_version, gvk.kind.to_lowercase()),
            })
            .collect(),
    })
}

fn types() -> Vec<Type> {
    let demo = |name: &str| message(&format!("hashicorp.consul.internal.demo.{name}"));
    vec![
        Type(Gvk::new("kitchen", "v1", "Sink"), Scope::Namespace, Some("kitchen"), message("kitchen.v1.Sink")),
        Type(Gvk::new("demo", "v1", "Executive"), Scope::Cluster, Some("demo"), demo("v1.Executive")),
        Type(Gvk::new("demo", "v1", "RecordLabel"), Scope::Partition, Some("demo"), demo("v1.RecordLabel")),
        Type(Gvk::new("demo", "v2", "Festival"), Scope::Namespace, Some("demo"), demo("v2.Festival")),
        Type(
            Gvk::new("internal", "v1", "Tombstone"),
            Scope::Undefined,
            None,
            message("hashicorp.consul.resource.Tombstone"),
        ),
        Type(Gvk::new("mortise", "v1", "Plugin"), Scope::Cluster, None, message("mortise.v1.Plugin")),
        Type(Gvk::new("odd", "v1", "Struct"), Scope::Cluster, Some("odd"), message("google.protobuf.Struct")),
    ]
}

#[test]
fn it_is_valid() {
    let meta: Value = serde_json::from_str(META).unwrap();
    let validator = jsonschema::draft202012::new(&meta).unwrap();
    for types in [types(), Vec::new()] {
        let document = document(&types);
        if let Err(e) = validator.validate(&document) {
            panic!("{}: {e}", e.instance_path());
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            jsonschema::draft202012::meta::validate(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    assert!(!validator.is_valid(&json!({ "openapi": "3.1.0" })), "the meta-schema refuses what is none");
}

/// Every `$ref`.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document(&types());
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 100);
    for reference in found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
}

#[test]
fn every_type_has_its_operations() {
    let document = document(&types());
    let mut ids = Vec::new();
    for Type(gvk, scope, ..) in types() {
        let path = format!("/api/{}/{}/{}", gvk.group, gvk.group_version, gvk.kind.to_lowercase());
        let item = &document["paths"][format!("{path}/{{name}}")];
        let dry = &document["paths"][format!("{path}/{{name}}/_validate")];
        let all = &document["paths"][&path];
        let watches = [
            &document["paths"][format!("{path}/_watch")]["get"],
            &document["paths"][format!("{path}/{{name}}/_watch")]["get"],
        ];
        let changes = [&all["post"], &item["put"], &item["patch"], &item["delete"], &dry["post"]];
        for operation in [&all["get"], &item["get"]].into_iter().chain(changes).chain(watches) {
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            let has = |name: &str| {
                let is = |p: &Value| p["$ref"].as_str().unwrap().ends_with(&format!("/{name}"));
                let many = |p: &Value| p["$ref"].as_str().unwrap().ends_with(&format!("/{name}-of-many"));
                operation["parameters"].as_array().unwrap().iter().any(|p| is(p) || many(p))
            };
            assert_eq!(has("partition"), scope != Scope::Cluster, "{operation}");
            assert_eq!(has("namespace"), matches!(scope, Scope::Namespace | Scope::Undefined), "{operation}");
        }
        assert!(item["put"]["requestBody"]["required"].as_bool().unwrap());
        // Generated clients send these.
        for (operation, media) in [(&item["put"], "application/json"), (&item["patch"], "application/merge-patch+json")]
        {
            let content = operation["requestBody"]["content"].as_object().unwrap();
            assert_eq!(content.keys().collect::<Vec<_>>(), [media]);
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// A schema of the document, with the document around it so that references lead somewhere.
fn schema(document: &Value, name: &str) -> jsonschema::Validator {
    let mut around = document.clone();
    around["$ref"] = json!(format!("#/components/schemas/{name}"));
    jsonschema::draft202012::new(&around).unwrap()
}

#[test]
fn resources_and_bodies_are_described() {
    let document = document(&types());
    let read = schema(&document, "Resource-demo.v2.Festival");
    let printed = json!({
        "data": { "name": "x", "artists": [{ "genre": "GENRE_ROCK" }] },
        "generation": "g",
        "id": { "name": "n", "tenancy": { "partition": "default" }, "type": { "groupVersion": "v2" }, "uid": "u" },
        "metadata": { "a": "b" },
        "status": { "k": { "conditions": [{ "state": "STATE_TRUE" }], "updatedAt": "2024-01-01T00:00:00Z" } },
        "schemaVersion": 2,
        "version": "1",
    });
    assert!(read.is_valid(&printed));
    let changed = |pointer: &str, to: Value| {
        let mut changed = printed.clone();
        *changed.pointer_mut(pointer).unwrap() = to;
        changed
    };
    let mut unprintable = printed.clone();
    unprintable["unprintableData"] = json!({ "@type": "x", "@bytes": "AA==" });
    assert!(read.is_valid(&unprintable));
    assert!(read.is_valid(&changed("/data", json!({ "@unknown": "wD4H" }))));
    assert!(!read.is_valid(&changed("/data", json!({ "@type": "x", "@bytes": "AA==" }))));
    assert!(!read.is_valid(&changed("/data", json!({ "nome": "x" }))));
    assert!(!read.is_valid(&changed("/metadata/a", json!(1))));
    assert!(!read.is_valid(&changed("/id/name", json!(1))));

    let write = schema(&document, "Write-demo.v2.Festival");
    assert!(write.is_valid(&printed), "what was read can be written");
    assert!(write.is_valid(&json!({ "data": {} })));
    assert!(!write.is_valid(&json!({})));
    assert!(!write.is_valid(&json!({ "data": { "nome": "x" } })));
    assert!(!write.is_valid(&json!({ "data": {}, "owner": { "nome": "x" } })));
}

/// Two plugins may have different messages of one name.
#[test]
fn messages_of_one_name_stay_apart() {
    use prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, field_descriptor_proto,
    };
    let other = |field: &str| {
        let message = DescriptorProto {
            name: Some("Sink".into()),
            field: vec![FieldDescriptorProto {
                name: Some(field.into()),
                number: Some(1),
                label: Some(field_descriptor_proto::Label::Optional.into()),
                r#type: Some(field_descriptor_proto::Type::String.into()),
                ..Default::default()
            }],
            ..Default::default()
        };
        let file = FileDescriptorProto {
            name: Some("other.proto".into()),
            package: Some("kitchen.v1".into()),
            syntax: Some("proto3".into()),
            message_type: vec![message],
            ..Default::default()
        };
        let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: vec![file] }).unwrap();
        pool.get_message_by_name("kitchen.v1.Sink").unwrap()
    };
    // A plugin may ship descriptors without comments.
    let mut files: Vec<_> = pool().file_descriptor_protos().cloned().collect();
    files.iter_mut().for_each(|file| file.source_code_info = None);
    let bare = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: files }).unwrap();
    let mut types = types();
    types.push(Type(
        Gvk::new("bare", "v1", "Sink"),
        Scope::Cluster,
        Some("bare"),
        bare.get_message_by_name("kitchen.v1.Sink").unwrap(),
    ));
    types.push(Type(Gvk::new("one", "v1", "Sink"), Scope::Cluster, Some("one"), other("only_here")));
    types.push(Type(Gvk::new("two", "v1", "Sink"), Scope::Cluster, Some("two"), other("only_here")));
    types.push(Type(
        Gvk::new("same", "v1", "Sink"),
        Scope::Cluster,
        Some("same"),
        pool().get_message_by_name("kitchen.v1.Sink").unwrap(),
    ));
    let document = document(&types);
    let data = |t: &str| document["components"]["schemas"][format!("Write-{t}")]["properties"]["data"]["$ref"].clone();
    assert_eq!(data("kitchen.v1.Sink"), "#/components/schemas/kitchen.v1.Sink");
    assert_eq!(data("same.v1.Sink"), "#/components/schemas/kitchen.v1.Sink");
    assert_eq!(data("bare.v1.Sink"), "#/components/schemas/kitchen.v1.Sink");
    assert_eq!(data("one.v1.Sink"), "#/components/schemas/one-kitchen.v1.Sink");
    assert!(schema(&document, "Write-one.v1.Sink").is_valid(&json!({ "data": { "onlyHere": "x" } })));
    assert!(!schema(&document, "Write-kitchen.v1.Sink").is_valid(&json!({ "data": { "onlyHere": "x" } })));
}
