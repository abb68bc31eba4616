//! Reloads under load: no call fails, and none is served by two versions. `mortise-bench reload` does a thousand.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::common::{Setup, thing};
use crate::plugins::Plugins as _;
use mortise_resource::pb;
use mortise_test_guests::{Thing, component};
use tokio::task::JoinSet;

const RELOADS: usize = 100;
const CLIENTS: usize = 32;
/// Reloads after which memory must not grow any more, and by how much it may vary, MiB.
const WARM: usize = 50;
const SLACK_MIB: usize = 48;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_and_none_sees_half_of_each_version() {
    let guests = ["version-stamp-1", "version-stamp-2"].map(|name| fs::read(component(name)).unwrap());
    let server = Setup::new().component("version-stamp", guests[0].clone()).start().await;
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
    let path = server.plugin_dir.join("version-stamp.wasm");
    let mut warm = 0;
    for reload in 1..=RELOADS {
        let temporary = server.plugin_dir.join("next");
        fs::write(&temporary, &guests[reload % 2]).unwrap();
        fs::rename(&temporary, &path).unwrap();
        let wanted = ["1.0.0", "2.0.0"][reload % 2];
        server.plugin_until("version-stamp", |p| p.reason == "Serving" && p.data.version == wanted).await;
        if reload == WARM {
            warm = server.resident_bytes() >> 20;
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let after = server.resident_bytes() >> 20;
    assert!(after < warm + SLACK_MIB, "{warm} MiB after {WARM} reloads, {after} MiB after {RELOADS}");
    assert!(calls.load(Ordering::Relaxed) > RELOADS as u64, "the clients did something");
}
