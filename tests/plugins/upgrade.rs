//! Stored data of an older schema version: every RPC returns it in the type's current form, with the same version and
//! generation.

use std::path::Path;

use crate::support::{Server, Setup, decoded, gvk, id, id_of, owned, plugins::Plugins as _, refusal, tenancy, thing};
use mortise_api::WatchServiceClient;
use mortise_resource::{
    data::{WatchResourcesRequest, WatchResourcesResponse, resource_change::ChangeType},
    goten::WatchType,
    pb,
};
use mortise_test_guests::{Thing, component};
use tonic::Code;

const TYPE: &str = "schema.v1.Thing";

/// A server with one version of the plugin `schema`; data and plugin folder outlive it.
async fn serve(home: &Path, version: u32) -> Server {
    let plugins = home.join("plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::copy(component(&format!("schema-{version}")), plugins.join("schema.wasm")).unwrap();
    Setup::new().data_dir(&home.join("data")).plugin_dir(&plugins).start().await
}

fn old(name: &str) -> pb::Resource {
    thing("schema", name, &Thing { text: name.into(), number: 7, ..Thing::default() })
}

/// Asserts that a resource is [`old`], upgraded exactly once.
fn is_upgraded(now: &pb::Resource, before: &pb::Resource) {
    let name = &before.id.as_ref().unwrap().name;
    let data = decoded::<Thing>(now);
    assert_eq!((data.text, data.number), (format!("upgraded {name}"), 8));
    assert_eq!((now.schema_version, before.schema_version), (2, 0));
    assert_eq!((&now.version, &now.generation, &now.id), (&before.version, &before.generation, &before.id));
}

#[tokio::test]
async fn every_rpc_has_the_upgraded_form() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 1).await;
    let a = server.write(old("a")).await.unwrap();
    let b = server.write(owned(old("b"), &id_of(&a))).await.unwrap();
    server.stop().await;

    let server = serve(home.path(), 2).await;
    // The read rule of version 2 refuses old data, so each call also shows that the rule sees the new form.
    is_upgraded(&server.read(&id(TYPE, "a")).await.unwrap(), &a);
    let place = tenancy("default", "default");
    let listed = server.list(gvk(TYPE), place.clone(), "").await.unwrap();
    assert_eq!(listed.len(), 2);
    is_upgraded(&listed[0], &a);
    is_upgraded(&listed[1], &b);
    is_upgraded(&server.list_by_owner(&id_of(&a)).await.unwrap()[0], &b);
    let mut watch = server.watch(gvk(TYPE), Some(place), "").await.unwrap();
    let snapshot = watch.snapshot().await;
    is_upgraded(&snapshot[0], &a);

    // Validation saw the upgraded prior, or it would have refused; the returned version works for a conditional write.
    let read = server.read(&id_of(&b)).await.unwrap();
    let written = server.write(read.clone()).await.unwrap();
    assert_eq!((decoded::<Thing>(&written).number, written.schema_version), (8, 2));
    assert_ne!(written.version, b.version);
    assert_eq!(watch.upsert().await, written);

    let status = pb::Status { observed_generation: a.generation.clone(), ..pb::Status::default() };
    let request =
        pb::WriteStatusRequest { id: Some(id_of(&a)), key: "k".into(), status: Some(status), ..Default::default() };
    let with_status = server.write_status(request).await.unwrap();
    assert_eq!(decoded::<Thing>(&with_status).text, "upgraded a");
    assert_eq!(watch.upsert().await, with_status);

    server.delete(&id_of(&b), &written.version).await.unwrap();
    assert_eq!(watch.deleted().await, written);
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_upgraded_twice() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 1).await;
    let a = server.write(old("a")).await.unwrap();
    server.stop().await;
    for _ in 0..3 {
        let server = serve(home.path(), 2).await;
        is_upgraded(&server.read(&id(TYPE, "a")).await.unwrap(), &a);
        is_upgraded(&server.read(&id(TYPE, "a")).await.unwrap(), &a);
        server.stop().await;
    }
}

#[tokio::test]
async fn writes_store_the_types_schema_version() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 2).await;
    // A client cannot set another schema version.
    let new = Thing { text: "upgraded x".into(), number: 1, ..Thing::default() };
    for said in [0, 1, 2, 99] {
        let mut resource = thing("schema", &format!("x{said}"), &new);
        resource.schema_version = said;
        let written = server.write(resource.clone()).await.unwrap();
        assert_eq!((written.schema_version, decoded::<Thing>(&written).number), (2, 1));
        let dry = server.mutate_and_validate(resource).await.unwrap().resource.unwrap();
        assert_eq!(dry.schema_version, 2);
    }
    let (code, text) = refusal(server.write(old("y")).await);
    assert_eq!((code, text.as_str()), (Code::InvalidArgument, "the new text is not of version 2"));
    server.stop().await;
}

/// Puts another version of the plugin into the folder.
fn replace(server: &Server, version: u32) {
    std::fs::copy(component(&format!("schema-{version}")), server.plugin_dir.join("schema.wasm")).unwrap();
}

/// Calls of `upgrade`, by the metrics.
async fn upgrades(server: &Server) -> f64 {
    let (_, page) = server.get("/metrics").await;
    let is_it = |line: &&str| line.starts_with("mortise_plugin_calls_total{") && line.contains("hook=\"upgrade\"");
    page.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test]
async fn after_a_reload_everything_is_stored_upgraded_without_an_event() {
    const COUNT: usize = 150;
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 1).await;
    let mut before = Vec::new();
    for n in 0..COUNT {
        before.push(server.write(old(&format!("t{n:03}"))).await.unwrap());
    }
    let mut watch = server.watch(gvk(TYPE), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await.len(), COUNT);

    replace(&server, 2);
    let of_two = |p: &crate::support::plugins::Seen| p.data.version == "2.0.0" && p.reason == "Serving";
    server.plugin_until("schema", |p| of_two(p) && p.data.types.iter().all(|t| !t.upgrading)).await;
    let after = server.list(gvk(TYPE), tenancy("default", "default"), "").await.unwrap();
    assert_eq!(after.len(), COUNT);
    for (now, before) in after.iter().zip(&before) {
        is_upgraded(now, before);
    }
    // Watches get no event of an upgrade.
    let mark = thing("schema", "mark", &Thing { text: "upgraded mark".into(), number: 1, ..Thing::default() });
    watch.shows_next(&server, mark).await;
    server.delete(&id(TYPE, "mark"), "").await.unwrap();
    server.stop().await;

    // The stored form is the new one, so no further upgrade is needed.
    let server = serve(home.path(), 2).await;
    assert_eq!(server.list(gvk(TYPE), tenancy("default", "default"), "").await.unwrap(), after);
    assert_eq!(upgrades(&server).await, 0.0);
    server.stop().await;
}

/// A watch that requires a value of a field finds old resources in their upgraded form, and uses a new version of the
/// plugin from the next change of the type on, of any kind.
#[tokio::test]
async fn a_watch_of_a_field_is_about_the_type_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 1).await;
    server.write(old("a")).await.unwrap();
    let watch = async |text: &str| {
        let request = WatchResourcesRequest {
            r#type: WatchType::Stateless.into(),
            resource_type: Some(gvk(TYPE)),
            filter: format!("data.text = {text:?}"),
            ..WatchResourcesRequest::default()
        };
        let mut client = WatchServiceClient::new(server.channel().await);
        client.watch_resources(request).await.unwrap().into_inner()
    };
    let next = async |stream: &mut tonic::Streaming<WatchResourcesResponse>| {
        let message = tokio::time::timeout(std::time::Duration::from_secs(20), stream.message()).await;
        let WatchResourcesResponse { changes, is_current, is_hard_reset, .. } = message.unwrap().unwrap().unwrap();
        let changes: Vec<_> = changes
            .into_iter()
            .map(|change| match change.change_type.unwrap() {
                ChangeType::Current(current) => current.resource.unwrap().id.unwrap().name,
                ChangeType::Removed(removed) => format!("-{}", removed.name.unwrap().name),
                other => panic!("{other:?}"),
            })
            .collect();
        (changes, is_current, is_hard_reset)
    };
    let mut of_old = watch("a").await;
    assert_eq!(next(&mut of_old).await, (vec!["a".to_owned()], true, false));
    let mut of_none = watch("none").await;
    assert_eq!(next(&mut of_none).await, (vec![], true, false));

    replace(&server, 2);
    server.plugin_until("schema", |p| p.data.version == "2.0.0" && p.reason == "Serving").await;
    let mut of_new = watch("upgraded a").await;
    assert_eq!(next(&mut of_new).await, (vec!["a".to_owned()], true, false));
    let other = thing("schema", "b", &Thing { text: "upgraded b".into(), number: 1, ..Thing::default() });
    server.write(other).await.unwrap();
    for stream in [&mut of_old, &mut of_none] {
        assert_eq!(next(stream).await, (vec![], false, true), "a hard reset");
        assert_eq!(next(stream).await, (vec![], true, false));
    }
    server.delete(&id(TYPE, "a"), "").await.unwrap();
    assert_eq!(next(&mut of_new).await, (vec!["-a".to_owned()], true, false));
    server.stop().await;
}

#[tokio::test]
async fn a_failing_upgrade_keeps_the_old_version_and_names_what_failed() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 1).await;
    server.write(old("fine")).await.unwrap();
    for (text, why) in [
        ("stuck", "cannot upgrade it from schema version 1: it is stuck"),
        ("trap", "hook upgrade"),
        ("garbage", "after its upgrade from schema version 1 it cannot be decoded as mortise.test.v1.Thing"),
    ] {
        let bad = server.write(old(text)).await.unwrap();
        replace(&server, 2);
        let refused = server.plugin_until("schema", |p| p.reason == "UpgradeFailed").await;
        for part in [format!("{text:?} in default/default"), why.to_owned(), "version 1.0.0".to_owned()] {
            assert!(refused.message.contains(&part), "{part} is not in: {}", refused.message);
        }
        assert!(!refused.message.contains("fine"), "{}", refused.message);
        assert_eq!(refused.data.version, "1.0.0");
        // The old version continues to serve, with old data.
        assert_eq!(decoded::<Thing>(&server.read(&id(TYPE, "fine")).await.unwrap()).text, "fine");
        server.delete(&id_of(&bad), "").await.unwrap();
        replace(&server, 1);
        server.plugin_until("schema", |p| p.reason == "Serving" && p.data.version == "1.0.0").await;
    }
    replace(&server, 2);
    server.plugin_until("schema", |p| p.reason == "Serving" && p.data.version == "2.0.0").await;
    server.stop().await;
}

#[tokio::test]
async fn a_higher_schema_version_needs_an_upgrade_and_a_lower_one_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path(), 1).await;
    let a = server.write(old("a")).await.unwrap();
    replace(&server, 3);
    let refused = server.plugin_until("schema", |p| p.reason == "UpgradeFailed").await;
    assert!(refused.message.contains("does not export mortise:plugin/upgrading; export it"), "{}", refused.message);

    // A refused file is tried again when it is touched.
    server.delete(&id_of(&a), "").await.unwrap();
    replace(&server, 3);
    server.plugin_until("schema", |p| p.reason == "Serving" && p.data.version == "3.0.0").await;
    assert_eq!(server.write(old("b")).await.unwrap().schema_version, 3);

    replace(&server, 2);
    let refused = server.plugin_until("schema", |p| p.reason == "SchemaVersionLower").await;
    assert!(refused.message.contains("would fall from 3 to 2"), "{}", refused.message);
    server.stop().await;
}
