//! Controllers run on one server at a time, and go on elsewhere.

use mortise_api::ServerServiceClient;
use mortise_resource::{data::ServerStatusRequest, pb};
use mortise_test_guests::Thing;

use super::Shared;
use crate::support::{
    Server,
    controllers::{read_until, report},
    gvk, id, tenancy, thing, until,
};

const CONTROLLER: &str = "reconcile-copy/copies";

fn work(n: usize) -> pb::Resource {
    thing("reconcile_copy", &format!("thing-{n}"), &Thing { text: format!("text {n}"), ..Thing::default() })
}

async fn until_copied(server: &Server, n: usize) {
    read_until(server, &id("reconcile_copy.v1.Copy", &format!("thing-{n}-copy")), |_| true).await;
}

/// Waits until exactly one of the servers runs the controller; returns its position.
async fn until_one_runs(servers: &[&Server]) -> usize {
    until("one server runs the controller", async || {
        let mut states = Vec::new();
        for server in servers {
            states.push(report(server, CONTROLLER).await.state);
        }
        let running: Vec<_> = (0..states.len()).filter(|n| states[*n] == "Running").collect();
        if let [one] = running[..] { Ok(one) } else { Err(states) }
    })
    .await
}

#[tokio::test]
async fn a_controller_runs_on_one_server_and_goes_on_after_a_kill() {
    let Some(shared) = Shared::new() else { return };
    let start = || shared.setup().guest("reconcile-copy").start();
    let mut servers = vec![start().await, start().await];
    let holder = until_one_runs(&servers.iter().collect::<Vec<_>>()).await;
    servers[1 - holder].write(work(0)).await.unwrap();
    until_copied(&servers[1 - holder], 0).await;

    let mut killed = servers.remove(holder);
    killed.signal("KILL");
    killed.ended().await;
    servers[0].write(work(1)).await.unwrap();
    until_copied(&servers[0], 1).await;
    assert_eq!(until_one_runs(&[&servers[0]]).await, 0);
}

#[tokio::test]
async fn a_paused_server_changes_nothing_when_it_wakes_up() {
    let Some(shared) = Shared::new() else { return };
    let start = || shared.setup().guest("reconcile-copy").start();
    let servers = [start().await, start().await];
    let holder = until_one_runs(&servers.iter().collect::<Vec<_>>()).await;
    let (paused, other) = (&servers[holder], &servers[1 - holder]);
    other.write(work(0)).await.unwrap();
    until_copied(other, 0).await;

    // Asleep with work ahead of it, for as long as the other one needs to take over and do the work.
    paused.signal("STOP");
    for n in 1..20 {
        other.write(work(n)).await.unwrap();
    }
    for n in 1..20 {
        until_copied(other, n).await;
    }
    let copies = || other.list(gvk("reconcile_copy.v1.Copy"), tenancy("*", "*"), "");
    let before = copies().await.unwrap();
    paused.signal("CONT");
    // It works as before, once it holds the lease again or the other one does.
    paused.write(work(20)).await.unwrap();
    until_copied(other, 20).await;
    let after = copies().await.unwrap();
    assert!(before.iter().all(|copy| after.contains(copy)), "a copy was written again");
    assert_eq!((before.len(), after.len()), (20, 21));
}

/// Servers that share a store share the schedule of backups: one of them takes them, and another one goes on.
#[tokio::test]
async fn one_server_takes_the_scheduled_backups_and_another_goes_on_after_it() {
    let Some(shared) = Shared::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let setup = || {
        shared
            .setup()
            .env("MORTISE_BACKUP_SCHEDULE", "every 6h")
            .env("MORTISE_BACKUP_DIR", dir.path().display())
            .limit("backup_interval_ms", 1_100)
    };
    let servers = [setup().start().await, setup().start().await];
    let state = async |server: &Server| {
        let mut client = ServerServiceClient::new(server.channel().await);
        let status = client.status(ServerStatusRequest {}).await.unwrap().into_inner();
        status.scheduled_backups.unwrap()
    };
    until("backups of one", async || {
        let (first, second) = (state(&servers[0]).await, state(&servers[1]).await);
        let are_taken = first.is_here != second.is_here && first.files.max(second.files) >= 2;
        if are_taken { Ok(()) } else { Err((first, second)) }
    })
    .await;
    let taking = usize::from(state(&servers[1]).await.is_here);
    let done = async |server: &Server| server.metric("mortise_backup_runs_total{outcome=\"done\"}").await.unwrap();
    // The first server may have taken some before the second one came.
    let (idle, taken) = (done(&servers[1 - taking]).await, done(&servers[taking]).await);
    until("two more by the same", async || match done(&servers[taking]).await {
        now if now >= taken + 2.0 => Ok(()),
        now => Err(now),
    })
    .await;
    assert_eq!(done(&servers[1 - taking]).await, idle);
    let [first, second] = servers;
    let (taking, other) = if taking == 0 { (first, second) } else { (second, first) };
    assert!(taking.stop().await.success());
    until("the other one takes them", async || match done(&other).await {
        done if done > idle => Ok(()),
        done => Err(done),
    })
    .await;
}
