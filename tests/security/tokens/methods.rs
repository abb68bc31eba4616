//! Permissions of every method, over gRPC and HTTP.

use std::time::{Duration, SystemTime};

use mortise_api::{
    AuthServiceClient, ControllerServiceClient, PluginServiceClient, RegionServiceClient, ServerServiceClient,
    TypeServiceClient,
};
use mortise_resource::{data, pb};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

use super::{allow, letter};
use crate::support::{tokens::*, *};

fn within(mut rule: data::TypeRule, namespace: &str) -> data::TypeRule {
    rule.partitions = vec!["default".to_owned()];
    rule.namespaces = vec![namespace.to_owned()];
    rule
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
    let (unknown, all) = ("UUUUUUUUUU-", "+N++++++++1");
    let expected = [
        // Without a token; the reader; the lister; of the namespace blue.
        ("no rule", &namespace, ["PPPPPPPP+P-", "+NPPP++++P1", "PPPPP++++P0", "PPPPPPPP+P-"]),
        ("declared", &artist, ["PPPPPPPP+P-", "+NPPP++++P1", "PPPPP++++P0", "PPPPPPPP+P-"]),
        ("declared, in its namespace", &in_blue, ["PPPPPPPP+P-", "+NPPP++++P1", "PPPPP++++P0", all]),
        ("by content", &label, ["PNPPPPPP+P-", "+NPPP++++P1", "PNPPP++++P0", "PNPPPPPP+P-"]),
        ("hook", &thing, ["PNPPP++++P0", "+NPPP++++P1", "PNPPP++++P0", "PNPPP++++P0"]),
    ];
    let mut cells = 0;
    let mut wrong = Vec::new();
    for (what, there, [none, reader, lister, blue]) in expected {
        let rows = [none, unknown, unknown, reader, lister, blue, all, all];
        for ((token, secret), row) in everyone.iter().zip(rows) {
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
    // Status, Metrics, Settings, Backup; plugins' Inspect, Logs, Install, Remove, Rollback, Reset, Disable, Enable; controllers; types,
    // one type; reflection; WhoAmI, CanI, CheckPolicy; health; regions' Status, Identify, Accept, Adopt.
    for (who, secret, expected) in [
        ("none", "", "PPPP PPPPPPPP P PP P ++P + PPPP"),
        ("unknown", "nobody", "UUUU UUUUUUUU U UU U UUU + UUUU"),
        ("little", &*little, "PPPP PPPPPPPP P ++ + +++ + P+PP"),
        ("reader", &*reader, "+++P ++PPPPPP + ++ + +++ + ++PP"),
        ("writer", &*writer, "++++ ++++++++ + ++ + +++ + ++++"),
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
        note(server.metrics(data::MetricsRequest {}).await.map(drop));
        note(server.settings(data::SettingsRequest {}).await.map(drop));
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
        let request =
            data::CanIRequest { verb: "write".into(), id: Some(id("demo.v2.Artist", "korn")), ..Default::default() };
        let can_i = auth.can_i(request).await.map(tonic::Response::into_inner);
        if let Ok(answer) = &can_i {
            assert!(!answer.allowed && answer.reason.contains(" lacks permission '"), "{who}: {answer:?}");
        }
        note(can_i.map(drop));
        note(auth.check_policy(data::CheckPolicyRequest::default()).await.map(drop));
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
        note(health.check(tonic_health::pb::HealthCheckRequest::default()).await.map(drop));
        let mut regions = RegionServiceClient::new(channel);
        note(regions.status(data::RegionStatusRequest {}).await.map(drop));
        note(regions.identify(data::IdentifyRequest {}).await.map(drop));
        note(regions.accept(data::AcceptPeerRequest { peer: "eu".into(), ..Default::default() }).await.map(drop));
        note(regions.adopt(data::AdoptRequest { from: "eu".into(), ..Default::default() }).await.map(drop));
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
