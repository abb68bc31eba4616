//! Tokens and policies: the answer of every method to every caller, leaks, and changes during use.

use std::time::{Duration, SystemTime};

use mortise_api::{
    AuthServiceClient, ControllerServiceClient, PluginServiceClient, ServerServiceClient, TypeServiceClient,
};
use mortise_resource::{
    data,
    pb::{self, watch_event::Event},
};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use tonic::{Code, Status, Streaming, service::interceptor::InterceptedService};

use crate::support::{tokens::*, *};

fn allow(verbs: &[&str], types: &[&str]) -> data::TypeRule {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    data::TypeRule { verbs: words(verbs), types: words(types), ..data::TypeRule::default() }
}

fn within(mut rule: data::TypeRule, namespace: &str) -> data::TypeRule {
    rule.partitions = vec!["default".to_owned()];
    rule.namespaces = vec![namespace.to_owned()];
    rule
}

/// Result as a letter: allowed, permission denied, unauthenticated, not found, or anything else.
fn letter<T>(result: Result<T, Status>) -> char {
    match result.map_err(|status| status.code()) {
        Ok(_) => '+',
        Err(Code::PermissionDenied) => 'P',
        Err(Code::Unauthenticated) => 'U',
        Err(Code::NotFound) => 'N',
        Err(Code::InvalidArgument) => 'I',
        Err(_) => '?',
    }
}

/// The first message of a stream, or its error.
async fn first<T>(stream: Result<tonic::Response<Streaming<T>>, Status>) -> Result<(), Status> {
    let mut stream = stream?.into_inner();
    match timeout(Duration::from_millis(500), stream.message()).await {
        Ok(message) => message.map(drop),
        Err(_) => Ok(()),
    }
}

/// Calls every method of the resource API for an existing resource and a missing name: Read, Read of the missing one,
/// Write, WriteStatus, MutateAndValidate, List (and the number of results), WatchList, ListByOwner, Delete of the
/// missing one, Delete.
async fn every_method(guarded: &Guarded, secret: &str, there: &pb::Resource, token: &str) -> String {
    let mut client = guarded.resources(secret).await;
    let there_id = id_of(there);
    let mut absent = pb::Id { name: "absent".into(), uid: String::new(), ..there_id.clone() };
    absent.uid.clear();
    let blanket =
        pb::Resource { version: String::new(), generation: String::new(), status: Default::default(), ..there.clone() };
    let kind = there_id.r#type.clone();
    let tenancy = there_id.tenancy.clone();
    let mut out = String::new();
    let mut denied = Vec::new();
    let mut note = |result: Result<(), Status>| {
        if let Err(status) = &result
            && status.code() == Code::PermissionDenied
        {
            denied.push(status.message().to_owned());
        }
        out.push(letter(result));
    };
    note(client.read(pb::ReadRequest { id: Some(there_id.clone()) }).await.map(drop));
    note(client.read(pb::ReadRequest { id: Some(absent.clone()) }).await.map(drop));
    note(client.write(pb::WriteRequest { resource: Some(blanket.clone()) }).await.map(drop));
    let status = pb::Status { observed_generation: there.generation.clone(), ..pb::Status::default() };
    let request = pb::WriteStatusRequest {
        id: Some(there_id.clone()),
        key: "test".into(),
        status: Some(status),
        ..pb::WriteStatusRequest::default()
    };
    note(client.write_status(request).await.map(drop));
    note(client.mutate_and_validate(pb::MutateAndValidateRequest { resource: Some(blanket) }).await.map(drop));
    let listed = client
        .list(pb::ListRequest { r#type: kind.clone(), tenancy: tenancy.clone(), name_prefix: String::new() })
        .await
        .map(|answer| answer.into_inner().resources.len());
    let shown = listed.as_ref().ok().copied();
    note(listed.map(drop));
    let request = pb::WatchListRequest { r#type: kind, tenancy, name_prefix: String::new(), after: None };
    note(first(client.watch_list(request).await).await);
    note(client.list_by_owner(pb::ListByOwnerRequest { owner: Some(there_id.clone()) }).await.map(drop));
    note(client.delete(pb::DeleteRequest { id: Some(absent), version: String::new() }).await.map(drop));
    // With a version that does not exist: a caller with the right to delete gets a conflict, and the resource stays.
    let request = pb::DeleteRequest { id: Some(there_id), version: "none".into() };
    let deleted = client.delete(request).await.map(drop);
    note(match deleted {
        Err(status) if status.code() == Code::Aborted => Ok(()),
        other => other,
    });
    for text in &denied {
        assert!(text.contains("Permission denied") && text.contains(" lacks permission '"), "{text}");
        let named = if token.is_empty() { "anonymous token".to_owned() } else { format!("AccessorID '{token}'") };
        assert!(text.contains(&named), "{text}");
        for word in ["exist", "found", &there.version] {
            assert!(!text.contains(word), "{text} says too much");
        }
    }
    out.push_str(&shown.map_or_else(|| "-".to_owned(), |shown| shown.to_string()));
    out
}

/// Four kinds of types: without rules of its own; with declared permissions; with a hook that needs the content; with
/// permissions that need it.
#[tokio::test]
async fn every_method_of_the_resource_api_by_token_and_hook() {
    let guarded = Guarded::start(Setup::new().guest("deny")).await;
    guarded.policy("readers", "operator = \"read\"\nkey_prefix \"resource/\" { policy = \"list\" }", vec![]).await;
    guarded.policy("operators", "operator = \"write\"\nkey_prefix \"\" { policy = \"write\" }", vec![]).await;
    guarded.policy("listers", "", vec![allow(&["list"], &["*"])]).await;
    guarded.policy("blue", "", vec![within(allow(&["*"], &["demo/*", "deny/*"]), "blue")]).await;
    let readers = guarded.token("reader", &["readers"], |_| {}).await;
    let operator = guarded.token("operator", &["operators"], |_| {}).await;
    let lister = guarded.token("lister", &["listers"], |_| {}).await;
    let blue = guarded.token("blue", &["blue"], |_| {}).await;
    let past = SystemTime::now() - Duration::from_secs(1);
    let expired = guarded.token("expired", &["operators"], |token| token.expires_at = Some(past.into())).await;

    let mut blue_space = id("tenancy.v2beta1.Namespace", "blue");
    blue_space.tenancy = Some(tenancy("default", ""));
    let namespace = guarded.write(resource(blue_space, None)).await;
    let artist = guarded.write(artist("korn")).await;
    let label = demo::v1::RecordLabel { name: "label".into(), ..Default::default() };
    let mut label_id = id("demo.v1.RecordLabel", "label");
    label_id.tenancy = Some(tenancy("default", ""));
    let label = resource(label_id, Some(any("hashicorp.consul.internal.demo.v1.RecordLabel", &label)));
    let label = guarded.write(label).await;
    let thing = guarded.write(deny_thing("ByContent", "ask-me", "text")).await;
    let in_blue = guarded.write(at(crate::support::artist("limp"), "default", "blue")).await;

    // Read, Read of the missing one, Write, WriteStatus, MutateAndValidate, List, WatchList, ListByOwner, Delete of the
    // missing one, Delete; then the number of results of List. As in Consul, deleting a missing resource succeeds for
    // every caller, and reading one returns NotFound if the type's rule needs the content.
    let everyone = [("", ""), ("unknown", "unknown"), ("expired", &*expired), ("reader", &*readers)];
    let everyone = everyone.into_iter().chain([("lister", &*lister), ("blue", &*blue), ("operator", &*operator)]);
    let everyone: Vec<_> = everyone.chain([("bootstrap", &*guarded.management)]).collect();
    let expected = [
        (
            "no rule",
            &namespace,
            [
                "PPPPPPPP+P-",
                "UUUUUUUUUU-",
                "UUUUUUUUUU-",
                "+NPPP+++ +P1",
                "PPPPP+++ +P0",
                "PPPPPPPP+P-",
                "+N++++++++1",
                "+N++++++++1",
            ],
        ),
        (
            "declared",
            &artist,
            [
                "PPPPPPPP+P-",
                "UUUUUUUUUU-",
                "UUUUUUUUUU-",
                "+NPPP+++ +P1",
                "PPPPP+++ +P0",
                "PPPPPPPP+P-",
                "+N++++++++1",
                "+N++++++++1",
            ],
        ),
        (
            "declared, in its namespace",
            &in_blue,
            [
                "PPPPPPPP+P-",
                "UUUUUUUUUU-",
                "UUUUUUUUUU-",
                "+NPPP+++ +P1",
                "PPPPP+++ +P0",
                "+N++++++++1",
                "+N++++++++1",
                "+N++++++++1",
            ],
        ),
        (
            "by content",
            &label,
            [
                "PNPPPPPP+P-",
                "UUUUUUUUUU-",
                "UUUUUUUUUU-",
                "+NPPP+++ +P1",
                "PNPPP+++ +P0",
                "PNPPPPPP+P-",
                "+N++++++++1",
                "+N++++++++1",
            ],
        ),
        (
            "hook",
            &thing,
            [
                "PNPPP+++ +P0",
                "UUUUUUUUUU-",
                "UUUUUUUUUU-",
                "+NPPP+++ +P1",
                "PNPPP+++ +P0",
                "PNPPP+++ +P0",
                "+N++++++++1",
                "+N++++++++1",
            ],
        ),
    ];
    let mut cells = 0;
    let mut wrong = Vec::new();
    for (what, there, rows) in expected {
        for ((token, secret), row) in everyone.iter().zip(rows) {
            let row = row.replace(' ', "");
            let seen = every_method(&guarded, secret, there, token).await;
            cells += seen.len();
            if seen != row {
                wrong.push(format!("{what}, {token:?}: expected {row}, seen {seen}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(cells, 5 * 8 * 11);
    println!("{cells} answers compared");
}

/// Every method of every other service.
#[tokio::test]
async fn every_other_method_has_its_permission() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("readers", "operator = \"read\"", vec![]).await;
    guarded.policy("writers", "operator = \"write\"", vec![]).await;
    guarded.policy("little", "key \"x\" { policy = \"read\" }", vec![]).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let writer = guarded.token("writer", &["writers"], |_| {}).await;
    let little = guarded.token("little", &["little"], |_| {}).await;
    // Status, Backup; plugins' Inspect, Logs, Install, Remove, Rollback, Reset, Disable, Enable; controllers; types, one
    // type; reflection; WhoAmI, CanI; health.
    for (who, secret, expected) in [
        ("none", "", "PP PPPPPPPP P PP P ++ +"),
        ("unknown", "nobody", "UU UUUUUUUU U UU U UU U"),
        ("little", &*little, "PP PPPPPPPP P ++ + ++ +"),
        ("reader", &*reader, "+P ++PPPPPP + ++ + ++ +"),
        ("writer", &*writer, "++ ++++++++ + ++ + ++ +"),
    ] {
        let channel = guarded.channel(secret).await;
        let mut seen = String::new();
        // Any result except a refusal of the caller is fine.
        let mut note = |result: Result<(), Status>| {
            seen.push(match letter(result) {
                refused @ ('P' | 'U') => refused,
                _ => '+',
            });
        };
        let mut server = ServerServiceClient::new(channel.clone());
        note(server.status(data::ServerStatusRequest {}).await.map(drop));
        note(first(server.backup(data::BackupRequest::default()).await).await);
        let mut plugins = PluginServiceClient::new(channel.clone());
        note(plugins.inspect(data::InspectRequest { name: "demo".into() }).await.map(drop));
        note(first(plugins.logs(data::LogsRequest { name: "demo".into(), ..Default::default() }).await).await);
        note(plugins.install(tokio_stream::empty()).await.map(drop));
        note(plugins.remove(data::RemoveRequest { name: "none".into() }).await.map(drop));
        note(plugins.rollback(data::RollbackRequest { name: "none".into() }).await.map(drop));
        note(plugins.reset(data::ResetRequest { name: "none".into() }).await.map(drop));
        note(plugins.disable(data::DisableRequest { name: "none".into() }).await.map(drop));
        note(plugins.enable(data::EnableRequest { name: "none".into() }).await.map(drop));
        let mut controllers = ControllerServiceClient::new(channel.clone());
        note(controllers.list(data::ListControllersRequest::default()).await.map(drop));
        let mut types = TypeServiceClient::new(channel.clone());
        note(types.list_types(data::ListTypesRequest {}).await.map(drop));
        note(types.get_type(data::GetTypeRequest { r#type: Some(gvk("demo.v2.Artist")) }).await.map(drop));
        use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_client::ServerReflectionClient};
        let asked = ServerReflectionRequest { host: String::new(), message_request: None };
        let mut reflection = ServerReflectionClient::new(channel.clone());
        note(reflection.server_reflection_info(tokio_stream::iter([asked])).await.map(drop));
        let mut auth = AuthServiceClient::new(channel.clone());
        let who_am_i = auth.who_am_i(data::WhoAmIRequest {}).await.map(tonic::Response::into_inner);
        if let Ok(answer) = &who_am_i {
            assert!(answer.enforced, "{who}");
            assert_eq!(answer.accessor_id, if secret.is_empty() { "" } else { who });
        }
        note(who_am_i.map(drop));
        let request = data::CanIRequest { verb: "write".into(), id: Some(id("demo.v2.Artist", "korn")) };
        let can_i = auth.can_i(request).await.map(tonic::Response::into_inner);
        if let Ok(answer) = &can_i {
            assert!(!answer.allowed && answer.reason.contains("lacks permission 'key:write'"), "{who}: {answer:?}");
        }
        note(can_i.map(drop));
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
        note(health.check(tonic_health::pb::HealthCheckRequest::default()).await.map(drop));
        assert_eq!(seen, expected.replace(' ', ""), "{who}");
    }
}

#[tokio::test]
async fn http_asks_for_the_same() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("readers", "operator = \"read\"\nkey_prefix \"resource/\" { policy = \"list\" }", vec![]).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    guarded.write(artist("korn")).await;
    let artists = "/api/demo/v2/artist";
    let one = "/api/demo/v2/artist/korn";
    let ask = async |path: &str, header: Option<(&str, &str)>| {
        let mut asking = guarded.server.ask("GET", path);
        if let Some((name, value)) = header {
            asking = asking.header(name, value);
        }
        asking.await_answer().await.code()
    };
    for path in [artists, one, "/metrics", "/v1/types", "/v1/openapi.json"] {
        assert_eq!(ask(path, None).await, 403, "{path}");
        assert_eq!(ask(path, Some(("x-consul-token", "nobody"))).await, 401, "{path}");
        assert_eq!(ask(path, Some(("x-consul-token", &reader))).await, 200, "{path}");
        assert_eq!(ask(path, Some(("authorization", &format!("Bearer {reader}")))).await, 200, "{path}");
        assert_eq!(ask(&format!("{path}?token={reader}"), None).await, 200, "{path}");
        assert_eq!(ask(&format!("{path}?token=nobody"), Some(("x-consul-token", &reader))).await, 401, "{path}");
    }
    assert_eq!((ask("/healthz", None).await, ask("/readyz", None).await), (200, 200));
}

/// A token is revoked during open watches, a backup and a stream of logs.
#[tokio::test]
async fn streams_of_a_revoked_token_end_within_a_second() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("readers", "operator = \"write\"\nkey_prefix \"resource/\" { policy = \"list\" }", vec![]).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let other = guarded.token("other", &["readers"], |_| {}).await;
    // Enough data that the backup is not sent at once.
    for number in 0..200 {
        let mut large = artist(&format!("a-{number}"));
        large.metadata = metadata(&[("pad", &"x".repeat(20_000))]);
        guarded.write(large).await;
    }
    let watch = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: "b".into(),
        after: None,
    };
    let mut watches = Vec::new();
    for number in 0..101 {
        let mut client = guarded.resources(if number == 0 { &other } else { &reader }).await;
        let mut stream = client.watch_list(watch.clone()).await.unwrap().into_inner();
        stream.message().await.unwrap();
        watches.push(stream);
    }
    let channel = guarded.channel(&reader).await;
    let mut plugins = PluginServiceClient::new(channel.clone());
    let follow = data::LogsRequest { name: "demo".into(), follow: true, ..Default::default() };
    let mut logs = plugins.logs(follow).await.unwrap().into_inner();
    let mut backup =
        ServerServiceClient::new(channel).backup(data::BackupRequest::default()).await.unwrap().into_inner();
    backup.message().await.unwrap();
    let mut others = watches.remove(0);

    guarded.delete(id("mortise.v1.Token", "reader")).await;
    // The time starts at the acknowledgement, since the disk's time to make the deletion durable does not count.
    let begun = Instant::now();
    let mut codes = Vec::new();
    for watch in &mut watches {
        codes.push(timeout(PATIENCE, watch.message()).await.expect("the watch ends").unwrap_err().code());
    }
    let logs = timeout(PATIENCE, async {
        loop {
            if let Err(status) = logs.message().await {
                return status.code();
            }
        }
    });
    codes.push(logs.await.expect("the log ends"));
    let backup = timeout(PATIENCE, async {
        loop {
            match backup.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the backup was sent as a whole"),
                Err(status) => return status.code(),
            }
        }
    });
    codes.push(backup.await.expect("the backup ends"));
    let took = begun.elapsed();
    println!("{} streams ended after {took:?}", codes.len());
    assert_eq!(codes.len(), 102);
    assert!(codes.iter().all(|code| *code == Code::Unauthenticated), "{codes:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(
        refusal(guarded.resources(&reader).await.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "a-1")) }).await)
            .0,
        Code::Unauthenticated
    );
    // Callers that were not revoked continue.
    guarded.write(artist("b-new")).await;
    let event = timeout(PATIENCE, others.message()).await.unwrap().unwrap().unwrap();
    assert!(matches!(event.event, Some(Event::Upsert(_))));
}

/// An open watch whose caller's rights change starts again, or ends.
#[tokio::test]
async fn a_watch_follows_what_its_caller_may_see() {
    let guarded = Guarded::start(Setup::new()).await;
    let only_korn = |deny: bool| {
        let mut named = allow(&["read"], &["demo/Artist"]);
        named.names = vec!["korn".into()];
        named.deny = deny;
        vec![allow(&["list"], &["demo/Artist"]), named]
    };
    guarded.policy("p", "", only_korn(false)).await;
    let secret = guarded.token("t", &["p"], |_| {}).await;
    guarded.write(artist("korn")).await;
    guarded.write(artist("limp")).await;
    let mut client = guarded.resources(&secret).await;
    let request = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let mut watch = Watch(client.watch_list(request.clone()).await.unwrap().into_inner());
    assert_eq!(names(&watch.snapshot().await), ["korn"]);

    // A status of the policy has no effect, and neither has another policy.
    guarded.policy("other", "operator = \"write\"", vec![]).await;
    guarded.policy("p", "", only_korn(false)).await;
    guarded.write(artist("korn")).await;
    assert_eq!(id_of(&watch.upsert().await).name, "korn", "it goes on");
    guarded.policy("p", "", vec![allow(&["read", "list"], &["demo/Artist"])]).await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::Aborted);
    let mut watch = Watch(client.watch_list(request.clone()).await.unwrap().into_inner());
    assert_eq!(names(&watch.snapshot().await), ["korn", "limp"]);

    let mut denied = allow(&["read"], &["*"]);
    denied.name_prefixes = vec!["k".into()];
    denied.deny = true;
    guarded.policy("p", "", vec![allow(&["read", "list"], &["*"]), denied]).await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::Aborted);
    let mut watch = Watch(client.watch_list(request.clone()).await.unwrap().into_inner());
    assert_eq!(names(&watch.snapshot().await), ["limp"]);

    guarded.delete(id("mortise.v1.Policy", "p")).await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(refusal(client.watch_list(request).await).0, Code::PermissionDenied);
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_up() {
    let guarded = Guarded::start(Setup::new()).await;
    let soon = SystemTime::now() + Duration::from_secs(5);
    let secret = guarded.token("brief", &["global-management"], |token| token.expires_at = Some(soon.into())).await;
    let mut client = guarded.resources(&secret).await;
    let request = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let mut watch = Watch(client.watch_list(request).await.unwrap().into_inner());
    watch.snapshot().await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::Unauthenticated);
    let late = SystemTime::now().duration_since(soon).unwrap();
    assert!(late < Duration::from_secs(1), "{late:?}");
    assert_eq!(letter(client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "x")) }).await), 'U');
}

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
        (data::Token { secret_sha256: b"secret".to_vec(), ..good.clone() }, "data.secret_sha256: 6 bytes"),
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

/// Two tokens with one secret are both unusable until one is deleted. A token also has a default place.
#[tokio::test]
async fn secrets_are_one_tokens_and_tokens_have_a_place() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut space = id("tenancy.v2beta1.Namespace", "blue");
    space.tenancy = Some(tenancy("default", ""));
    guarded.write(resource(space, None)).await;
    let one = guarded.token("one", &["global-management"], |token| token.namespace = "blue".into()).await;
    let hash = Sha256::digest(one.as_bytes()).to_vec();
    let who = async |secret: &str| {
        let mut auth = AuthServiceClient::new(guarded.channel(secret).await);
        auth.who_am_i(data::WhoAmIRequest {}).await.map(|answer| answer.into_inner().accessor_id)
    };
    assert_eq!(who(&one).await.unwrap(), "one");
    guarded.token("two", &["global-management"], |token| token.secret_sha256 = hash).await;
    assert_eq!(who(&one).await.unwrap_err().code(), Code::Unauthenticated);
    guarded.delete(id("mortise.v1.Token", "two")).await;
    assert_eq!(who(&one).await.unwrap(), "one");

    let mut client = guarded.resources(&one).await;
    let written = client.write(pb::WriteRequest { resource: Some(artist("korn")) }).await.unwrap().into_inner();
    assert_eq!(id_of(&written.resource.unwrap()).tenancy, Some(tenancy("default", "blue")));
    assert!(client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "korn")) }).await.is_ok());
    let request = |tenancy| pb::ListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy),
        name_prefix: String::new(),
    };
    let listed = client.list(request(tenancy("", ""))).await.unwrap().into_inner().resources;
    assert_eq!(places(&listed), ["default/blue/korn"]);
    assert!(client.list(request(tenancy("default", "default"))).await.unwrap().into_inner().resources.is_empty());
}

/// The secret is in nothing that the server stores, returns or logs; its hash is useless.
#[tokio::test]
async fn secrets_are_in_nothing_that_the_server_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new().data_dir(&dir.path().join("data"));
    let guarded = Guarded::start(setup.env("MORTISE_LOG_LEVEL", "debug").env("MORTISE_LOG_SPANS", true)).await;
    let secret = guarded.token("kept", &["global-management"], |_| {}).await;
    let mut client = guarded.resources(&secret).await;
    client.write(pb::WriteRequest { resource: Some(artist("korn")) }).await.unwrap();
    let _ = client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "none")) }).await;
    let hash: String = Sha256::digest(secret.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        letter(guarded.resources(&hash).await.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "korn")) }).await),
        'U'
    );
    let log = guarded.server.log();
    assert!(!log.contains(&secret) && !log.contains(&guarded.management), "the log has a secret");
    guarded.server.stop().await;
    let (mut files, mut bytes) = (0, 0);
    let mut folders = vec![dir.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "bootstrap-token" {
                let content = std::fs::read(entry.path()).unwrap();
                let has = |secret: &str| content.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!has(&secret) && !has(&guarded.management), "{:?}", entry.path());
                files += 1;
                bytes += content.len();
            }
        }
    }
    assert!(files > 0 && bytes > 0);
    println!("{files} files with {bytes} bytes looked through");
}

/// The kernel identifies callers on the unix socket: root and the server's own user need no token, but a given token
/// counts.
#[tokio::test]
async fn local_operators_need_no_token() {
    let guarded = Guarded::start(Setup::new()).await;
    let little = guarded.token("little", &[], |_| {}).await;
    let socket = format!("unix://{}", guarded.server.data_dir.join("mortise.sock").display());
    let who = async |args: &[&str]| {
        let args: Vec<_> = ["auth", "whoami"].iter().chain(args).copied().collect();
        mortise(&args, &[("MORTISE_GRPC_ADDR", "")]).await
    };
    let (code, said, err) = who(&["--grpc-addr", &socket]).await;
    assert!(
        code == Some(0) && said.contains(" on this machine\n") && said.contains("global-management"),
        "{said}{err}"
    );
    let (_, said, _) = who(&["--grpc-addr", &socket, "--token", &little]).await;
    assert!(said.contains("AccessorID 'little'"), "{said}");
    let (code, _, said) = who(&["--grpc-addr", &socket, "--token", "nobody"]).await;
    assert!(code == Some(1) && said.contains("ACL not found"), "{said}");
    let (code, _, said) = mortise(&["status", "--grpc-addr", &guarded.server.grpc.to_string()], &[]).await;
    assert!(code == Some(1) && said.contains("anonymous token lacks permission 'operator:read'"), "{said}");
    // A command without a server address finds the socket.
    let data = guarded.server.data_dir.display().to_string();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mortise"));
    let output = command.args(["auth", "whoami"]).env("MORTISE_DATA_DIR", data).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(" on this machine\n"), "{said}");
    let path = guarded.server.data_dir.join("mortise.sock");
    assert!(path.exists());
}

/// The name in a verified certificate identifies the caller, unless a token is given.
#[tokio::test]
async fn a_certificates_name_is_a_caller() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (code, _, said) = mortise(
        &["tls", "init", "--dir", &at("tls"), "--host", "localhost", "--client", "laptop", "--client", "phone"],
        &[],
    )
    .await;
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(at("config.toml"), "[acl.certificates]\nlaptop = [\"global-management\"]\n").unwrap();
    let authority = tonic::transport::Certificate::from_pem(std::fs::read(at("tls/ca.pem")).unwrap());
    let setup = Setup::new()
        .arg("--config")
        .arg(at("config.toml"))
        .env("MORTISE_TLS_CERT_FILE", at("tls/server.pem"))
        .env("MORTISE_TLS_KEY_FILE", at("tls/server.key"))
        .env("MORTISE_TLS_CLIENT_CA_FILE", at("tls/ca.pem"))
        .tls(tonic::transport::ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost"));
    let server = setup.acl().start().await;
    let addr = format!("https://localhost:{}", server.grpc.port());
    let who = async |client: &str, more: &[&str]| {
        let (cert, key) = (at(&format!("tls/{client}.pem")), at(&format!("tls/{client}.key")));
        let ca = at("tls/ca.pem");
        let mut args = vec!["auth", "whoami", "--grpc-addr", &addr, "--ca-file", &ca];
        if !client.is_empty() {
            args.extend(["--client-cert", &cert, "--client-key", &key]);
        }
        args.extend(more);
        let (_, out, err) = mortise(&args, &[]).await;
        out + &err
    };
    let said = who("laptop", &[]).await;
    assert!(said.contains("certificate \"laptop\"") && said.contains("global-management"), "{said}");
    assert!(who("phone", &[]).await.contains("anonymous token"));
    assert!(who("", &[]).await.contains("anonymous token"));
    let secret = server.data_dir.join("bootstrap-token").display().to_string();
    assert!(who("laptop", &["--token-file", &secret]).await.contains("AccessorID 'bootstrap'"));
    assert!(who("laptop", &["--token", "nobody"]).await.contains("ACL not found"));
}

/// The socket of a killed server is replaced, a server removes its own, and other files stay.
#[tokio::test]
async fn the_socket_has_a_place_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let path = data.join("mortise.sock");
    let setup = || Setup::new().data_dir(&data);
    let mut server = setup().start().await;
    server.signal("KILL");
    server.ended().await;
    assert!(path.exists(), "it was killed");
    let server = setup().start().await;
    assert!(tokio::net::UnixStream::connect(&path).await.is_ok());
    server.stop().await;
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    let server = setup().start().await;
    assert!(server.log().contains("a file that is not a socket has this path"), "{}", server.log());
    server.stop().await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// A server listens to other machines only with tokens and TLS, or if it is explicitly allowed without.
#[tokio::test]
async fn serve_does_not_listen_to_others_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let at = data.to_str().unwrap();
    let files = dir.path().join("tls");
    let (code, _, said) = mortise(&["tls", "init", "--dir", files.to_str().unwrap(), "--host", "localhost"], &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let (cert, key) = (files.join("server.pem"), files.join("server.key"));
    let tls = [("MORTISE_TLS_CERT_FILE", cert.to_str().unwrap()), ("MORTISE_TLS_KEY_FILE", key.to_str().unwrap())];
    let (open, none) = (("MORTISE_ACL_ENABLED", "false"), ("MORTISE_ACL_ENABLED", "true"));
    let everywhere =
        [("MORTISE_GRPC_ADDR", "0.0.0.0:0"), ("MORTISE_HTTP_ADDR", "[::]:0"), ("MORTISE_GRPC_ADDR", "192.0.2.1:0")];
    for addr in everywhere {
        for (env, missing) in [
            (vec![addr, none], "and lacks TLS (tls.cert_file and tls.key_file;"),
            (vec![addr, open], "and lacks tokens (acl.enabled) and TLS"),
            ([vec![addr, open], tls.to_vec()].concat(), "and lacks tokens (acl.enabled);"),
        ] {
            let (code, _, said) = mortise(&["serve", "--data-dir", at], &env).await;
            assert!(
                code == Some(2) && said.contains(missing) && said.contains("allow_insecure = true"),
                "{env:?}: {said}"
            );
        }
    }
    assert!(!data.exists(), "nothing was begun");
    let told = Setup::new().serve().env("MORTISE_HTTP_ADDR", "0.0.0.0:0").env("MORTISE_ALLOW_INSECURE", true);
    assert!(told.start().await.log().contains("everyone who reaches the ports may do everything"));
}

/// A start that was interrupted between the file and the token is completed; a store with tokens gets no further one.
#[tokio::test]
async fn the_first_token_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("bootstrap-token"), "left-behind\n").unwrap();
    let setup = || Setup::new().serve().acl().data_dir(&data);
    let server = setup().start().await;
    let who = async |server: &Server, secret: &str| {
        let channel = InterceptedService::new(server.channel().await, As(Some(secret.parse().unwrap())));
        AuthServiceClient::new(channel)
            .who_am_i(data::WhoAmIRequest {})
            .await
            .map(|answer| answer.into_inner().accessor_id)
    };
    assert_eq!(who(&server, "left-behind").await.unwrap(), "bootstrap");
    server.stop().await;
    std::fs::remove_file(data.join("bootstrap-token")).unwrap();
    let server = setup().start().await;
    assert!(!data.join("bootstrap-token").exists());
    assert_eq!(who(&server, "left-behind").await.unwrap(), "bootstrap");
    server.stop().await;
    // With access control off, every caller may do everything, and the token stays.
    let server = Setup::new().serve().data_dir(&data).start().await;
    assert!(server.read(&id("mortise.v1.Token", "bootstrap")).await.is_ok());
}

#[tokio::test]
async fn a_caller_has_so_many_watches_and_calls_open_and_no_other_is_hurt() {
    let setup = Setup::new().env("MORTISE_SERVICE_CALLER_WATCHES", 3).env("MORTISE_GRPC_CALLER_STREAMS", 5);
    let guarded = Guarded::start(setup).await;
    guarded.policy("operators", "operator = \"write\"\nkey_prefix \"\" { policy = \"write\" }", Vec::new()).await;
    let (one, other) =
        (guarded.token("one", &["operators"], |_| {}).await, guarded.token("other", &["operators"], |_| {}).await);
    let request = || pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("default", "default")),
        name_prefix: String::new(),
        after: None,
    };
    // Several connections, since the limit counts by caller.
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(guarded.resources(&one).await.watch_list(request()).await.unwrap().into_inner());
    }
    let (code, text) = refusal(guarded.resources(&one).await.watch_list(request()).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text, "the caller has 3 watches open already (limit service.caller_watches)");
    open.push(guarded.resources(&other).await.watch_list(request()).await.unwrap().into_inner());
    // Two log followers more make five calls; any further call is refused.
    let mut followers = Vec::new();
    for _ in 0..2 {
        let mut plugins = PluginServiceClient::new(guarded.channel(&one).await);
        let follow = data::LogsRequest { name: "demo".into(), follow: true, ..data::LogsRequest::default() };
        followers.push(plugins.logs(follow).await.unwrap().into_inner());
    }
    let read = || pb::ReadRequest { id: Some(id("demo.v2.Artist", "absent")) };
    let (code, text) = refusal(guarded.resources(&one).await.read(read()).await);
    assert_eq!(
        (code, &*text),
        (Code::ResourceExhausted, "the caller has 5 calls open already (limit grpc.caller_streams)")
    );
    assert_eq!(refusal(guarded.resources(&other).await.read(read()).await).0, Code::NotFound);
    drop(followers);
    drop(open);
    eventually("there is room again", async || {
        let mut client = guarded.resources(&one).await;
        refusal(client.read(read()).await).0 == Code::NotFound && client.watch_list(request()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn an_upload_ends_when_its_token_is_revoked_and_installs_nothing() {
    // Built before the connections: a build may take long, and an idle connection would be closed meanwhile.
    let bytes = std::fs::read(mortise_test_guests::component("panic")).unwrap();
    let guarded = Guarded::start(Setup::new()).await;
    let secret = guarded.token("uploader", &["global-management"], |_| {}).await;
    let mut plugins = PluginServiceClient::new(guarded.channel(&secret).await);
    let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let (send, messages) = tokio::sync::mpsc::channel(4);
    let first = data::InstallRequest {
        name: "panic.wasm".into(),
        sha256,
        chunk: bytes[..100].to_vec(),
        ..data::InstallRequest::default()
    };
    send.send(first).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(messages);
    let mut uploading = tokio::spawn(async move { plugins.install(stream).await.map(drop) });
    if let Ok(early) = timeout(Duration::from_millis(300), &mut uploading).await {
        panic!("it did not wait for the rest: {early:?}: {}", guarded.server.log());
    }
    guarded.delete(id("mortise.v1.Token", "uploader")).await;
    let begun = Instant::now();
    let status = timeout(Duration::from_secs(10), uploading).await.unwrap().unwrap().unwrap_err();
    println!("the upload ended after {:?}", begun.elapsed());
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(send);
    assert!(guarded.server.is_unknown("panic.v1.Thing").await);
}
