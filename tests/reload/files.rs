//! Plugins follow their files while the server runs.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use crate::support::{
    Server, Setup, artist, eventually, gvk, hookless, id_of, is_gone, noted, plugins::Plugins as _, refusal, tenancy,
    thing,
};
use mortise_api::WatchServiceClient;
use mortise_resource::{
    data::{WatchResourcesRequest, resource_change::ChangeType},
    goten::WatchType,
};
use mortise_test_guests::{Thing, component};
use tonic::Code;

const TYPE: &str = "version_stamp.v1.Thing";

fn guest(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

fn stamped() -> mortise_resource::pb::Resource {
    thing("version_stamp", "thing", &Thing::default())
}

/// The version that serves, stamped by its guest.
async fn version(server: &Server) -> String {
    server.write(stamped()).await.unwrap().metadata["mutated-by"].clone()
}

async fn becomes(server: &Server, wanted: &str) {
    server.plugin_until("version-stamp", |p| p.reason == "Serving" && p.data.version == wanted).await;
    assert_eq!(version(server).await, wanted);
}

fn file(server: &Server) -> std::path::PathBuf {
    server.plugin_dir.join("version-stamp.wasm")
}

async fn first() -> Server {
    let server = Setup::new().component("version-stamp", guest("version-stamp-1")).start().await;
    becomes(&server, "1.0.0").await;
    server
}

#[tokio::test]
async fn a_file_written_in_place_is_loaded() {
    let server = first().await;
    fs::write(file(&server), guest("version-stamp-2")).unwrap();
    becomes(&server, "2.0.0").await;
    let plugin = server.plugin("version-stamp").await.unwrap();
    assert_eq!(plugin.data.previous_version, "1.0.0");
    assert_eq!(plugin.data.source, "version-stamp.wasm");
    assert_eq!(plugin.data.size, guest("version-stamp-2").len() as u64);
    assert_eq!(plugin.observed_generation, plugin.generation);
}

#[tokio::test]
async fn a_file_renamed_over_is_loaded() {
    let server = first().await;
    let temporary = server.plugin_dir.join("upload.tmp");
    fs::write(&temporary, guest("version-stamp-2")).unwrap();
    fs::rename(temporary, file(&server)).unwrap();
    becomes(&server, "2.0.0").await;
}

/// Config managers deploy so: the file is a link through a link to a directory, which is switched.
#[tokio::test]
async fn a_switched_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("plugins");
    for (version, guest_name) in [("a", "version-stamp-1"), ("b", "version-stamp-2")] {
        fs::create_dir_all(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("version-stamp.wasm"), guest(guest_name)).unwrap();
    }
    symlink("a", folder.join("..data")).unwrap();
    symlink("..data/version-stamp.wasm", folder.join("version-stamp.wasm")).unwrap();
    let server = Setup::new().plugin_dir(&folder).start().await;
    becomes(&server, "1.0.0").await;
    symlink("b", folder.join("..data.next")).unwrap();
    fs::rename(folder.join("..data.next"), folder.join("..data")).unwrap();
    becomes(&server, "2.0.0").await;
}

#[tokio::test]
async fn a_file_that_appears_late_is_loaded_and_the_folder_may_too() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("plugins");
    let setup = Setup::new().component("junk", b"junk".to_vec());
    let server = setup.plugin_dir(&folder).limit("plugin_rescan_ms", 100).start().await;
    server.plugin_until("junk", |p| p.reason == "NotAComponent").await;
    fs::remove_dir_all(&folder).unwrap();
    assert!(server.is_unknown(TYPE).await);
    eventually("the folder is found missing", async || server.plugin("junk").await.is_none()).await;
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("version-stamp.wasm"), guest("version-stamp-1")).unwrap();
    becomes(&server, "1.0.0").await;
}

#[tokio::test]
async fn a_half_written_file_waits_for_its_rest() {
    let server = first().await;
    let mut watch = server.watch_plugins().await;
    let whole = guest("version-stamp-2");
    let (head, tail) = whole.split_at(whole.len() / 2);
    fs::write(file(&server), head).unwrap();
    server.plugin_until("version-stamp", |p| p.reason == "Waiting").await;
    assert_eq!(version(&server).await, "1.0.0");
    let mut open = fs::OpenOptions::new().append(true).open(file(&server)).unwrap();
    std::io::Write::write_all(&mut open, tail).unwrap();
    becomes(&server, "2.0.0").await;
    let story = watch.story("version-stamp", "Serving").await;
    assert_eq!(story, ["Waiting", "Compiling", "Checking", "Swapping", "Serving"], "no fault was ever said");
}

#[tokio::test]
async fn a_file_that_stays_half_is_a_fault_and_the_old_version_serves() {
    let server = Setup::new()
        .component("version-stamp", guest("version-stamp-1"))
        .limit("plugin_unfinished_ms", 200)
        .start()
        .await;
    let whole = guest("version-stamp-2");
    fs::write(file(&server), &whole[..whole.len() - 1]).unwrap();
    let plugin = server.plugin_until("version-stamp", |p| p.reason == "Truncated").await;
    assert!(plugin.message.contains("copy the whole file again"), "{}", plugin.message);
    assert!(plugin.message.contains("version 1.0.0") && plugin.message.contains("continues to serve"));
    assert_eq!(plugin.data.version, "1.0.0");
    assert_eq!(version(&server).await, "1.0.0");
    fs::write(file(&server), &whole).unwrap();
    becomes(&server, "2.0.0").await;
}

#[tokio::test]
async fn unchanged_content_is_no_reload() {
    let server = first().await;
    let mut watch = server.watch_plugins().await;
    let before = server.plugin("version-stamp").await.unwrap();
    for n in 0..3 {
        fs::write(file(&server), guest("version-stamp-1")).unwrap();
        // A look that finds this file finds the former, too.
        let later = format!("later-{n}");
        fs::write(server.plugin_dir.join(format!("{later}.wasm")), "junk").unwrap();
        server.plugin_until(&later, |p| p.reason == "NotAComponent").await;
    }
    assert_eq!(server.plugin("version-stamp").await.unwrap(), before);
    // A reload of the same content would come first.
    fs::write(file(&server), guest("version-stamp-2")).unwrap();
    assert_eq!(watch.story("version-stamp", "Serving").await, ["Compiling", "Checking", "Swapping", "Serving"]);
    assert_eq!(server.plugin("version-stamp").await.unwrap().data.version, "2.0.0");
}

#[tokio::test]
async fn a_removed_plugin_leaves_its_resources_readable_and_deletable() {
    let dir = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("version-stamp.wasm"), guest("version-stamp-1")).unwrap();
    let setup = || Setup::new().plugin_dir(dir.path()).data_dir(data.path()).limit("plugin_rescan_ms", 200);
    let server = setup().start().await;
    let stored = server.write(stamped()).await.unwrap();
    fs::remove_file(file(&server)).unwrap();
    server.plugin_until("version-stamp", |p| p.reason == "Removed").await;
    orphaned(&server, &stored).await;
    assert!(server.stop().await.success());

    let server = setup().start().await;
    orphaned(&server, &stored).await;
    let mut watch = server.watch(gvk(TYPE), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await, std::slice::from_ref(&stored));
    server.delete(stored.id.as_ref().unwrap(), "").await.unwrap();
    watch.deleted().await;
    eventually("the type goes with the last of its resources", || server.is_unknown(TYPE)).await;
    eventually("the plugin's resource goes", async || server.plugin("version-stamp").await.is_none()).await;
}

async fn orphaned(server: &Server, stored: &mortise_resource::pb::Resource) {
    assert_eq!(server.read(stored.id.as_ref().unwrap()).await.unwrap(), *stored);
    let listed = server.list(gvk(TYPE), tenancy("*", "*"), "").await.unwrap();
    assert_eq!(listed, std::slice::from_ref(stored));
    let (code, message) = refusal(server.write(stamped()).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("plugin \"version-stamp\"") && message.contains("is removed"), "{message}");
}

#[tokio::test]
async fn a_removed_plugin_of_which_nothing_is_stored_is_gone_and_may_come_back() {
    let server =
        Setup::new().component("version-stamp", guest("version-stamp-1")).limit("plugin_rescan_ms", 200).start().await;
    fs::remove_file(file(&server)).unwrap();
    eventually("the type is gone", || server.is_unknown(TYPE)).await;
    eventually("the plugin is gone", async || server.plugin("version-stamp").await.is_none()).await;
    fs::write(file(&server), guest("version-stamp-2")).unwrap();
    becomes(&server, "2.0.0").await;
}

#[tokio::test]
async fn a_renamed_file_is_the_same_plugin() {
    let server = first().await;
    let mut watch = server.watch(gvk(TYPE), None, "").await.unwrap();
    watch.snapshot().await;
    fs::rename(file(&server), server.plugin_dir.join("other.wasm")).unwrap();
    server.plugin_until("version-stamp", |p| p.data.source == "other.wasm" && p.reason == "Serving").await;
    assert_eq!(version(&server).await, "1.0.0");
    watch.upsert().await;
}

/// An event is judged by the plugin at the time of its delivery; the stream itself does not notice a reload.
#[tokio::test]
async fn an_open_watch_goes_on_across_reloads() {
    let server = first().await;
    let mut watch = server.watch(gvk(TYPE), None, "").await.unwrap();
    watch.snapshot().await;
    let request = WatchResourcesRequest {
        r#type: WatchType::Stateless.into(),
        resource_type: Some(gvk(TYPE)),
        filter: "metadata.mutated-by = \"2.0.0\"".into(),
        ..WatchResourcesRequest::default()
    };
    let mut of_second = WatchServiceClient::new(server.channel().await);
    let mut of_second = of_second.watch_resources(request).await.unwrap().into_inner();
    let mut told = async || {
        let message = tokio::time::timeout(Duration::from_secs(20), of_second.message()).await;
        let message = message.unwrap().unwrap().unwrap();
        assert!(message.is_current && !message.is_hard_reset);
        message.changes.into_iter().map(|change| change.change_type.unwrap()).collect::<Vec<_>>()
    };
    assert!(told().await.is_empty());
    for (next, wanted) in [("version-stamp-2", "2.0.0"), ("version-stamp-1", "1.0.0"), ("version-stamp-2", "2.0.0")] {
        fs::write(file(&server), guest(next)).unwrap();
        becomes(&server, wanted).await;
        assert_eq!(watch.upsert().await.metadata["mutated-by"], wanted);
        match (wanted, told().await.as_slice()) {
            ("2.0.0", [ChangeType::Current(_)]) | ("1.0.0", [ChangeType::Removed(_)]) => {}
            (_, told) => panic!("{wanted}: {told:?}"),
        }
    }
}

#[tokio::test]
async fn clients_cannot_write_plugins() {
    let server = first().await;
    let plugin = server.plugin("version-stamp").await.unwrap().resource;
    let id = plugin.id.clone().unwrap();
    for (code, message) in [
        refusal(server.write(plugin.clone()).await),
        refusal(server.delete(&id, "").await),
        refusal(server.mutate_and_validate(plugin.clone()).await),
        refusal(
            server
                .write_status(mortise_resource::pb::WriteStatusRequest {
                    id: Some(id.clone()),
                    key: "mine".into(),
                    version: String::new(),
                    status: Some(mortise_resource::pb::Status {
                        observed_generation: plugin.generation.clone(),
                        ..Default::default()
                    }),
                })
                .await,
        ),
    ] {
        assert_eq!(code, Code::PermissionDenied);
        assert!(message.contains("mortise.v1.PluginService"), "{message}");
    }
    assert_eq!(server.read(&id).await.unwrap(), plugin);
}

#[tokio::test]
async fn a_restart_writes_nothing_and_serves_the_same() {
    let data = tempfile::tempdir().unwrap();
    let setup = || Setup::new().component("version-stamp", guest("version-stamp-1")).data_dir(data.path());
    let server = setup().start().await;
    becomes(&server, "1.0.0").await;
    let before = server.plugin("version-stamp").await.unwrap();
    assert!(server.stop().await.success());
    let server = setup().start().await;
    assert_eq!(server.plugin("version-stamp").await.unwrap(), before);
    assert!(Path::new(data.path()).join("plugins/version-stamp").join(format!("{}.wasm", before.data.digest)).exists());
}

#[tokio::test]
async fn settings_follow_the_configuration_and_a_broken_one_changes_nothing() {
    let setup = Setup::new().component("version-stamp", guest("version-stamp-1"));
    let server = setup.config("[plugin.version-stamp.settings]\ncolour = \"red\"\n").start().await;
    becomes(&server, "1.0.0").await;
    let mut watch = server.watch_plugins().await;

    server.configure("[plugin.version-stamp.settings]\ncolour = \"blue\"\n");
    let story = watch.story("version-stamp", "Serving").await;
    assert_eq!(story, ["Compiling", "Checking", "Swapping", "Serving"]);

    for broken in ["[plugin.version-stamp\n", "[plugin.version-stamp]\nsetings = 1\n"] {
        server.configure(broken);
        eventually("the error is logged", async || server.log().contains("changed configuration is rejected")).await;
    }
    let seen = server.plugin_until("version-stamp", |p| p.reason == "BadSettings").await;
    assert!(seen.message.contains("setings"), "{}", seen.message);
    assert_eq!(version(&server).await, "1.0.0");

    server.configure("[plugin.version-stamp.settings]\ncolour = \"blue\"\n[service]\nmax_watches = 7\n");
    server.plugin_until("version-stamp", |p| p.reason == "Serving").await;
    let notice = "these settings take effect with a restart: service.max_watches";
    eventually("the notice is logged", async || server.log().contains(notice)).await;
}

/// Only deletion is possible, even with finalizers, though marking and removing them are writes.
#[tokio::test]
async fn an_orphan_with_finalizers_can_be_deleted() {
    let server =
        Setup::new().component("version-stamp", guest("version-stamp-1")).limit("plugin_rescan_ms", 200).start().await;
    let stored = server.write(noted(stamped(), &[("finalizers", "mine")])).await.unwrap();
    let id = id_of(&stored);
    fs::remove_file(file(&server)).unwrap();
    server.plugin_until("version-stamp", |p| p.reason == "Removed").await;
    server.delete(&id, "").await.unwrap();
    let mut marked = server.read(&id).await.unwrap();
    marked.metadata.insert("finalizers".into(), String::new());
    server.write(marked).await.unwrap();
    assert!(is_gone(&server, &id).await);
    eventually("the type goes", || server.is_unknown(TYPE)).await;
}

/// HTTP paths are in lower case, so kinds must differ by more than case, even within a plugin.
#[tokio::test]
async fn kinds_that_differ_in_case_only_are_one_too_many() {
    let server = first().await;
    for types in [&["other.v1.DNSName", "other.v1.DnsName"][..], &["version_stamp.v2.THING"]] {
        let (code, message) = refusal(server.install("good", &hookless(types)).await);
        assert_eq!(code, Code::FailedPrecondition);
        assert!(message.contains("TypeTaken") && message.contains("in lower case"), "{message}");
    }
    assert_eq!(server.plugin_names().await, ["catalog", "demo", "version-stamp"]);
}

/// A plugin of another name may take over the types of a removed one, if they are compatible; not those of a disabled
/// one.
#[tokio::test]
async fn types_of_a_removed_plugin_are_adopted_and_those_of_a_disabled_one_are_not() {
    let server = first().await;
    let stored = server.read(&crate::support::id(TYPE, "thing")).await.unwrap();
    let heir = hookless(&[TYPE]);
    let mut client = server.plugins().await;
    let name = || "version-stamp".to_owned();
    client.disable(mortise_resource::data::DisableRequest { name: name() }).await.unwrap();
    let (code, message) = refusal(server.install("good", &heir).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("TypeTaken"), "{message}");
    assert_eq!(server.plugin_names().await, ["catalog", "demo", "version-stamp"]);

    client.remove(mortise_resource::data::RemoveRequest { name: name() }).await.unwrap();
    server.install("good", &heir).await.unwrap();
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
    assert_eq!(server.write(stamped()).await.unwrap().metadata.get("mutated-by"), None, "no hooks any more");
    eventually("the removed plugin is forgotten", async || server.plugin_names().await == ["catalog", "demo", "good"])
        .await;
}

/// The stored resource decides what a deletion needs, not the client's copy; nothing else is written.
#[tokio::test]
async fn an_orphan_can_only_be_written_for_its_deletion() {
    let server =
        Setup::new().component("version-stamp", guest("version-stamp-1")).limit("plugin_rescan_ms", 200).start().await;
    let named = |name: &str| {
        let mut one = stamped();
        one.id.as_mut().unwrap().name = name.into();
        one
    };
    let held = server.write(noted(named("held"), &[("finalizers", "a b")])).await.unwrap();
    let mut plain = server.write(named("plain")).await.unwrap();
    plain.metadata.insert("deletionTimestamp".into(), "2026-01-01T00:00:00Z".into());
    let plain = server.write(plain).await.unwrap();
    fs::remove_file(file(&server)).unwrap();
    server.plugin_until("version-stamp", |p| p.reason == "Removed").await;
    let refused = async |resource: mortise_resource::pb::Resource| {
        let (code, message) = refusal(server.write(resource).await);
        assert_eq!(code, Code::FailedPrecondition, "{message}");
        assert!(message.contains("is removed"), "{message}");
    };
    let blanket = |stored: &mortise_resource::pb::Resource, pairs: &[(&str, &str)]| {
        let mut one = stored.clone();
        one.version.clear();
        one.metadata.remove("deletionTimestamp");
        one.metadata.extend(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        one
    };
    // Marked and without finalizers, it could be changed if a plugin were there to validate it.
    let mut changed = plain.clone();
    changed.metadata.insert("free".into(), "x".into());
    refused(changed).await;
    let mut created = named("created");
    created.metadata.insert("deletionTimestamp".into(), "2026-01-01T00:00:00Z".into());
    refused(created.clone()).await;
    assert_eq!(refusal(server.mutate_and_validate(created).await).0, Code::FailedPrecondition);
    refused(blanket(&held, &[])).await;

    let id = id_of(&held);
    server.delete(&id, "").await.unwrap();
    let held = server.read(&id).await.unwrap();
    server.write(blanket(&held, &[("finalizers", "a")])).await.unwrap();
    server.write(blanket(&held, &[("finalizers", "")])).await.unwrap();
    assert!(is_gone(&server, &id).await);
}

/// The manifest that created it, without `mutate`'s additions, counts as the same metadata.
#[tokio::test]
async fn a_marked_resource_is_released_with_the_manifest_that_made_it() {
    let server = first().await;
    let manifest = |finalizers: &str| noted(stamped(), &[("finalizers", finalizers), ("k", "v")]);
    let stored = server.write(manifest("a b")).await.unwrap();
    let id = id_of(&stored);
    assert!(stored.metadata.len() > 2, "mutate adds to it");
    server.delete(&id, "").await.unwrap();
    server.write(manifest("b")).await.unwrap();
    server.write(manifest("")).await.unwrap();
    assert!(is_gone(&server, &id).await);
}

/// Installing the serving component ties the plugin to the new file, so that the former one may be removed.
#[tokio::test]
async fn an_install_of_the_serving_component_outlives_its_link() {
    let shelf = tempfile::tempdir().unwrap();
    let target = shelf.path().join("target");
    fs::write(&target, guest("version-stamp-1")).unwrap();
    let server = Setup::new().limit("plugin_rescan_ms", 200).start().await;
    let link = server.plugin_dir.join("vs.wasm");
    symlink(&target, &link).unwrap();
    becomes(&server, "1.0.0").await;
    fs::remove_file(&target).unwrap();
    server.plugin_until("version-stamp", |p| p.reason == "Unreadable").await;
    assert!(server.install("version-stamp", &guest("version-stamp-1")).await.unwrap().unchanged);
    let seen = server.plugin("version-stamp").await.unwrap();
    assert_eq!((seen.reason.as_str(), seen.data.source.as_str()), ("Serving", "version-stamp.wasm"));
    server.plugin_until("vs", |p| p.reason == "Unreadable").await;
    fs::remove_file(&link).unwrap();
    eventually("its resource goes with it", async || server.plugin("vs").await.is_none()).await;
    // A command runs after the folder has been processed.
    assert!(server.install("version-stamp", &guest("version-stamp-1")).await.unwrap().unchanged);
    becomes(&server, "1.0.0").await;
}

/// The same if the former file has just been removed, unnoticed.
#[tokio::test]
async fn an_install_of_the_serving_component_outlives_a_file_renamed_before() {
    let server = Setup::new()
        .component("a", guest("version-stamp-1"))
        .limit("plugin_rescan_ms", 200)
        .limit("plugin_settle_ms", 1_000)
        .start()
        .await;
    becomes(&server, "1.0.0").await;
    let renamed = server.plugin_dir.join("n.wasm");
    fs::rename(server.plugin_dir.join("a.wasm"), &renamed).unwrap();
    server.install("version-stamp", &guest("version-stamp-1")).await.unwrap();
    assert_eq!(server.plugin("version-stamp").await.unwrap().data.source, "version-stamp.wasm");
    let seen = server.plugin_until("n", |p| p.reason == "NameTaken").await;
    assert!(seen.message.contains("the file version-stamp.wasm provides it"), "{}", seen.message);
    fs::remove_file(&renamed).unwrap();
    eventually("its resource goes with it", async || server.plugin("n").await.is_none()).await;
    assert!(server.install("version-stamp", &guest("version-stamp-1")).await.unwrap().unchanged);
    becomes(&server, "1.0.0").await;
}

/// A plugin that is enabled by name stays that plugin, whichever file has the same content.
#[tokio::test]
async fn a_bundled_plugin_outlives_a_file_of_the_same_content() {
    let dev = Server::start().await;
    let digest = dev.plugin("demo").await.unwrap().data.digest;
    let bytes = fs::read(dev.data_dir.join("plugins/demo").join(format!("{digest}.wasm"))).unwrap();
    assert!(dev.stop().await.success());

    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("zz.wasm");
    fs::write(&file, bytes).unwrap();
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let server = setup().serve().start().await;
    assert_eq!(server.plugin("demo").await.unwrap().data.source, "zz.wasm");
    assert!(server.stop().await.success());

    let server = setup().limit("plugin_rescan_ms", 200).start().await;
    let seen = server.plugin("demo").await.unwrap();
    assert_eq!((seen.reason.as_str(), seen.data.source.as_str()), ("Serving", "bundled"));
    let seen = server.plugin("zz").await.unwrap();
    assert!(seen.reason == "NameTaken" && seen.message.contains("it is bundled"), "{seen:?}");
    fs::remove_file(&file).unwrap();
    eventually("its resource goes with it", async || server.plugin("zz").await.is_none()).await;
    assert_eq!(server.plugin("demo").await.unwrap().reason, "Serving");
    server.write(artist("korn")).await.unwrap();
}
