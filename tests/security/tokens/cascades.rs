//! Policies go only by a deletion whose caller may take away what they deny.

use mortise_resource::{
    data,
    goten::{Meta, OwnerReference},
    pb,
};
use tonic::Code;

use super::allow;
use crate::support::{tokens::*, *};

const MARK: &str = "deletionTimestamp";
const FINALIZERS: &str = "finalizers";

/// Rules of a caller that may write policies.
fn clerk() -> Vec<data::TypeRule> {
    vec![
        allow(&["read", "list", "write", "delete"], &["mortise/Token", "mortise/Policy"]),
        allow(&["read", "list", "write", "delete"], &["demo/*"]),
    ]
}

fn fence() -> data::TypeRule {
    data::TypeRule { deny: true, names: vec!["secret".into()], ..allow(&["read"], &["demo/Artist"]) }
}

fn policy(name: &str) -> pb::Resource {
    let policy = data::Policy { type_rules: vec![fence()], ..data::Policy::default() };
    resource(id("mortise.v1.Policy", name), Some(any("mortise.v1.Policy", &policy)))
}

/// A cascade has no caller whose permissions count, so a policy has no owner, on any way to write it.
#[tokio::test]
async fn a_policy_has_no_owner_and_no_owner_reference() {
    let guarded = Guarded::start(Setup::new()).await;
    let owner = guarded.write(artist("owner")).await;
    let mut client = guarded.resources(&guarded.management).await;
    let reference = OwnerReference { kind: "demo/Artist".into(), name: "owner".into(), ..OwnerReference::default() };
    let referring = Meta { owner_references: vec![reference], ..Meta::default() };
    for (wrong, path) in [
        (pb::Resource { owner: owner.id.clone(), ..policy("owned") }, "owner"),
        (pb::Resource { meta: Some(Box::new(referring)), ..policy("owned") }, "meta.owner_references"),
    ] {
        let (code, text) = refusal(client.write(pb::WriteRequest { resource: Some(wrong.clone()) }).await);
        let expected = format!("resource.{path}: a policy has no owner");
        assert!(code == Code::InvalidArgument && text.starts_with(&expected), "{code:?}: {text}");
        let checked = client.mutate_and_validate(pb::MutateAndValidateRequest { resource: Some(wrong) }).await;
        assert!(refusal(checked).1.starts_with(&expected));
    }
    client.write(pb::WriteRequest { resource: Some(policy("owned")) }).await.unwrap();
    // Nor does it get one later.
    let reference = OwnerReference { kind: "demo/Artist".into(), name: "owner".into(), ..OwnerReference::default() };
    let referring = Meta { owner_references: vec![reference], ..Meta::default() };
    let wrong = pb::Resource { meta: Some(Box::new(referring)), ..policy("owned") };
    let (code, text) = refusal(client.write(pb::WriteRequest { resource: Some(wrong) }).await);
    assert!(code == Code::InvalidArgument && text.contains("meta.owner_references"), "{code:?}: {text}");
    // A token may have an owner, since its deletion opens nothing.
    let token = data::Token { secret_sha256: vec![7; 32], ..data::Token::default() };
    let token = resource(id("mortise.v1.Token", "owned"), Some(any("mortise.v1.Token", &token)));
    guarded.write(pb::Resource { owner: owner.id.clone(), ..token }).await;
    guarded.delete(owner.id.unwrap()).await;
    eventually("the token is gone", async || {
        let read = client.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "owned")) }).await;
        read.is_err_and(|status| status.code() == Code::NotFound)
    })
    .await;
}

/// A mark and the last finalizer delete as Delete does.
#[tokio::test]
async fn marks_and_finalizers_open_nothing_that_is_denied() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("clerk", "", clerk()).await;
    let held =
        |metadata: &[(&str, &str)]| pb::Resource { metadata: crate::support::metadata(metadata), ..policy("fence") };
    guarded.write(held(&[(FINALIZERS, "example.com/held")])).await;
    let fenced = guarded.token("fenced", &["clerk", "fence"], |_| {}).await;
    let free = guarded.token("free", &["clerk"], |_| {}).await;
    let (mut client, mut other) = (guarded.resources(&fenced).await, guarded.resources(&free).await);
    let stamp = (MARK, "2026-01-01T00:00:00Z");
    let mark = held(&[stamp, (FINALIZERS, "example.com/held")]);
    let (code, text) = refusal(client.write(pb::WriteRequest { resource: Some(mark.clone()) }).await);
    assert!(code == Code::PermissionDenied && text.contains("read:demo/Artist:secret"), "{code:?}: {text}");
    // What is harmless stays possible.
    let noted = held(&[(FINALIZERS, "example.com/held"), ("note", "x")]);
    client.write(pb::WriteRequest { resource: Some(noted) }).await.unwrap();
    client.write(pb::WriteRequest { resource: Some(held(&[(FINALIZERS, "example.com/held")])) }).await.unwrap();
    other.write(pb::WriteRequest { resource: Some(mark) }).await.unwrap();
    for metadata in [&[stamp, (FINALIZERS, "")][..], &[(FINALIZERS, "")]] {
        let last = pb::WriteRequest { resource: Some(held(metadata)) };
        let (code, text) = refusal(client.write(last).await);
        assert!(code == Code::PermissionDenied && text.contains("read:demo/Artist:secret"), "{code:?}: {text}");
    }
    let read = client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "secret")) }).await;
    assert_eq!(refusal(read).0, Code::PermissionDenied);
    other.write(pb::WriteRequest { resource: Some(held(&[stamp, (FINALIZERS, "")])) }).await.unwrap();
    let read = client.read(pb::ReadRequest { id: Some(id("mortise.v1.Policy", "fence")) }).await;
    assert_eq!(refusal(read).0, Code::NotFound);
}
