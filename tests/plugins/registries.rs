//! Plugins that the configuration takes from registries: installed at the start, refused as by an install, left as an
//! operator wants them, and kept without a registry.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mortise_keys::signature::{KeyPair, SecretKey, SigningError, sign};
use mortise_resource::data;
use mortise_test_guests::{Thing, component};

use crate::support::{
    Server, Setup, mortise,
    plugins::{Plugins as _, Seen},
    test_registry::{self, Mischief, TestRegistry},
    thing, until,
};

const NAME: &str = "version-stamp";
const FAULT: &str = "mortise_plugin_source_fault{plugin=\"version-stamp\"}";

/// Puts a guest into a registry, with a signature if there is one.
async fn push(registry: &TestRegistry, guest: &str, place: &str, signature: Option<&str>) -> String {
    push_content(registry, &fs::read(component(guest)).unwrap(), place, signature).await
}

/// Puts the guest `version-stamp` into a registry with this version, and the same as its tag.
async fn push_version(registry: &TestRegistry, version: &str) -> String {
    push_content(registry, &versioned("version-stamp-1", version), &format!("acme/stamp:{version}"), None).await
}

/// A guest of version 1.0.0 with another version.
fn versioned(guest: &str, version: &str) -> Vec<u8> {
    let mut content = fs::read(component(guest)).unwrap();
    let own = b"1.0.0";
    assert_eq!(version.len(), own.len());
    let places: Vec<_> = (0..content.len()).filter(|place| content[*place..].starts_with(own)).collect();
    assert!(!places.is_empty());
    for place in places {
        content[place..place + own.len()].copy_from_slice(version.as_bytes());
    }
    content
}

async fn push_content(registry: &TestRegistry, content: &[u8], place: &str, signature: Option<&str>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("guest.wasm");
    fs::write(&file, content).unwrap();
    if let Some(signature) = signature {
        fs::write(dir.path().join("guest.wasm.minisig"), signature).unwrap();
    }
    let reference = registry.reference(place);
    let (code, out, err) = mortise(&["plugin", "push", file.to_str().unwrap(), &reference], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    reference
}

/// Waits until the log has all of these.
async fn logged(server: &Server, texts: &[&str]) {
    until("the log", async || match server.log() {
        log if texts.iter().all(|text| log.contains(text)) => Ok(()),
        log => Err(log),
    })
    .await;
}

/// A server that asks registries again five times a second.
fn setup(config: String) -> Setup {
    Setup::new().config(config).limit("registry_retry_ms", 200)
}

fn source(reference: &str) -> String {
    format!("[plugin.{NAME}]\nsource = \"{reference}\"\n")
}

async fn until_version(server: &Server, version: &str) -> Seen {
    server.plugin_until(NAME, |seen| seen.data.version == version && seen.reason == "Serving").await
}

/// Returns true if a plugin serves. A first attempt is listed while it compiles.
async fn serves(server: &Server, plugin: &str) -> bool {
    server.plugin(plugin).await.is_some_and(|seen| seen.reason == "Serving")
}

/// Waits until the server has asked for the manifest some more times.
async fn asked_again(registry: &TestRegistry) {
    asked_for(registry, "/manifests/").await;
}

/// Waits until the server has asked for such a path three more times; what followed from the first two is done then.
async fn asked_for(registry: &TestRegistry, path: &str) {
    let mut seen = 0;
    registry.asked();
    until(path, async || {
        seen += registry.asked().iter().filter(|asked| asked.path.contains(path)).count();
        if seen >= 3 { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// A data directory and a plugin folder that outlive a server.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.folder()).unwrap();
        place
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("folder")
    }

    async fn start(&self, config: &str) -> Server {
        let setup = setup(config.to_owned()).data_dir(&self.0.path().join("data"));
        setup.plugin_dir(&self.folder()).start().await
    }
}

#[tokio::test]
async fn a_digest_fixes_the_content_and_a_tag_is_read_at_the_start() {
    let registry = TestRegistry::start(true).await;
    let tag = push(&registry, "version-stamp-1", "acme/stamp:1.0.0", None).await;
    let digest = test_registry::digest(&registry.raw_manifest("acme/stamp", "1.0.0").unwrap());
    let (fixed, moving) = (Place::new(), Place::new());
    for place in [&fixed, &moving] {
        let server = place.start(&source(&tag)).await;
        until_version(&server, "1.0.0").await;
        assert_eq!(server.metric(FAULT).await, Some(0.0));
        assert!(server.stop().await.success());
    }
    let file = component("version-stamp-2");
    let (code, ..) = mortise(&["plugin", "push", file.to_str().unwrap(), &tag, "--force"], &[]).await;
    assert_eq!(code, Some(0));
    let server = moving.start(&source(&tag)).await;
    until_version(&server, "2.0.0").await;
    let server = fixed.start(&source(&format!("{tag}@{digest}"))).await;
    until_version(&server, "1.0.0").await;
}

#[tokio::test]
async fn an_operator_s_word_holds_until_it_is_taken_back() {
    let registry = TestRegistry::start(true).await;
    let one = push(&registry, "version-stamp-1", "acme/stamp:1.0.0", None).await;
    let two = push(&registry, "version-stamp-2", "acme/stamp:2.0.0", None).await;
    let place = Place::new();
    let server = place.start(&source(&one)).await;
    until_version(&server, "1.0.0").await;
    assert!(server.stop().await.success());
    let server = place.start(&source(&two)).await;
    until_version(&server, "2.0.0").await;
    server.plugins().await.rollback(data::RollbackRequest { name: NAME.to_owned() }).await.unwrap();
    assert!(server.stop().await.success());

    // Gone back from: the next start leaves it so, however often it looks.
    let server = place.start(&source(&two)).await;
    asked_again(&registry).await;
    let seen = server.plugin(NAME).await.unwrap();
    assert!(seen.data.rolled_back && seen.data.version == "1.0.0", "{seen:?}");
    assert_eq!(server.metric(FAULT).await, Some(0.0));
    // Disabled: it stays so, too.
    server.plugins().await.disable(data::DisableRequest { name: NAME.to_owned() }).await.unwrap();
    asked_again(&registry).await;
    assert!(server.plugin(NAME).await.unwrap().data.disabled);
    assert_eq!(server.metric(FAULT).await, Some(0.0));
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_plugin_whose_file_is_lost_or_removed_comes_back_with_its_stored_resources() {
    let registry = TestRegistry::start(true).await;
    let one = push(&registry, "version-stamp-1", "acme/stamp:1.0.0", None).await;
    let place = Place::new();
    let server = place.start(&source(&one)).await;
    until_version(&server, "1.0.0").await;
    server.write(thing("version_stamp", "kept", &Thing::default())).await.unwrap();
    assert!(server.stop().await.success());
    fs::remove_file(place.folder().join(format!("{NAME}.wasm"))).unwrap();
    let server = place.start(&source(&one)).await;
    until_version(&server, "1.0.0").await;
    server.write(thing("version_stamp", "new", &Thing::default())).await.unwrap();
    // Removed by an operator: it stays so for this run, and comes back at the next start.
    server.plugins().await.remove(data::RemoveRequest { name: NAME.to_owned() }).await.unwrap();
    assert!(server.stop().await.success());
    let server = place.start(&source(&one)).await;
    until_version(&server, "1.0.0").await;
}

#[tokio::test]
async fn a_server_without_its_registry_goes_on_and_stops_in_time() {
    let registry = TestRegistry::start(false).await;
    let one = push(&registry, "version-stamp-1", "acme/stamp:1.0.0", None).await;
    let place = Place::new();
    let server = place.start(&source(&one)).await;
    until_version(&server, "1.0.0").await;
    assert!(server.stop().await.success());

    registry.stop();
    let server = place.start(&source(&one)).await;
    until_version(&server, "1.0.0").await;
    server.metric_until(FAULT, 1.0).await;
    logged(&server, &["plugin version-stamp: oci://", "cannot connect"]).await;
    assert!(server.stop().await.success());

    // An answer that never ends holds up no stop.
    let hanging = TestRegistry::start(false).await;
    hanging.misbehave("/v2/", Mischief::Stuck);
    let server = place.start(&source(&hanging.reference("acme/stamp:2.0.0"))).await;
    until("a request that hangs", async || {
        let asked = hanging.asked();
        if asked.is_empty() { Err("none") } else { Ok(()) }
    })
    .await;
    assert!(server.stop().await.success());
}

/// A key, and its signature of a guest.
fn signed(dir: &Path, guest: &str) -> (String, String) {
    let pair = KeyPair::generate(None).unwrap();
    fs::write(dir.join("key"), &pair.secret).unwrap();
    let none = || -> Result<String, SigningError> { Err(SigningError::PasswordMissing) };
    let secret = SecretKey::read(&dir.join("key"), none).unwrap();
    let content = fs::read(component(guest)).unwrap();
    let public = pair.public.lines().nth(1).unwrap().to_owned();
    (public, sign(&content, "guest.wasm", &secret, None).unwrap())
}

#[tokio::test]
async fn a_source_is_trusted_like_an_install_and_one_that_is_refused_holds_up_no_other() {
    let registry = TestRegistry::start(true).await;
    let dir = tempfile::tempdir().unwrap();
    let (trusted, good) = signed(dir.path(), "version-stamp-1");
    let (_, strange) = signed(dir.path(), "version-stamp-1");
    // The newest signature is by a stranger; the trusted one is found behind it.
    let one = push(&registry, "version-stamp-1", "acme/stamp:1.0.0", Some(&good)).await;
    push(&registry, "version-stamp-1", "acme/stamp:1.0.0", Some(&strange)).await;
    let unsigned = push(&registry, "no-hook", "acme/no-hook:1.0.0", None).await;
    let missing = registry.reference("acme/missing:1.0.0");
    let config = format!(
        "[plugins]\nrequire_signed = true\ntrusted_keys = [\"{trusted}\"]\n\
         [plugin.no-hook]\nsource = \"{unsigned}\"\n[plugin.missing]\nsource = \"{missing}\"\n{}",
        source(&one)
    );
    let server = setup(config).start().await;
    let seen = until_version(&server, "1.0.0").await;
    assert!(seen.data.trust.contains("signed"), "{}", seen.data.trust);
    for plugin in ["no-hook", "missing"] {
        server.metric_until(&format!("mortise_plugin_source_fault{{plugin=\"{plugin}\"}}"), 1.0).await;
        assert!(!serves(&server, plugin).await);
    }
    assert_eq!(server.metric(FAULT).await, Some(0.0));
    logged(&server, &["the server refuses the component", "the registry does not have it"]).await;
}

#[tokio::test]
async fn a_refused_component_is_a_fault_until_the_source_has_another() {
    let registry = TestRegistry::start(true).await;
    // Another plugin's component.
    let one = push(&registry, "no-hook", "acme/stamp:1.0.0", None).await;
    let server = setup(source(&one)).start().await;
    server.metric_until(FAULT, 1.0).await;
    asked_again(&registry).await;
    assert_eq!(server.metric(FAULT).await, Some(1.0), "a refusal is not forgotten");
    assert!(!serves(&server, NAME).await);
    let file = component("version-stamp-1");
    let (code, ..) = mortise(&["plugin", "push", file.to_str().unwrap(), &one, "--force"], &[]).await;
    assert_eq!(code, Some(0));
    until_version(&server, "1.0.0").await;
    server.metric_until(FAULT, 0.0).await;
    assert!(server.stop().await.success());
}

fn following(reference: &str, update: &str) -> String {
    format!("{}update = \"{update}\"\n", source(reference))
}

#[tokio::test]
async fn newer_versions_are_installed_as_far_as_the_policy_goes_and_kept_over_a_restart() {
    let registry = TestRegistry::start(true).await;
    let one = push_version(&registry, "1.0.0").await;
    for (update, newest) in [("pin", "1.0.0"), ("patch", "1.0.2"), ("minor", "1.1.0")] {
        let place = Place::new();
        let server = place.start(&following(&one, update)).await;
        let first = until_version_of(&server).await;
        // The later rounds find the newer tags at the first look.
        if first == "1.0.0" && update == "patch" {
            for version in ["1.0.1", "1.0.2", "1.1.0", "2.0.0"] {
                push_version(&registry, version).await;
            }
        }
        until_version(&server, newest).await;
        if update != "pin" {
            asked_for(&registry, "/tags/list").await;
            until_version(&server, newest).await;
        }
        assert!(server.stop().await.success());
        // The version of the source is an older one, and the server does not go back to it.
        let server = place.start(&following(&one, update)).await;
        until_version(&server, newest).await;
        if update != "pin" {
            asked_for(&registry, "/tags/list").await;
        }
        let seen = server.plugin(NAME).await.unwrap();
        assert_eq!((&*seen.data.version, &*seen.reason), (newest, "Serving"));
        assert_eq!(server.metric(FAULT).await, Some(0.0));
        assert!(server.stop().await.success());
    }
}

/// Waits until the plugin serves, and returns its version.
async fn until_version_of(server: &Server) -> String {
    server.plugin_until(NAME, |seen| seen.reason == "Serving").await.data.version
}

#[tokio::test]
async fn a_newer_version_that_is_refused_leaves_the_newest_that_fits() {
    let registry = TestRegistry::start(false).await;
    let one = push_version(&registry, "1.0.0").await;
    push_version(&registry, "1.0.1").await;
    // Another plugin's component.
    push_content(&registry, &versioned("no-hook", "1.0.2"), "acme/stamp:1.0.2", None).await;
    let server = setup(following(&one, "patch")).start().await;
    until_version(&server, "1.0.1").await;
    server.metric_until(FAULT, 1.0).await;
    logged(&server, &["acme/stamp:1.0.2@sha256:"]).await;
    asked_for(&registry, "/tags/list").await;
    assert_eq!(server.plugin(NAME).await.unwrap().data.version, "1.0.1");
    push_version(&registry, "1.0.3").await;
    until_version(&server, "1.0.3").await;
    server.metric_until(FAULT, 0.0).await;
    // Two that are refused: the server looks at neither the one that serves nor that of the source.
    for version in ["1.0.4", "1.0.5"] {
        push_content(&registry, &versioned("no-hook", version), &format!("acme/stamp:{version}"), None).await;
    }
    server.metric_until(FAULT, 1.0).await;
    for _ in 0..3 {
        asked_for(&registry, "/tags/list").await;
        let seen = server.plugin(NAME).await.unwrap();
        assert_eq!(seen.data.version, "1.0.3", "{seen:?}");
    }
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn an_operator_who_goes_back_from_an_update_gets_the_next_one() {
    let registry = TestRegistry::start(true).await;
    let one = push_version(&registry, "1.0.0").await;
    let server = setup(following(&one, "patch")).start().await;
    until_version(&server, "1.0.0").await;
    push_version(&registry, "1.0.1").await;
    until_version(&server, "1.0.1").await;
    server.plugins().await.rollback(data::RollbackRequest { name: NAME.to_owned() }).await.unwrap();
    until_version(&server, "1.0.0").await;
    asked_for(&registry, "/tags/list").await;
    assert_eq!(until_version_of(&server).await, "1.0.0");
    push_version(&registry, "1.0.2").await;
    until_version(&server, "1.0.2").await;
    server.plugins().await.disable(data::DisableRequest { name: NAME.to_owned() }).await.unwrap();
    push_version(&registry, "1.0.3").await;
    asked_for(&registry, "/tags/list").await;
    assert!(server.plugin(NAME).await.unwrap().data.disabled);
    assert!(server.stop().await.success());
}

/// An old component keeps its signature, so the tag of a newer version must not bring it back.
#[tokio::test]
async fn an_older_component_under_a_newer_tag_is_refused() {
    let registry = TestRegistry::start(true).await;
    let one = push_version(&registry, "1.0.1").await;
    let latest = push_content(&registry, &versioned("version-stamp-1", "1.0.1"), "acme/stamp:latest", None).await;
    let moving = Place::new();
    let server = moving.start(&source(&latest)).await;
    until_version(&server, "1.0.1").await;
    assert!(server.stop().await.success());
    for place in ["acme/stamp:1.0.2", "acme/stamp:latest"] {
        let file = moving.0.path().join("old.wasm");
        fs::write(&file, versioned("version-stamp-1", "1.0.0")).unwrap();
        let to = registry.reference(place);
        let (code, ..) = mortise(&["plugin", "push", file.to_str().unwrap(), &to, "--force"], &[]).await;
        assert_eq!(code, Some(0));
    }
    let following = setup(following(&one, "patch")).start().await;
    for (server, place) in
        [(following, "acme/stamp:1.0.2"), (moving.start(&source(&latest)).await, "acme/stamp:latest")]
    {
        until_version(&server, "1.0.1").await;
        server.metric_until(FAULT, 1.0).await;
        logged(&server, &[place, "says that it is version 1.0.0, older than 1.0."]).await;
        asked_again(&registry).await;
        assert_eq!(server.plugin(NAME).await.unwrap().data.version, "1.0.1");
        assert!(server.stop().await.success());
    }
    // Its digest says that it is wanted.
    let digest = test_registry::digest(&registry.raw_manifest("acme/stamp", "latest").unwrap());
    let server = moving.start(&source(&format!("{latest}@{digest}"))).await;
    until_version(&server, "1.0.0").await;
}

/// With a policy the source is asked for as long as the server runs, and a plugin that is removed stays so.
#[tokio::test]
async fn a_removed_plugin_with_a_policy_comes_back_at_the_next_start() {
    let registry = TestRegistry::start(true).await;
    let one = push_version(&registry, "1.0.0").await;
    let other = push(&registry, "no-hook", "acme/no-hook:1.0.0", None).await;
    let config = format!("{}[plugin.no-hook]\nsource = \"{other}\"\nupdate = \"patch\"\n", following(&one, "patch"));
    let place = Place::new();
    let server = place.start(&config).await;
    until_version(&server, "1.0.0").await;
    // A look after the install notes that the plugin serves.
    asked_for(&registry, "/acme/stamp/tags/list").await;
    server.plugins().await.remove(data::RemoveRequest { name: NAME.to_owned() }).await.unwrap();
    push_version(&registry, "1.0.1").await;
    asked_for(&registry, "/acme/no-hook/tags/list").await;
    assert!(!serves(&server, NAME).await);
    assert!(server.stop().await.success());
    let server = place.start(&config).await;
    until_version(&server, "1.0.1").await;
}
