//! Reloads under load: calls do not fail, and each is served by one version. Repeated reloads: replaced versions leave
//! no memory behind. `MORTISE_RELOADS=1000` sets the number of both; `mortise-bench reload` does a thousand.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::support::{Server, Setup, plugins::Plugins as _, thing};
use mortise_resource::pb;
use mortise_test_guests::{Thing, component};
use tokio::task::JoinSet;

/// Default number of reloads.
const RELOADS: usize = 100;
const CLIENTS: usize = 32;
/// Growth of memory allowed under load in the second half of the reloads, MiB, including the writes of clients.
const SLACK_MIB: usize = 24;
/// Growth of memory allowed without load from the first half of the reloads to the end, KiB, for any number of reloads.
/// A version takes 1.4 MiB.
const GROWTH_KIB: usize = 4 << 10;
/// Number of reloads for a median.
const MEDIAN_OF: usize = 21;

fn reloads() -> usize {
    std::env::var("MORTISE_RELOADS").map_or(RELOADS, |text| text.parse().unwrap())
}

/// The versions in turn, with their numbers.
fn versions() -> [(Vec<u8>, &'static str); 2] {
    [("version-stamp-1", "1.0.0"), ("version-stamp-2", "2.0.0")]
        .map(|(name, version)| (fs::read(component(name)).unwrap(), version))
}

/// Replaces the serving version, and waits until the new one serves.
async fn replace(server: &Server, (component, version): &(Vec<u8>, &str)) {
    let temporary = server.plugin_dir.join("next");
    fs::write(&temporary, component).unwrap();
    fs::rename(&temporary, server.plugin_dir.join("version-stamp.wasm")).unwrap();
    server.plugin_until("version-stamp", |p| p.reason == "Serving" && p.data.version == *version).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_and_none_sees_half_of_each_version() {
    let (reloads, versions) = (reloads(), versions());
    let server = Setup::new().component("version-stamp", versions[0].0.clone()).start().await;
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        let (mut client, stop, calls) = (server.client(), stop.clone(), calls.clone());
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let resource = thing("version_stamp", &format!("thing-{n}"), &Thing::default());
                let request = pb::WriteRequest { resource: Some(resource) };
                let written = client.write(request).await.unwrap().into_inner();
                let stored = written.resource.unwrap();
                let said = format!("validated by {}", stored.metadata["mutated-by"]);
                assert!(written.warnings.iter().any(|w| w.summary == said), "{:?}: {said}", written.warnings);
                let read = client.read(pb::ReadRequest { id: stored.id.clone() }).await.unwrap().into_inner();
                assert_eq!(read.resource.unwrap().id, stored.id);
                calls.fetch_add(2, Ordering::Relaxed);
            }
        });
    }
    let (mut warm, half) = (0, reloads / 2);
    for reload in 1..=reloads {
        replace(&server, &versions[reload % 2]).await;
        if reload == half {
            warm = server.resident_bytes() >> 20;
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let after = server.resident_bytes() >> 20;
    let calls = calls.load(Ordering::Relaxed);
    println!("{warm} MiB after {half} reloads, {after} MiB after {reloads}; {calls} calls");
    assert!(after < warm + SLACK_MIB, "{warm} MiB after {half} reloads, {after} MiB after {reloads}");
    assert!(calls > reloads as u64, "the clients did something");
}

/// Each version serves a call before it is replaced, so that it has instances and memories to leave behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_versions_leave_no_memory_behind() {
    let (reloads, versions) = (reloads(), versions());
    let server = Setup::new().component("version-stamp", versions[0].0.clone()).start().await;
    let mut resident = Vec::new();
    for reload in 1..=reloads {
        replace(&server, &versions[reload % 2]).await;
        let written = server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap();
        assert_eq!(written.metadata["mutated-by"], versions[reload % 2].1);
        resident.push(server.resident_bytes() >> 10);
    }
    let middle = |mut kib: Vec<usize>| {
        kib.sort_unstable();
        kib[kib.len() / 2]
    };
    let half = reloads / 2;
    let before = middle(resident[half - MEDIAN_OF..half].to_vec());
    let after = middle(resident[reloads - MEDIAN_OF..].to_vec());
    println!("{before} KiB after {half} reloads, {after} KiB after {reloads}");
    assert!(after < before + GROWTH_KIB, "{before} KiB after {half} reloads, {after} KiB after {reloads}");
}
