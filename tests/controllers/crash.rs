//! A server that is killed during a cascade, or with many queued reconciles, finishes them after the restart:
//! everything converges, nothing is left over, and nothing else is deleted.

use std::path::Path;

use crate::support::{
    Server, Setup, concept, decoded, eventually, gvk, id_of, is_gone, owned, progress_until, tenancy, thing, tombstones,
};
use mortise_resource::pb;
use mortise_test_guests::Thing;
use tokio::task::JoinSet;

const MANY: usize = 1_000;

async fn start(dir: &Path) -> Server {
    Setup::new().guest("reconcile-copy").data_dir(dir).env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300).start().await
}

/// Writes many resources with several concurrent clients.
async fn write_all(server: &Server, resources: Vec<pb::Resource>) -> Vec<pb::Id> {
    let mut writers = JoinSet::new();
    for part in resources.chunks(resources.len().div_ceil(32)) {
        let (mut client, part) = (server.client(), part.to_vec());
        writers.spawn(async move {
            let mut ids = Vec::new();
            for resource in part {
                let request = pb::WriteRequest { resource: Some(resource) };
                ids.push(id_of(&client.write(request).await.unwrap().into_inner().resource.unwrap()));
            }
            ids
        });
    }
    writers.join_all().await.into_iter().flatten().collect()
}

async fn count(server: &Server, of: &str, prefix: &str) -> usize {
    server.list(gvk(of), tenancy("default", "default"), prefix).await.unwrap().len()
}

/// Waits until this many resources exist.
async fn until_count(server: &Server, of: &str, prefix: &str, wanted: usize) {
    progress_until(&format!("{wanted} of {of}"), async || {
        let now = count(server, of, prefix).await;
        if now == wanted { Ok(()) } else { Err(now) }
    })
    .await;
}

async fn kill(mut server: Server) {
    server.signal("KILL");
    server.ended().await;
}

#[tokio::test]
async fn a_cascade_goes_on_where_it_was_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let [goes, stays] = ["goes", "stays"].map(concept);
    let goes = id_of(&server.write(goes).await.unwrap());
    let stays = id_of(&server.write(stays).await.unwrap());
    let children = (0..MANY).map(|n| owned(concept(&format!("child-{n}")), &goes)).collect();
    write_all(&server, children).await;
    let others = (0..50).map(|n| owned(concept(&format!("other-{n}")), &stays)).collect();
    let others = write_all(&server, others).await;

    server.delete(&goes, "").await.unwrap();
    let mut cuts = 0;
    let mut server = server;
    // Killed again and again, while work is left.
    for _ in 0..5 {
        let mut left = MANY;
        eventually("the cascade is under way", async || {
            left = count(&server, "demo.v1.Concept", "child-").await;
            left < MANY
        })
        .await;
        cuts += usize::from(left > 0);
        kill(server).await;
        server = start(dir.path()).await;
    }
    println!("cut off {cuts} times in the middle");
    assert!(cuts > 0, "it was over before it could be cut off");
    until_count(&server, "demo.v1.Concept", "child-", 0).await;
    eventually("no tombstone is left", || async { tombstones(&server).await.is_empty() }).await;
    for id in others.iter().chain([&stays]) {
        assert!(!is_gone(&server, id).await, "{}", id.name);
    }
}

#[tokio::test]
async fn queued_resources_are_reconciled_after_the_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path()).await;
    let text = |n: usize| Thing { text: format!("text {n}"), ..Thing::default() };
    let things = (0..MANY).map(|n| thing("reconcile_copy", &format!("thing-{n}"), &text(n))).collect();
    write_all(&server, things).await;
    for _ in 0..3 {
        println!("{} of {MANY} copies when it is killed", count(&server, "reconcile_copy.v1.Copy", "").await);
        kill(server).await;
        server = start(dir.path()).await;
    }
    until_count(&server, "reconcile_copy.v1.Copy", "", MANY).await;
    let copies = server.list(gvk("reconcile_copy.v1.Copy"), tenancy("default", "default"), "").await.unwrap();
    for copy in &copies {
        let name = id_of(copy).name;
        let number = name.trim_start_matches("thing-").trim_end_matches("-copy").parse().unwrap();
        assert_eq!(decoded::<Thing>(copy), text(number), "{name}");
    }
    // Deletions without a running controller are cleaned up once it runs again.
    let things = server.list(gvk("reconcile_copy.v1.Thing"), tenancy("default", "default"), "").await.unwrap();
    let mut deleting = JoinSet::new();
    for part in things.chunks(MANY / 20) {
        let (mut client, part) = (server.client(), part.to_vec());
        deleting.spawn(async move {
            for thing in part {
                let request = pb::DeleteRequest { id: thing.id, version: String::new() };
                client.delete(request).await.unwrap();
            }
        });
    }
    deleting.join_all().await;
    kill(server).await;
    let server = start(dir.path()).await;
    for of in ["reconcile_copy.v1.Thing", "reconcile_copy.v1.Copy"] {
        until_count(&server, of, "", 0).await;
    }
    let values = || async { server.list(gvk("mortise.v1.Value"), pb::Tenancy::default(), "").await.unwrap() };
    eventually("no value is left", || async { values().await.is_empty() }).await;
}
