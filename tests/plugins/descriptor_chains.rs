//! The longest descriptor chains that a plugin may have: walks over them must use a bounded stack.

use crate::support::{Setup, gvk, id, resource};
use mortise_api::TypeServiceClient;
use mortise_resource::{data, manifest::Manifest};
use mortise_test_guests::{good_manifest, manifest_only};
use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// A message with one field of the type `next`.
fn link(name: String, next: Option<String>) -> DescriptorProto {
    let field = next.map(|next| FieldDescriptorProto {
        name: Some("next".to_owned()),
        number: Some(1),
        label: Some(Label::Optional.into()),
        r#type: Some(Type::Message.into()),
        type_name: Some(format!(".chain.{next}")),
        ..FieldDescriptorProto::default()
    });
    DescriptorProto { name: Some(name), field: field.into_iter().collect(), ..DescriptorProto::default() }
}

fn file(name: String, dependency: Vec<String>, message_type: Vec<DescriptorProto>) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name),
        package: Some("chain".to_owned()),
        syntax: Some("proto3".to_owned()),
        dependency,
        message_type,
        ..FileDescriptorProto::default()
    }
}

/// The good plugin, with `chain.Link0` of these files as its type's message.
fn plugin(file: Vec<FileDescriptorProto>) -> Vec<u8> {
    let mut manifest: Manifest = good_manifest();
    manifest.descriptors = Some(FileDescriptorSet { file }.into());
    manifest.types[0].message = "chain.Link0".to_owned();
    manifest_only(&manifest.encode_to_vec())
}

/// A plugin with this many messages, each containing the next.
fn of_messages(count: usize) -> Vec<u8> {
    let next = |n: usize| (n + 1 < count).then(|| format!("Link{}", n + 1));
    plugin(vec![file(
        "chain.proto".to_owned(),
        vec![],
        (0..count).map(|n| link(format!("Link{n}"), next(n))).collect(),
    )])
}

/// A plugin with this many files, each importing the next and containing its message.
fn of_files(count: usize) -> Vec<u8> {
    let one = |n: usize| {
        let next = (n + 1 < count).then(|| n + 1);
        let dependency = next.map(|next| format!("chain{next}.proto")).into_iter().collect();
        let message = link(format!("Link{n}"), next.map(|next| format!("Link{next}")));
        file(format!("chain{n}.proto"), dependency, vec![message])
    };
    plugin((0..count).rev().map(one).collect())
}

/// Requests everything that is made of descriptors, and a resource of the type.
async fn describe(component: Vec<u8>, files: usize) {
    let server = Setup::new().component("good", component).start().await;
    let (code, api) = server.get("/v1/openapi.json").await;
    assert_eq!(code, 200, "{}", &api[..api.len().min(300)]);
    assert!(api.contains("chain.Link1\""), "the document lacks the chain");
    let (code, answer) = server.get("/v1/types/good.v1.Thing").await;
    assert_eq!(code, 200, "{}", &answer[..answer.len().min(300)]);
    let wanted = data::GetTypeRequest { r#type: Some(gvk("good.v1.Thing")) };
    let mut types = TypeServiceClient::new(server.channel().await).max_decoding_message_size(64 << 20);
    let answer = types.get_type(wanted).await.unwrap().into_inner();
    assert_eq!(answer.descriptors.unwrap().file.len(), files);
    server.write(resource(id("good.v1.Thing", "fine"), None)).await.unwrap();
}

#[tokio::test]
async fn a_chain_of_messages_is_described() {
    describe(of_messages(20_000), 1).await;
}

#[tokio::test]
async fn a_chain_of_imports_is_described() {
    describe(of_files(1_024), 1_024).await;
}

#[tokio::test]
async fn more_than_a_plugin_may_declare_is_refused_and_hurts_nothing() {
    let server = Setup::new()
        .component("many-files", of_files(5_000))
        .component("many-messages", of_messages(40_000))
        .component("good", manifest_only(&good_manifest().encode_to_vec()))
        .start()
        .await;
    let line = server.refused_file("/many-files.wasm");
    assert!(line.contains("descriptors: at most 1024 files, got: 5000; merge files"), "{line}");
    let line = server.refused_file("/many-messages.wasm");
    assert!(
        line.contains("descriptors: at most 65536 messages, fields, enums and values in all, got: 79999"),
        "{line}"
    );
    server.write(resource(id("good.v1.Thing", "fine"), None)).await.unwrap();
}
