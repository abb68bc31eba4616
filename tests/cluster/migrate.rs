//! `mortise migrate`: from one server to several, and back.

use std::path::Path;

use mortise_test_guests::{Thing, component};

use super::Shared;
use crate::support::{Server, Setup, artist, id_of, mortise, plugins::Plugins as _, thing, until};

async fn migrate(shared: &Shared, to: &str, data: &Path) -> (Option<i32>, String, String) {
    let env = [
        ("MORTISE_STORE_ETCD_ENDPOINTS", shared.endpoint.as_str()),
        ("MORTISE_STORE_ETCD_PREFIX", shared.prefix.as_str()),
    ];
    mortise(&["migrate", "--to", to, "--data-dir", &data.display().to_string()], &env).await
}

fn number(version: &str) -> u64 {
    version.parse().unwrap()
}

async fn stamp(server: &Server) -> Result<String, tonic::Status> {
    let written = server.write(thing("version_stamp", "thing", &Thing::default())).await;
    written.map(|resource| resource.metadata["mutated-by"].clone())
}

#[tokio::test]
async fn content_and_plugins_move_to_etcd_and_back() {
    let Some(shared) = Shared::new() else { return };
    let (data, plugins) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = || Setup::new().serve_as_shipped().env("MORTISE_PLUGINS_BUNDLED", "demo");
    let own = || own().data_dir(data.path()).plugin_dir(plugins.path());
    let server = own().start().await;
    let guest = std::fs::read(component("version-stamp-1")).unwrap();
    server.install("version-stamp", &guest).await.unwrap();
    let mut stored = Vec::new();
    for n in 0..250 {
        stored.push(server.write(artist(&format!("artist-{n}"))).await.unwrap());
    }
    let (code, _, error) = migrate(&shared, "etcd", data.path()).await;
    assert!(code == Some(1) && error.contains("in use"), "{error}");
    assert!(server.stop().await.success());
    let (code, out, error) = migrate(&shared, "etcd", data.path()).await;
    assert!(code == Some(0) && out.contains("each read back"), "{out}{error}");
    let (code, _, error) = migrate(&shared, "etcd", data.path()).await;
    assert!(code == Some(1) && error.contains("already"), "{error}");

    // Nothing is trusted that was not installed before.
    let several = || shared.setup().serve_as_shipped().env("MORTISE_PLUGINS_BUNDLED", "demo");
    let server = several().data_dir(data.path()).plugin_dir(plugins.path()).start().await;
    for artist in &stored {
        assert_eq!(server.read(&id_of(artist)).await.as_ref().ok(), Some(artist));
    }
    let last = number(&stored[249].version);
    let changed = server.write(stored[7].clone()).await.unwrap();
    assert!(number(&changed.version) > last, "{} after {last}", changed.version);
    assert_eq!(stamp(&server).await.unwrap(), "1.0.0");
    let other = several().start().await;
    until("the plugin has come along", async || match stamp(&other).await {
        Ok(version) if version == "1.0.0" => Ok(()),
        other => Err(other),
    })
    .await;
    let made = other.write(artist("made-elsewhere")).await.unwrap();

    let (code, _, error) = migrate(&shared, "sled", data.path()).await;
    assert!(code == Some(1) && error.contains("has a store already"), "{error}");
    assert!(other.stop().await.success());
    std::fs::rename(data.path().join("store"), data.path().join("old")).unwrap();
    assert!(server.stop().await.success());
    let (code, out, error) = migrate(&shared, "sled", data.path()).await;
    assert!(code == Some(0), "{out}{error}");
    let server = own().start().await;
    for artist in stored.iter().filter(|artist| artist.id != stored[7].id).chain([&changed, &made]) {
        assert_eq!(server.read(&id_of(artist)).await.as_ref().ok(), Some(artist));
    }
    assert_eq!(stamp(&server).await.unwrap(), "1.0.0");
    let next = server.write(artist("next")).await.unwrap();
    assert!(number(&next.version) > number(&made.version));
}
