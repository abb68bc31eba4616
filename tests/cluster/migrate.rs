//! `mortise migrate`: from one server to several, and back.

use std::path::Path;

use mortise_test_guests::{Thing, component};

use tonic::{Code, Status};

use super::Shared;
use crate::support::{
    Server, Setup, Watch, artist, gvk, id_of, is_left_out_over_etcd, mortise, plugins::Plugins as _, tenancy, thing,
    until,
};

async fn migrate(shared: &Shared, to: &str, data: &Path) -> (Option<i32>, String, String) {
    let env = [
        ("MORTISE_STORE_ETCD_ENDPOINTS", shared.endpoint.as_str()),
        ("MORTISE_STORE_ETCD_PREFIX", shared.prefix.as_str()),
    ];
    mortise(&["migrate", "--to", to, "--data-dir", &data.display().to_string()], &env).await
}

/// Makes an address of etcd that does not answer until a value is sent.
async fn gated(endpoint: String) -> (String, tokio::sync::watch::Sender<bool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (gate, opened) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        while let Ok((mut here, _)) = listener.accept().await {
            let (endpoint, mut opened) = (endpoint.clone(), opened.clone());
            tokio::spawn(async move {
                if opened.wait_for(|opened| *opened).await.is_err() {
                    return;
                }
                let mut there = tokio::net::TcpStream::connect(&endpoint).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            });
        }
    });
    (address, gate)
}

/// Reads and watches are served during the move, and writes are refused.
#[tokio::test]
async fn the_source_is_served_read_only_while_it_moves() {
    const ATTEMPTS: usize = 10;
    if is_left_out_over_etcd("both engines take part in each run") {
        return;
    }
    let Some(shared) = Shared::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let own = || Setup::new().serve_as_shipped().env("MORTISE_PLUGINS_BUNDLED", "demo").data_dir(data.path());
    let server = own().start().await;
    let stored = server.write(artist("korn")).await.unwrap();
    assert!(server.stop().await.success());
    let moving = || own().migrate_to("etcd").env("MORTISE_STORE_ETCD_PREFIX", &shared.prefix);
    let (address, _gate) = gated(shared.endpoint.clone()).await;
    let mut stopped = moving().env("MORTISE_STORE_ETCD_ENDPOINTS", address).start().await;
    let pid = stopped.child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").arg(pid).status().unwrap().success());
    assert_eq!(stopped.child.wait().await.unwrap().code(), Some(1));
    until("the reason is in the log", async || match stopped.log() {
        log if log.contains("stopped before all was moved; run the command again") => Ok(()),
        // Etcd may have counted as away before the signal.
        log if log.contains("etcd cannot be reached") => Ok(()),
        log => Err(log),
    })
    .await;
    // A slow machine may take longer for the calls than etcd may take to answer: then the move fails, and is repeated.
    for attempt in 1.. {
        let (address, gate) = gated(shared.endpoint.clone()).await;
        let mut moving = moving().env("MORTISE_STORE_ETCD_ENDPOINTS", address).start().await;
        let calls = async || -> Result<Watch, Status> {
            assert_eq!(moving.read(&id_of(&stored)).await?, stored);
            let mut watch = moving.watch(gvk("demo.v2.Artist"), Some(tenancy("default", "default")), "").await?;
            assert_eq!(watch.snapshot().await, std::slice::from_ref(&stored));
            for refused in [
                moving.write(artist("late")).await.map(drop),
                moving.write(stored.clone()).await.map(drop),
                moving.delete(&id_of(&stored), "").await,
            ] {
                let refused = refused.unwrap_err();
                if !refused.message().contains("read-only while its content is moved") {
                    return Err(refused);
                }
                assert_eq!(refused.code(), Code::Unavailable, "{refused}");
            }
            Ok(watch)
        };
        let called = calls().await;
        gate.send_replace(true);
        let ended = moving.child.wait().await.unwrap();
        if ended.success() && called.is_ok() {
            break;
        }
        assert!(!ended.success() && attempt < ATTEMPTS, "{:?} {}", called.err(), moving.log());
    }
    let server = shared.setup().serve_as_shipped().env("MORTISE_PLUGINS_BUNDLED", "demo").start().await;
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
    assert!(server.read(&id_of(&artist("late"))).await.is_err());
}

fn number(version: &str) -> u64 {
    version.parse().unwrap()
}

async fn stamp(server: &Server) -> Result<String, Status> {
    let written = server.write(thing("version_stamp", "thing", &Thing::default())).await;
    written.map(|resource| resource.metadata["mutated-by"].clone())
}

#[tokio::test]
async fn content_and_plugins_move_to_etcd_and_back() {
    if is_left_out_over_etcd("both engines take part in each run") {
        return;
    }
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
