//! Rules of policies; refusals of invalid policies and tokens.

use mortise_api::AuthServiceClient;
use mortise_resource::{data, pb};
use tonic::Code;

use super::allow;
use crate::support::{tokens::*, *};

/// Consul's levels and the longest prefix, through the demo types' rules.
#[tokio::test]
async fn rules_by_area_are_consuls() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.write(artist("korn")).await;
    let mut number = 0;
    let mut may = async |rules: &[&str]| {
        let mut policies = Vec::new();
        for text in rules {
            number += 1;
            let name = format!("p-{number}");
            guarded.policy(&name, text, vec![]).await;
            policies.push(name);
        }
        let policies: Vec<_> = policies.iter().map(String::as_str).collect();
        let secret = guarded.token(&format!("t-{number}"), &policies, |_| {}).await;
        let mut auth = AuthServiceClient::new(guarded.channel(&secret).await);
        let mut seen = String::new();
        for verb in ["read", "list", "write"] {
            let id = id("demo.v2.Artist", "korn");
            let answer = auth.can_i(data::CanIRequest { verb: verb.into(), id: Some(id) }).await.unwrap().into_inner();
            assert_eq!(answer.allowed, answer.reason.is_empty());
            seen.push(if answer.allowed { '+' } else { '-' });
        }
        seen
    };
    for (rules, expected) in [
        (&[""] as &[&str], "---"),
        (&[r#"key_prefix "resource/" { policy = "list" }"#], "++-"),
        (&[r#"key_prefix "resource/demo.v2.Artist/" { policy = "write" }"#], "+-+"),
        (&[r#"key "resource/demo.v2.Artist/korn" { policy = "read" }"#], "+--"),
        (&[r#"key "resource/demo.v2.Artist" { policy = "list" }"#], "-+-"),
        (&[r#"key_prefix "" { policy = "write" }"#], "+++"),
        (&[r#"key_prefix "" { policy = "write" } key_prefix "resource/demo.v2.Artist/k" { policy = "deny" }"#], "-+-"),
        (&[r#"key_prefix "" { policy = "deny" } key "resource/demo.v2.Artist/korn" { policy = "write" }"#], "+-+"),
        (&[r#"key_prefix "r" { policy = "write" }"#, r#"key_prefix "r" { policy = "deny" }"#], "---"),
        (&[r#"key_prefix "r" { policy = "read" }"#, r#"key_prefix "r" { policy = "write" }"#], "+++"),
        (&["key_prefix:\n  resource/: {policy: list}\n"], "++-"),
        (&[r#"{"key_prefix": {"resource/": {"policy": "list"}}, "operator": "read"}"#], "++-"),
        (&["# a comment\n/* and\nanother */ key = \"write\" // the whole area"], "+++"),
        (&["operator = \"write\""], "---"),
    ] {
        assert_eq!(may(rules).await, expected, "{rules:?}");
    }
}

/// Unusable policies and tokens are refused with the field, and change nothing.
#[tokio::test]
async fn invalid_policies_and_tokens_are_refused() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut client = guarded.resources(&guarded.management).await;
    let mut write = async |kind: &str, name: &str, data: prost_types::Any| {
        let resource = resource(id(kind, name), Some(data));
        client.write(pb::WriteRequest { resource: Some(resource) }).await.map(drop)
    };
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let flow = format!("a: {}", "{b: ".repeat(10_000));
    for (rules, says) in [
        ("key \"a\" {", "line 1: expected `policy"),
        ("key \"a\" { policy = \"read\" x = 1 }", "expected `}`"),
        ("key \"a\" { policy = \"much\" }", "unknown level \"much\""),
        ("\n\nkey_prefix = \"read\"", "a name is missing"),
        ("Key = \"read\"", "is not an area"),
        ("key \"${a}\" { policy = \"read\" }", "without a template"),
        ("key \"a { policy = \"read\" }", "expected"),
        ("- a", "neither HCL"),
        ("key: {a: {policy: read, more: 1}}", "neither HCL"),
        (&*deep, "neither HCL"),
        (&*flow, "neither HCL"),
        (&*format!("key = {}", "(".repeat(60_000)), "expected a level in quotes"),
        (&*"x".repeat(70_000), "the limit is 65536"),
    ] {
        let policy = data::Policy { rules: rules.to_owned(), ..data::Policy::default() };
        let refused = refusal(write("mortise.v1.Policy", "p", any("mortise.v1.Policy", &policy)).await);
        assert_eq!(refused.0, Code::InvalidArgument, "{rules:.40}: {refused:?}");
        assert!(refused.1.starts_with("data.rules: ") && refused.1.contains(says), "{rules:.40}: {}", refused.1);
    }
    for (rule, says) in [
        (allow(&[], &["*"]), "has no verbs"),
        (allow(&["read"], &[]), "has no types"),
        (allow(&["reed"], &["*"]), "unknown verb \"reed\""),
        (allow(&["read"], &["demo"]), "\"demo\" is not a type pattern"),
        (allow(&["read"], &["demo/*/x"]), "is not a type pattern"),
    ] {
        let policy = data::Policy { type_rules: vec![allow(&["read"], &["*"]), rule], ..data::Policy::default() };
        let (code, said) = refusal(write("mortise.v1.Policy", "p", any("mortise.v1.Policy", &policy)).await);
        assert!(
            code == Code::InvalidArgument && said.starts_with("data.type_rules[1]: ") && said.contains(says),
            "{said}"
        );
    }
    let policy = any("mortise.v1.Policy", &data::Policy::default());
    assert!(refusal(write("mortise.v1.Policy", "global-management", policy).await).1.contains("always exists"));
    let good = data::Token { secret_sha256: vec![7; 32], ..data::Token::default() };
    let cases = [
        (
            data::Token { secret_sha256: b"secret".to_vec(), ..good.clone() },
            "data.secret_sha256: must be the SHA-256 of the secret, 32 bytes, got 6",
        ),
        (data::Token { policies: vec!["No".into()], ..good.clone() }, "data.policies[0]: "),
        (data::Token { policies: vec!["p".into(); 33], ..good.clone() }, "data.policies: 33 policies"),
        (data::Token { namespace: "*".into(), ..good.clone() }, "data.namespace: "),
    ];
    for (token, says) in cases {
        let (code, said) = refusal(write("mortise.v1.Token", "t", any("mortise.v1.Token", &token)).await);
        assert!(code == Code::InvalidArgument && said.starts_with(says), "{said}");
    }
    write("mortise.v1.Token", "t", any("mortise.v1.Token", &good)).await.unwrap();
}
