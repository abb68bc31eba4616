//! Callers without any policy learn from no answer which types there are.

use mortise_api::AuthServiceClient;
use mortise_resource::{data, pb};
use tonic::{Code, Status};

use super::allow;
use crate::support::{tokens::*, *};

/// Types of which the first ones exist.
const TYPES: [&str; 4] = ["demo.v2.Artist", "demo.v1.RecordLabel", "mortise.v1.Token", "nope.v1.Nope"];

/// The refusals of every method about a type, without its name.
async fn refusals(guarded: &Guarded, secret: &str, kind: &str) -> Vec<(Code, String)> {
    let mut client = guarded.resources(secret).await;
    let about = id_in(kind, "thing", "default", "default");
    let (of, place) = (Some(gvk(kind)), Some(tenancy("default", "default")));
    let mut all = Vec::new();
    let mut note = |answer: Result<(), Status>| {
        let status = answer.expect_err(kind);
        all.push((status.code(), status.message().to_owned()));
    };
    note(client.read(pb::ReadRequest { id: Some(about.clone()) }).await.map(drop));
    for data in [None, Some(any("hashicorp.consul.internal.demo.v2.Artist", &pb::Id::default()))] {
        let sent = resource(about.clone(), data);
        note(client.write(pb::WriteRequest { resource: Some(sent.clone()) }).await.map(drop));
        note(client.mutate_and_validate(pb::MutateAndValidateRequest { resource: Some(sent) }).await.map(drop));
    }
    let status = pb::Status { observed_generation: "01KA0000000000000000000000".into(), ..pb::Status::default() };
    let request =
        pb::WriteStatusRequest { id: Some(about.clone()), key: "k".into(), status: Some(status), ..Default::default() };
    note(client.write_status(request).await.map(drop));
    let request = pb::ListRequest { r#type: of.clone(), tenancy: place.clone(), name_prefix: String::new() };
    note(client.list(request).await.map(drop));
    let owner = pb::Id { uid: "01KA0000000000000000000000".into(), ..about.clone() };
    note(client.list_by_owner(pb::ListByOwnerRequest { owner: Some(owner) }).await.map(drop));
    let request = pb::WatchListRequest { r#type: of, tenancy: place, name_prefix: String::new(), after: None };
    let watched = match client.watch_list(request).await {
        Ok(stream) => stream.into_inner().message().await.map(drop),
        Err(status) => Err(status),
    };
    note(watched);
    // As in Consul, a deletion of what does not exist succeeds.
    let deleted = client.delete(pb::DeleteRequest { id: Some(about.clone()), version: String::new() }).await;
    assert!(deleted.is_ok(), "{kind}: {deleted:?}");
    let mut auth = AuthServiceClient::new(guarded.channel(secret).await);
    for verb in ["read", "list", "write", "delete"] {
        let request = data::CanIRequest { verb: verb.into(), id: Some(about.clone()), ..data::CanIRequest::default() };
        let answer = auth.can_i(request).await.unwrap().into_inner();
        assert!(!answer.allowed, "{kind} {verb}");
        all.push((Code::Ok, answer.reason));
    }
    all
}

#[tokio::test]
async fn types_that_exist_and_others_get_the_same_refusals() {
    let guarded = Guarded::start(Setup::new()).await;
    let bare = guarded.token("bare", &[], |_| {}).await;
    for secret in ["", &*bare] {
        let expected = refusals(&guarded, secret, TYPES[3]).await;
        assert!(expected.iter().all(|(code, _)| matches!(code, Code::PermissionDenied | Code::Ok)), "{expected:?}");
        for kind in TYPES {
            assert_eq!(refusals(&guarded, secret, kind).await, expected, "{kind}");
        }
    }
    // A caller with a policy gets the reasons.
    guarded.policy("some", "", vec![allow(&["read"], &["demo/Artist"])]).await;
    let some = guarded.token("some", &["some"], |_| {}).await;
    let mut client = guarded.resources(&some).await;
    let status = client.read(pb::ReadRequest { id: Some(id("nope.v1.Nope", "thing")) }).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "resource type nope.v1.Nope not registered"));
    let status = client.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "x")) }).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn paths_of_http_that_exist_and_others_get_the_same_refusals() {
    let guarded = Guarded::start(Setup::new()).await;
    let server = &guarded.server;
    let there = ["/api/demo/v2/artist", "/api/demo/v1/recordlabel", "/api/mortise/v1/token"];
    for (method, rest, body) in [
        ("GET", "", ""),
        ("GET", "/thing", ""),
        ("HEAD", "/thing", ""),
        ("GET", "?watch", ""),
        ("GET", "/thing?watch", ""),
        ("GET", "?filter=name+%3D+1", ""),
        ("GET", "?ns=UPPER", ""),
        ("PUT", "/thing", "{\"data\": {\"nonsense\": 1}}"),
        ("PUT", "/thing", "{"),
        ("DELETE", "/thing", ""),
        ("PATCH", "/thing", "{}"),
        ("OPTIONS", "/thing", ""),
        ("POST", "/thing/validate", "{}"),
        ("GET", "/thing/more/parts", ""),
    ] {
        let ask = async |path: &str| {
            let answer = server.ask(method, &format!("{path}{rest}")).body(body).await_answer().await;
            (answer.code(), answer.header("content-type").to_owned(), answer.header("allow").to_owned(), answer.body)
        };
        let expected = ask("/api/nope/v1/nope").await;
        assert_eq!(expected.0, 403, "{method} {rest}: {expected:?}");
        for path in there {
            let (code, form, allowed, body) = ask(path).await;
            assert_eq!(
                (code, form, allowed, body.replace(path, "/api/nope/v1/nope")),
                expected,
                "{method} {path}{rest}"
            );
        }
    }
}
