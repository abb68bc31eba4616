//! Tokens and policies grant nothing that their writer does not hold, on every surface.

use mortise_api::{AuthServiceClient, ChangeServiceClient, QueryServiceClient};
use mortise_resource::{data, pb};
use sha2::{Digest as _, Sha256};
use tonic::Code;

use super::allow;
use crate::support::{tokens::*, *};

fn token(name: &str, policies: &[&str]) -> pb::Resource {
    let token = data::Token {
        secret_sha256: Sha256::digest(name).to_vec(),
        policies: policies.iter().map(|one| (*one).to_owned()).collect(),
        ..data::Token::default()
    };
    resource(id("mortise.v1.Token", name), Some(any("mortise.v1.Token", &token)))
}

fn policy(name: &str, rules: &str, type_rules: Vec<data::TypeRule>) -> pb::Resource {
    let policy = data::Policy { rules: rules.to_owned(), type_rules, ..data::Policy::default() };
    resource(id("mortise.v1.Policy", name), Some(any("mortise.v1.Policy", &policy)))
}

fn deny(verbs: &[&str], types: &[&str]) -> data::TypeRule {
    data::TypeRule { deny: true, ..allow(verbs, types) }
}

/// The rules of a caller that may write tokens and policies, and read artists.
fn clerk() -> Vec<data::TypeRule> {
    vec![
        allow(&["read", "list", "write", "delete"], &["mortise/Token", "mortise/Policy"]),
        allow(&["read", "list"], &["demo/*"]),
    ]
}

/// A wildcard does not include tokens and policies, unless it denies.
#[tokio::test]
async fn a_wildcard_leaves_out_tokens_and_policies() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("all", "", vec![allow(&["*"], &["*", "mortise/*"])]).await;
    guarded.policy("none", "", [clerk(), vec![deny(&["write"], &["*"])]].concat()).await;
    let all = guarded.token("all", &["all"], |_| {}).await;
    let none = guarded.token("none", &["none"], |_| {}).await;
    let mut client = guarded.resources(&all).await;
    client.write(pb::WriteRequest { resource: Some(artist("korn")) }).await.unwrap();
    for (kind, name) in [("mortise.v1.Token", "all"), ("mortise.v1.Policy", "all")] {
        let read = client.read(pb::ReadRequest { id: Some(id(kind, name)) }).await;
        assert_eq!(refusal(read).0, Code::PermissionDenied, "{kind}");
        let of = pb::ListRequest {
            r#type: Some(gvk(kind)),
            tenancy: Some(pb::Tenancy::default()),
            name_prefix: String::new(),
        };
        assert_eq!(refusal(client.list(of).await).0, Code::PermissionDenied, "{kind}");
        let deleted = client.delete(pb::DeleteRequest { id: Some(id(kind, name)), version: String::new() }).await;
        assert_eq!(refusal(deleted).0, Code::PermissionDenied, "{kind}");
    }
    let written = client.write(pb::WriteRequest { resource: Some(token("own", &["all"])) }).await;
    assert_eq!(refusal(written).0, Code::PermissionDenied);
    let written = guarded.resources(&none).await.write(pb::WriteRequest { resource: Some(token("own", &[])) }).await;
    assert_eq!(refusal(written).0, Code::PermissionDenied, "a wildcard that denies includes them");
}

#[tokio::test]
async fn a_writer_of_tokens_grants_only_what_it_holds() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("clerk", "", clerk()).await;
    guarded.policy("read-artists", "", vec![allow(&["read"], &["demo/Artist"])]).await;
    guarded.policy("write-artists", "", vec![allow(&["write"], &["demo/Artist"])]).await;
    guarded.policy("keys", "key_prefix \"\" { policy = \"read\" }", vec![]).await;
    let clerk_secret = guarded.token("clerk", &["clerk"], |_| {}).await;
    guarded.token("strong", &["write-artists"], |_| {}).await;
    let mut client = guarded.resources(&clerk_secret).await;
    let mut write =
        async |resource: pb::Resource| client.write(pb::WriteRequest { resource: Some(resource) }).await.map(drop);
    // Held, or nothing at all.
    for right in [
        token("a", &[]),
        token("b", &["read-artists"]),
        token("c", &["clerk", "read-artists"]),
        policy("p", "", vec![allow(&["read"], &["demo/Artist"])]),
        policy("p", "", vec![allow(&["list", "read"], &["demo.v2.Artist"]), deny(&["*"], &["*"])]),
        policy("q", "key \"a\" { policy = \"deny\" }", vec![]),
    ] {
        write(right.clone()).await.unwrap_or_else(|status| panic!("{:?}: {status}", id_of(&right)));
    }
    // Beyond.
    for (wrong, says) in [
        (token("x", &["global-management"]), "everything (global-management)"),
        (token("x", &["write-artists"]), "write:demo/Artist"),
        (token("x", &["read-artists", "write-artists"]), "write:demo/Artist"),
        (token("x", &["keys"]), "read in the area key"),
        (token("x", &["later"]), "policy later, which does not exist yet"),
        (token("strong", &["write-artists"]), "write:demo/Artist"),
        (token("bootstrap", &["global-management"]), "everything (global-management)"),
        (policy("read-artists", "", vec![allow(&["write"], &["demo/Artist"])]), "write:demo/Artist"),
        (policy("clerk", "operator = \"write\"", clerk()), "write in the area operator"),
        (policy("x", "", vec![allow(&["escalate"], &["mortise/Token"])]), "escalate:mortise/Token"),
        (policy("x", "", vec![allow(&["*"], &["*"])]), "read:*"),
    ] {
        let about = id_of(&wrong);
        let (code, said) = refusal(write(wrong).await);
        assert_eq!(code, Code::PermissionDenied, "{about:?}: {said}");
        let begin = format!(
            "Permission denied: token with AccessorID 'clerk' lacks permission 'mortise.v1.{}:escalate' on",
            about.r#type.as_ref().unwrap().kind
        );
        assert!(said.starts_with(&begin) && said.contains(says), "{said}");
    }
}

/// The same refusal by every way to write, and nothing is stored.
#[tokio::test]
async fn every_surface_refuses_to_grant_more() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("clerk", "", clerk()).await;
    let secret = guarded.token("clerk", &["clerk"], |_| {}).await;
    let channel = guarded.channel(&secret).await;
    let wrong = || token("x", &["global-management"]);
    let mut resources = guarded.resources(&secret).await;
    let own = resources.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "clerk")) }).await.unwrap();
    let own = own.into_inner().resource.unwrap();
    let mut more: data::Token = decoded(&own);
    more.policies.push("global-management".into());
    let more = pb::Resource { data: Some(any("mortise.v1.Token", &more)), ..own.clone() };
    let mut denied = Vec::new();
    for one in [wrong(), more.clone()] {
        denied.push(refusal(resources.write(pb::WriteRequest { resource: Some(one.clone()) }).await));
        denied.push(refusal(
            resources.mutate_and_validate(pb::MutateAndValidateRequest { resource: Some(one.clone()) }).await,
        ));
        let plan = data::PlanRequest { resource: Some(one.clone()), ..data::PlanRequest::default() };
        denied.push(refusal(ChangeServiceClient::new(channel.clone()).plan(plan).await));
        let update = data::UpdateRequest { resource: Some(one), allow_missing: true, ..data::UpdateRequest::default() };
        denied.push(refusal(QueryServiceClient::new(channel.clone()).update(update).await));
    }
    for (code, said) in denied {
        assert_eq!(code, Code::PermissionDenied, "{said}");
        assert!(said.contains("mortise.v1.Token:escalate"), "{said}");
    }
    let hash = "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqo=";
    let body = serde_json::json!({ "data": { "secretSha256": hash, "policies": ["global-management"] } });
    let asking = guarded.server.ask("PUT", "/api/mortise/v1/token/x").header("x-consul-token", &secret);
    let answer = asking.json(&body).await_answer().await;
    assert!(answer.code() == 403 && answer.body.contains("mortise.v1.Token:escalate"), "{}", answer.body);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token.yaml");
    let text =
        format!("type: mortise.v1.Token\nname: x\ndata:\n  secretSha256: {hash}\n  policies: [global-management]\n");
    std::fs::write(&file, text).unwrap();
    let addr = guarded.server.grpc.to_string();
    let args = ["apply", "-f", file.to_str().unwrap(), "--grpc-addr", &addr, "--token", &secret];
    let (code, out, err) = mortise(&args, &[]).await;
    assert!(code == Some(1) && err.contains("escalate"), "{code:?} {out} {err}");
    let read = resources.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "x")) }).await;
    assert_eq!(refusal(read).0, Code::NotFound);
    let now = resources.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "clerk")) }).await.unwrap();
    let now: data::Token = decoded(&now.into_inner().resource.unwrap());
    assert_eq!(now.policies, ["clerk"]);
}

/// Less is always allowed: descriptions, an earlier expiry, fewer policies, the own secret.
#[tokio::test]
async fn what_grants_nothing_new_needs_no_more() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("clerk", "", clerk()).await;
    guarded.policy("write-artists", "", vec![allow(&["write"], &["demo/Artist"])]).await;
    let secret = guarded.token("clerk", &["clerk"], |_| {}).await;
    guarded.token("strong", &["write-artists", "clerk"], |_| {}).await;
    let mut client = guarded.resources(&secret).await;
    let mut change = async |name: &str, change: &dyn Fn(&mut data::Token)| {
        let stored = client.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", name)) }).await.unwrap();
        let stored = stored.into_inner().resource.unwrap();
        let mut token: data::Token = decoded(&stored);
        change(&mut token);
        let next = pb::Resource { data: Some(any("mortise.v1.Token", &token)), ..stored };
        client.write(pb::WriteRequest { resource: Some(next) }).await.map(drop)
    };
    let at = |seconds: i64| Some(prost_types::Timestamp { seconds, nanos: 0 });
    change("strong", &|token| token.description = "of the crane".into()).await.unwrap();
    change("strong", &|token| token.expires_at = at(4_000_000_000)).await.unwrap();
    change("strong", &|token| token.expires_at = at(3_900_000_000)).await.unwrap();
    for wider in [None, at(4_000_000_000)] {
        let refused = change("strong", &|token| token.expires_at = wider).await;
        assert_eq!(refusal(refused).0, Code::PermissionDenied);
    }
    let refused = change("strong", &|token| token.secret_sha256 = vec![7; 32]).await;
    assert_eq!(refusal(refused).0, Code::PermissionDenied, "the secret is a token's rights");
    let with_previous = |token: &mut data::Token| {
        (token.previous_secret_sha256, token.previous_expires_at) = (vec![7; 32], at(4_000_000_000));
    };
    let refused = change("strong", &with_previous).await;
    assert_eq!(refusal(refused).0, Code::PermissionDenied, "and so is an earlier one");
    change("strong", &|token| token.policies = vec!["write-artists".into()]).await.unwrap();
    change("clerk", &|token| token.secret_sha256 = vec![7; 32]).await.unwrap();
}

/// A secret of two tokens holds for neither, so a caller that may write one token could disable another one.
#[tokio::test]
async fn no_token_takes_the_secret_of_another() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("clerk", "", clerk()).await;
    let secret = guarded.token("clerk", &["clerk"], |_| {}).await;
    let mut client = guarded.resources(&secret).await;
    let read = client.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "bootstrap")) }).await.unwrap();
    let theirs: data::Token = decoded(&read.into_inner().resource.unwrap());
    let own = data::Token { policies: vec!["clerk".into()], ..data::Token::default() };
    let hash = Sha256::digest(&secret).to_vec();
    let later = Some(prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 });
    let present = data::Token { secret_sha256: theirs.secret_sha256.clone(), ..own.clone() };
    let earlier = data::Token {
        secret_sha256: hash.clone(),
        previous_secret_sha256: theirs.secret_sha256,
        previous_expires_at: later,
        ..own.clone()
    };
    let mut manager = guarded.resources(&guarded.management).await;
    for name in ["clerk", "new"] {
        for taking in [&present, &earlier] {
            let token = resource(id("mortise.v1.Token", name), Some(any("mortise.v1.Token", taking)));
            for client in [&mut client, &mut manager] {
                let (code, said) = refusal(client.write(pb::WriteRequest { resource: Some(token.clone()) }).await);
                assert!(code == Code::InvalidArgument && said.contains("another token has this secret"), "{said}");
            }
        }
    }
    // Its own secret it keeps, as a rotation with a grace does.
    let rotated =
        data::Token { secret_sha256: vec![7; 32], previous_secret_sha256: hash, previous_expires_at: later, ..own };
    let token = resource(id("mortise.v1.Token", "clerk"), Some(any("mortise.v1.Token", &rotated)));
    client.write(pb::WriteRequest { resource: Some(token) }).await.unwrap();
    client.read(pb::ReadRequest { id: Some(id("mortise.v1.Token", "clerk")) }).await.unwrap();
}

/// A policy that denies is not taken away by a caller to whom it applies.
#[tokio::test]
async fn what_is_denied_is_not_opened_by_the_denied() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut secret = deny(&["read"], &["demo/Artist"]);
    secret.names = vec!["secret".into()];
    guarded.policy("clerk", "", clerk()).await;
    guarded.policy("fence", "", vec![secret.clone()]).await;
    guarded
        .policy("keys", "key_prefix \"a\" { policy = \"deny\" }\nkey_prefix \"\" { policy = \"write\" }", vec![])
        .await;
    let fenced = guarded.token("fenced", &["clerk", "fence", "keys"], |_| {}).await;
    let free = guarded.token("free", &["clerk"], |_| {}).await;
    let mut client = guarded.resources(&fenced).await;
    let delete = |name: &str| pb::DeleteRequest { id: Some(id("mortise.v1.Policy", name)), version: String::new() };
    let (code, said) = refusal(client.delete(delete("fence")).await);
    assert!(code == Code::PermissionDenied && said.contains("read:demo/Artist:secret"), "{said}");
    assert_eq!(refusal(client.delete(delete("keys")).await).0, Code::PermissionDenied);
    for wrong in [
        policy("fence", "", vec![]),
        policy("keys", "key_prefix \"\" { policy = \"write\" }", vec![]),
        token("fenced", &["clerk", "keys"]),
        policy("own", "", vec![allow(&["read"], &["demo/Artist"])]),
    ] {
        let about = id_of(&wrong).name;
        let written = client.write(pb::WriteRequest { resource: Some(wrong) }).await;
        assert_eq!(refusal(written).0, Code::PermissionDenied, "{about}");
    }
    // With the same deny it may be given on.
    let own = policy("own", "key_prefix \"a\" { policy = \"deny\" }", vec![allow(&["read"], &["demo/Artist"]), secret]);
    client.write(pb::WriteRequest { resource: Some(own) }).await.unwrap();
    // A caller that may read all of them may take the fence away, and hears which token it opens.
    let deleted = guarded.resources(&free).await.delete(delete("fence")).await.unwrap().into_inner();
    let said: Vec<_> = deleted.warnings.iter().map(|warning| warning.summary.as_str()).collect();
    assert_eq!(said, ["still named by 1 token (fenced): its rules, denying ones too, no longer apply there"]);
}

/// A caller with the verb escalate, named, may grant anything.
#[tokio::test]
async fn escalate_is_the_permission_to_grant_any() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut team = allow(&["escalate"], &["mortise/Token"]);
    team.name_prefixes = vec!["team-".into()];
    guarded.policy("clerk", "", [clerk(), vec![team]].concat()).await;
    let secret = guarded.token("clerk", &["clerk"], |_| {}).await;
    let mut client = guarded.resources(&secret).await;
    let mut write = async |resource| client.write(pb::WriteRequest { resource: Some(resource) }).await.map(drop);
    write(token("team-a", &["global-management"])).await.unwrap();
    assert_eq!(refusal(write(token("other", &["global-management"])).await).0, Code::PermissionDenied);
    assert_eq!(refusal(write(policy("team-a", "operator = \"write\"", vec![])).await).0, Code::PermissionDenied);
    let mut auth = AuthServiceClient::new(guarded.channel(&secret).await);
    let mut can = async |kind: &str, name: &str| {
        let request = data::CanIRequest { verb: "escalate".into(), id: Some(id(kind, name)), ..Default::default() };
        auth.can_i(request).await.map(|answer| answer.into_inner().allowed)
    };
    assert!(can("mortise.v1.Token", "team-b").await.unwrap());
    assert!(!can("mortise.v1.Token", "other").await.unwrap());
    assert!(!can("mortise.v1.Policy", "team-b").await.unwrap());
    assert_eq!(refusal(can("demo.v2.Artist", "korn").await).0, Code::InvalidArgument);
}

/// A caller that may read a token or a policy may ask for its holder.
#[tokio::test]
async fn can_i_answers_for_others_to_their_readers() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("clerk", "", clerk()).await;
    guarded.policy("read-artists", "", vec![allow(&["read"], &["demo/Artist"])]).await;
    guarded.policy("little", "key \"x\" { policy = \"read\" }", vec![]).await;
    let clerk = guarded.token("clerk", &["clerk"], |_| {}).await;
    let little = guarded.token("little", &["little"], |_| {}).await;
    guarded.token("reader", &["read-artists"], |_| {}).await;
    let ask = async |secret: &str, verb: &str, token: &str, policies: &[&str]| {
        let request = data::CanIRequest {
            verb: verb.into(),
            id: Some(id("demo.v2.Artist", "korn")),
            as_token: token.into(),
            as_policies: policies.iter().map(|one| (*one).to_owned()).collect(),
        };
        let mut auth = AuthServiceClient::new(guarded.channel(secret).await);
        auth.can_i(request).await.map(tonic::Response::into_inner)
    };
    assert!(ask(&clerk, "read", "reader", &[]).await.unwrap().allowed);
    let no = ask(&clerk, "write", "reader", &[]).await.unwrap();
    assert!(!no.allowed && no.reason.contains("AccessorID 'reader'"), "{}", no.reason);
    assert!(ask(&clerk, "read", "", &["read-artists", "little"]).await.unwrap().allowed);
    assert!(!ask(&clerk, "read", "", &["little"]).await.unwrap().allowed);
    assert!(ask(&clerk, "write", "", &["global-management"]).await.unwrap().allowed);
    assert_eq!(refusal(ask(&clerk, "read", "nobody", &[]).await).0, Code::NotFound);
    assert_eq!(refusal(ask(&clerk, "read", "", &["nothing"]).await).0, Code::NotFound);
    assert_eq!(refusal(ask(&clerk, "read", "reader", &["little"]).await).0, Code::InvalidArgument);
    for (token, policies) in [("reader", &[] as &[&str]), ("", &["read-artists"]), ("nobody", &[])] {
        assert_eq!(refusal(ask(&little, "read", token, policies).await).0, Code::PermissionDenied, "{token}");
    }
    let addr = guarded.server.grpc.to_string();
    let (code, out, err) = mortise(
        &["auth", "can-i", "write", "artist", "korn", "--as", "reader", "--grpc-addr", &addr, "--token", &clerk],
        &[],
    )
    .await;
    assert!(code == Some(1) && out.starts_with("no: Permission denied: token with AccessorID 'reader'"), "{out}{err}");
}
