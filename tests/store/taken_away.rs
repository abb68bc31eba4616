//! Files that are moved or removed under a running server.

use std::fs;

use tonic::Code;

use crate::support::{Setup, artist, eventually, id, id_of, is_left_out_over_etcd, mortise};

#[tokio::test]
async fn a_removed_data_directory_refuses_writes_and_readiness_but_not_reads_and_backups() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let server = Setup::new().data_dir(&data).start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    // The server may make a file meanwhile.
    while let Err(fault) = fs::remove_dir_all(&data) {
        assert_eq!(fault.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{fault}");
    }
    let refused = server.write(artist("lost")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.message().contains("was moved or removed under the running server"), "{refused}");
    let (code, text) = server.get("/readyz").await;
    assert!(code == 503 && text.contains("store"), "{code} {text}");
    assert!(server.get("/metrics").await.1.contains("mortise_store_poisoned 1"));
    assert_eq!(server.read(&id_of(&korn)).await.unwrap().version, korn.version);
    let (file, addr) = (place.path().join("backup.tar.gz"), server.grpc.to_string());
    let (code, _, errors) = mortise(&["backup", file.to_str().unwrap(), "--grpc-addr", &addr], &[]).await;
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(server.stop().await.code(), Some(1), "not a clean end");
    let plugins = place.path().join("plugins");
    let (file, data_dir, plugins) = (file.to_str().unwrap(), data.to_str().unwrap(), plugins.to_str().unwrap());
    let (code, _, errors) = mortise(&["restore", file, "--data-dir", data_dir, "--plugin-dir", plugins], &[]).await;
    assert_eq!(code, Some(0), "{errors}");
    let server = Setup::new().data_dir(&data).start().await;
    assert_eq!(server.read(&id("demo.v2.Artist", "korn")).await.unwrap().version, korn.version);
}

#[tokio::test]
async fn an_idle_server_is_not_ready_once_its_directory_is_moved() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let server = Setup::new().data_dir(&data).start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let aside = place.path().join("aside");
    fs::rename(&data, &aside).unwrap();
    eventually("it is not ready", async || server.get("/readyz").await.0 == 503).await;
    assert_eq!(server.stop().await.code(), Some(1));
    assert!(!data.exists());
    fs::rename(&aside, &data).unwrap();
    let server = Setup::new().data_dir(&data).start().await;
    assert_eq!(server.read(&id_of(&korn)).await.unwrap().version, korn.version);
}

#[tokio::test]
async fn an_unfinished_restore_is_removed_by_the_next_start() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir_all(data.join("restore.new/store")).unwrap();
    fs::write(data.join("restore.new/store/half"), "half").unwrap();
    let server = Setup::new().data_dir(&data).start().await;
    assert!(!data.join("restore.new").exists());
    assert!(server.stop().await.success());
}
