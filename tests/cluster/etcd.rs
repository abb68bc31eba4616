//! An etcd that goes away and comes back, and a start without etcd.

use mortise_test_process::etcd::Etcd;
use tonic::Code;

use crate::support::{Setup, artist, eventually, id_of, skipped};

#[tokio::test]
async fn reads_go_on_while_etcd_is_away_and_the_status_says_so() {
    let Some(mut etcd) = Etcd::start().unwrap() else { return skipped("no etcd: a server whose etcd goes away") };
    let server =
        Setup::new().arg("--store-engine=etcd").arg(format!("--etcd-endpoints={}", etcd.endpoint)).start().await;
    let stored = server.write(artist("a")).await.unwrap();
    etcd.kill().unwrap();
    let refused = server.write(artist("b")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.message().contains("etcd"), "{refused}");
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
    eventually("the server is not ready", async || server.get("/readyz").await.0 == 503).await;

    etcd.restart().unwrap();
    eventually("the server is ready", async || server.get("/readyz").await.0 == 200).await;
    server.write(artist("b")).await.unwrap();
    assert!(server.log().contains("etcd is back"), "{}", server.log());
}

#[tokio::test]
async fn a_server_does_not_start_without_etcd() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new().arg("--store-engine=etcd").arg("--etcd-endpoints=127.0.0.1:1");
    let (mut command, _, _) = setup.command(dir.path());
    let ended = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("etcd cannot be reached") && said.contains("endpoints"), "{said}");
}
