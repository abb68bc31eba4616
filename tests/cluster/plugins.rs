//! Commands for plugins on one server of several.

use std::fs;

use mortise_resource::{data, pb, pb::condition::State};
use mortise_test_guests::{Thing, component};
use tonic::Code;

use super::{Shared, members};
use crate::support::{
    Server, id,
    plugins::{Plugins as _, Seen, sha256},
    thing, until,
};

const NAME: &str = "version-stamp";

fn guest(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

/// Waits until a write on the server is stamped by this version.
async fn until_version(server: &Server, version: &str) {
    until(version, async || {
        let written = server.write(thing("version_stamp", "thing", &Thing::default())).await;
        let found = written.map(|resource| resource.metadata["mutated-by"].clone());
        if found.as_deref().ok() == Some(version) { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Waits until a write on the server fails with this code.
async fn until_refused(server: &Server, code: Code) {
    until("a write is refused", async || {
        let written = server.write(thing("version_stamp", "thing", &Thing::default())).await;
        if written.as_ref().err().map(tonic::Status::code) == Some(code) { Ok(()) } else { Err(written) }
    })
    .await;
}

fn named() -> String {
    NAME.to_owned()
}

#[tokio::test]
async fn a_command_on_one_server_is_followed_by_the_others() {
    let Some(shared) = Shared::new() else { return };
    let (first, second) = (shared.start().await, shared.start().await);
    let (one, two) = (guest("version-stamp-1"), guest("version-stamp-2"));
    first.install(NAME, &one).await.unwrap();
    until_version(&second, "1.0.0").await;
    assert_eq!(fs::read(second.plugin_dir.join("version-stamp.wasm")).unwrap(), one);
    second.install(NAME, &two).await.unwrap();
    until_version(&first, "2.0.0").await;

    first.plugins().await.rollback(data::RollbackRequest { name: named() }).await.unwrap();
    until_version(&second, "1.0.0").await;
    second.plugins().await.disable(data::DisableRequest { name: named() }).await.unwrap();
    until_refused(&first, Code::FailedPrecondition).await;
    first.plugins().await.enable(data::EnableRequest { name: named() }).await.unwrap();
    until_version(&second, "1.0.0").await;
    until_version(&first, "1.0.0").await;

    first.plugins().await.remove(data::RemoveRequest { name: named() }).await.unwrap();
    until("its file is gone", async || {
        let file = second.plugin_dir.join("version-stamp.wasm");
        if file.exists() { Err(file) } else { Ok(()) }
    })
    .await;
    until_refused(&second, Code::FailedPrecondition).await;
}

#[tokio::test]
async fn the_last_of_several_commands_counts_on_every_server() {
    let Some(shared) = Shared::new() else { return };
    let (first, second) = (shared.start().await, shared.start().await);
    // The second server is busy with the first plan when the later ones come.
    for version in ["version-stamp-1", "version-stamp-2", "version-stamp-1", "version-stamp-2"] {
        first.install(NAME, &guest(version)).await.unwrap();
    }
    until_version(&second, "2.0.0").await;
    until_version(&first, "2.0.0").await;
}

#[tokio::test]
async fn a_server_that_comes_later_has_what_was_planned_meanwhile() {
    let Some(shared) = Shared::new() else { return };
    let (one, two) = (guest("version-stamp-1"), guest("version-stamp-2"));
    let (data, plugins) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let away = || shared.setup().data_dir(data.path()).plugin_dir(plugins.path());
    let first = shared.start().await;
    let second = away().start().await;
    first.install(NAME, &one).await.unwrap();
    until_version(&second, "1.0.0").await;
    second.stop().await;
    first.install(NAME, &two).await.unwrap();

    // One was away, one is new: both serve the second version as soon as they are ready.
    let second = away().start().await;
    let third = shared.setup().serve_as_shipped().start().await;
    for server in [&second, &third] {
        let written = server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap();
        assert_eq!(written.metadata["mutated-by"], "2.0.0");
    }
    second.stop().await;
    first.plugins().await.remove(data::RemoveRequest { name: named() }).await.unwrap();
    let second = away().start().await;
    assert!(!second.plugin_dir.join("version-stamp.wasm").exists());
    until_refused(&second, Code::FailedPrecondition).await;
}

#[tokio::test]
async fn a_server_that_cannot_load_it_says_so_and_the_roll_out_stops() {
    let Some(shared) = Shared::new() else { return };
    // The servers follow in the order of their names, which is that of their first starts.
    let key = mortise_keys::signature::KeyPair::generate(None).unwrap().public.lines().nth(1).unwrap().to_owned();
    let strict = shared.setup().env("MORTISE_PLUGINS_REQUIRE_SIGNED", true);
    let strict = strict.env("MORTISE_PLUGINS_TRUSTED_KEYS", key).start().await;
    let (first, last) = (shared.start().await, shared.start().await);
    let names: Vec<String> = members(&first, 3).await.into_iter().map(|member| member.id).collect();
    first.install(NAME, &guest("version-stamp-1")).await.unwrap();
    until_version(&first, "1.0.0").await;
    let conditions = |resource: &pb::Resource, server: &str| {
        let status = resource.status.get(&format!("mortise/{server}"));
        let loaded = status.and_then(|status| status.conditions.iter().find(|found| found.r#type == "Loaded"));
        loaded.map(|found| (found.reason.clone(), found.message.clone())).unwrap_or_default()
    };
    let seen = until("every server has told its state", async || {
        let resource = first.read(&id("mortise.v1.Plugin", NAME)).await.unwrap();
        let reasons: Vec<_> = names.iter().map(|server| conditions(&resource, server).0).collect();
        if reasons == ["NotFollowed", "Serving", "RolloutStopped"] { Ok(resource) } else { Err(reasons) }
    })
    .await;
    assert!(conditions(&seen, &names[0]).1.contains("require_signed"), "{seen:?}");
    assert!(conditions(&seen, &names[2]).1.contains(&names[0]), "{seen:?}");
    let seen = Seen::from(seen);
    assert_eq!((seen.loaded, seen.data.digest), (State::False, sha256(&guest("version-stamp-1"))), "{}", seen.message);
    for server in [&strict, &last] {
        let refused = server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
}
