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
            let answer = auth
                .can_i(data::CanIRequest { verb: verb.into(), id: Some(id), ..Default::default() })
                .await
                .unwrap()
                .into_inner();
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

fn placed(partition: &str, namespace: &str, name: &str) -> data::TypeRule {
    let list = |word: &str| if word.is_empty() { vec![] } else { vec![word.to_owned()] };
    data::TypeRule {
        partitions: list(partition),
        namespaces: list(namespace),
        names: list(name),
        deny: true,
        ..allow(&["read"], &["demo/Artist"])
    }
}

/// Words that name nothing now are warned of: in the answer, on HTTP, on the command line and in `policy show`.
#[tokio::test]
async fn words_that_name_nothing_are_warned_of() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut client = guarded.resources(&guarded.management).await;
    let mut warned = async |rules: &str, type_rules: Vec<data::TypeRule>| {
        let policy = data::Policy { rules: rules.to_owned(), type_rules, ..data::Policy::default() };
        let resource = resource(id("mortise.v1.Policy", "p"), Some(any("mortise.v1.Policy", &policy)));
        let answer = client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap().into_inner();
        answer.warnings.into_iter().map(|one| format!("{}: {}", one.path, one.summary)).collect::<Vec<_>>()
    };
    let blue = || placed("default", "blue", "");
    for (rules, type_rules, says) in [
        ("", vec![allow(&["read"], &["demo/Artits"])], "data.type_rules[0]: demo/Artits: no such type is registered"),
        ("", vec![allow(&["read"], &["*"]), allow(&["read"], &["dem/*"])], "data.type_rules[1]: dem/*: no such type"),
        ("", vec![allow(&["read"], &["demo.v9.Artist"])], "demo.v9.Artist: no such type is registered"),
        (
            "",
            vec![data::TypeRule { types: vec!["mortise/Plugin".into()], ..placed("default", "default", "") }],
            "not in the places of the rule",
        ),
        ("", vec![data::TypeRule { verbs: vec!["list".into()], ..placed("", "", "korn") }], "this rule denies nothing"),
        ("", vec![blue()], "namespace not found: blue"),
        ("", vec![placed("nowhere", "", "")], "partition not found: nowhere"),
        (
            r#"key_prefix "resource/demo.v2.Artits/" { policy = "deny" }"#,
            vec![],
            "data.rules: resource/demo.v2.Artits/",
        ),
        (
            r#"key "resource/demo.v2.artist" { policy = "list" }"#,
            vec![],
            "data.rules: resource/demo.v2.artist: no such",
        ),
        (
            r#"key "resource/demo.v2.Artist/Korn" { policy = "deny" }"#,
            vec![],
            "data.rules: resource/demo.v2.Artist/Korn: no resource has such a name",
        ),
        (
            r#"key_prefix "resource/demo.v2.Artist/ko*" { policy = "deny" }"#,
            vec![],
            "data.rules: resource/demo.v2.Artist/ko*: no resource has such a name",
        ),
    ] {
        let seen = warned(rules, type_rules).await;
        assert!(matches!(&*seen, [one] if one.contains(says)), "{says}: {seen:?}");
    }
    // Consul's own rules, and what exists.
    for area in ["acl", "operator", "keyring", "mesh", "peering"] {
        assert!(warned(&format!("{area} = \"write\""), vec![]).await.is_empty(), "{area}");
    }
    for area in ["agent", "event", "identity", "key", "namespace", "node", "partition", "query", "service", "session"] {
        let rules = format!("{area} \"a\" {{ policy = \"read\" }}\n{area}_prefix \"\" {{ policy = \"deny\" }}");
        assert!(warned(&rules, vec![]).await.is_empty(), "{area}");
    }
    let fine = [allow(&["*"], &["*", "demo/*", "demo/Artist", "demo.v1.Artist"]), placed("default", "default", "korn")];
    let rules = "key_prefix \"resource/demo.v\" { policy = \"read\" } key \"resource/demo.v2.Artist/x\" { policy = \"deny\" } \
                 key_prefix \"resource/demo.v2.Artist/\" { policy = \"read\" } \
                 key_prefix \"resource/demo.v2.Artist/x-\" { policy = \"read\" }";
    assert!(warned(rules, fine.to_vec()).await.is_empty());

    let addr = guarded.server.grpc.to_string();
    let run = async |args: &[&str]| {
        let (code, out, err) =
            mortise(&[args, &["--grpc-addr", &addr, "--token", &guarded.management]].concat(), &[]).await;
        assert_eq!(code, Some(0), "{out}{err}");
        (out, err)
    };
    let says = "demo/Artits: no such type is registered";
    let (_, err) = run(&["policy", "create", "typo", "--deny", "read:demo/Artits:*"]).await;
    assert!(err.contains(&format!("warning: policy typo: data.type_rules[0]: {says}")), "{err}");
    let (out, _) = run(&["policy", "show", "typo"]).await;
    assert!(out.contains(&format!("warning       data.type_rules[0]: {says}")), "{out}");
    guarded.token("named", &["typo"], |_| {}).await;
    let (_, err) = run(&["policy", "delete", "typo"]).await;
    assert!(err.contains("warning: policy typo: still named by 1 token (named)"), "{err}");
    let path = "/api/mortise/v1/policy/p";
    let body = serde_json::json!({ "data": { "typeRules": [{ "types": ["demo/Artits"], "verbs": ["read"] }] } });
    let asking = guarded.server.ask("PUT", path).header("x-consul-token", &guarded.management);
    let answer = asking.json(&body).await_answer().await;
    assert!(answer.code() == 200 && answer.header("warning").contains(says), "{:?}", answer.header("warning"));
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
        ("key_prefx \"resource/\" { policy = \"deny\" }", "unknown area \"key_prefx\"; use one of acl, agent,"),
        ("keys \"resource/\" { policy = \"deny\" }", "unknown area \"keys\""),
        ("operater = \"read\"", "unknown area \"operater\""),
        ("operators_prefix \"\" { policy = \"deny\" }", "unknown area \"operators\""),
        ("operator \"x\" { policy = \"deny\" }", "operator has no names"),
        ("key \"a\" { polcy = \"deny\" }", "expected `policy"),
        ("key \"a\" { policy = \"Deny\" }", "unknown level \"Deny\""),
        ("operator = \"reed\"", "unknown level \"reed\""),
        ("key_prefx: {a: {policy: deny}}", "unknown area \"key_prefx\""),
        ("key: {a: {polcy: deny}}", "neither HCL"),
        ("{\"key_prefx\": {\"a\": {\"policy\": \"deny\"}}}", "unknown area \"key_prefx\""),
        ("{\"key\": {\"a\": {\"policy\": \"denied\"}}}", "unknown level \"denied\""),
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
        (allow(&["Read"], &["*"]), "unknown verb \"Read\""),
        (allow(&["watch"], &["*"]), "unknown verb \"watch\""),
        (placed("Default", "", ""), "partitions: \"Default\" fits nothing"),
        (placed("", "blue*", ""), "namespaces: \"blue*\" fits nothing"),
        (placed("", "a/b", ""), "namespaces: \"a/b\" fits nothing"),
        (placed("", "", "Korn"), "names: \"Korn\" fits nothing"),
        (placed("", "", "ko*rn"), "names: \"ko*rn\" fits nothing"),
        (data::TypeRule { name_prefixes: vec!["Ko".into()], ..allow(&["read"], &["*"]) }, "name_prefixes: \"Ko\" fits"),
        (
            data::TypeRule { partitions: vec![String::new()], ..allow(&["read"], &["*"]) },
            "partitions: \"\" fits nothing",
        ),
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
