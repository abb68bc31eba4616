//! A server on a full disk: a small tmpfs, if mounting is allowed. Prints SKIPPED otherwise.

use std::{fs, io::Write as _, path::Path, process::Command};

use mortise_resource::pb;
use tonic::Code;

use crate::support::{Setup, artist, eventually, id, id_of, is_left_out_over_etcd, mortise, skipped};

struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(dir.path()).output();
        if mount.is_ok_and(|mount| mount.status.success()) {
            return Some(Self(dir));
        }
        skipped("a tmpfs cannot be mounted (needs root)");
        None
    }

    fn fill(&self) {
        let ballast = self.0.path().join("ballast");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(ballast).unwrap();
        for piece in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; piece]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.0.path().join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0.path()).status().ok();
    }
}

fn setup(data: &Path) -> Setup {
    Setup::new().data_dir(data).env("MORTISE_STORE_RESERVE_BYTES", 8 << 20)
}

#[tokio::test]
async fn a_full_disk_is_reported_and_survived() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let Some(disk) = Disk::new() else { return };
    let data = disk.0.path().join("data");
    let server = setup(&data).start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    disk.fill();
    let mut refused = None;
    for n in 0..200 {
        let metadata = [("text".to_owned(), "x".repeat(100_000))].into();
        if let Err(status) = server.write(pb::Resource { metadata, ..artist(&format!("tool-{n}")) }).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("bytes are missing"), "{refused:?}");
    assert_eq!(server.fetch("/readyz").await.code(), 200);
    let addr = server.grpc.to_string();
    let (code, out, _) = mortise(&["status", "--grpc-addr", &addr], &[]).await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("warning: the store refuses writes that need disk space"), "{out}");

    server.delete(&id_of(&korn), "").await.unwrap();
    disk.make_room();
    let mut korn = artist("korn");
    eventually("writes go on", async || {
        let written = server.write(artist("korn")).await;
        written.is_ok_and(|written| {
            korn = written;
            true
        })
    })
    .await;

    // It starts on a full disk, and reads.
    assert!(server.stop().await.success());
    disk.fill();
    let server = setup(&data).start().await;
    assert_eq!(server.read(&id_of(&korn)).await.unwrap().version, korn.version);
    disk.make_room();
    eventually("writes go on", async || server.write(artist("disturbed")).await.is_ok()).await;
    assert!(server.stop().await.success());
}

/// A start has to write the record of a plugin's new file, and to end half a line of the audit log.
#[tokio::test]
async fn a_start_on_a_full_disk_serves_reads_and_deletions_whatever_it_has_to_write() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let Some(disk) = Disk::new() else { return };
    let (data, plugins) = (disk.0.path().join("data"), disk.0.path().join("plugins"));
    let start = || setup(&data).plugin_dir(&plugins);
    let server = start().start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    assert!(server.stop().await.success());
    fs::write(plugins.join("broken.wasm"), "broken").unwrap();
    fs::create_dir_all(data.join("audit")).unwrap();
    fs::write(data.join("audit/audit.jsonl"), "{\"half").unwrap();
    disk.fill();
    let (code, out, errors) = mortise(&["check", "--data-dir", data.to_str().unwrap()], &[]).await;
    assert!(code == Some(0) && out.contains("no problems found"), "{out}{errors}");
    assert!(out.contains("its disk has no space for a copy"), "{out}");
    let server = start().env("MORTISE_AUDIT_EVENTS", "changes").start().await;
    assert_eq!(server.read(&id_of(&korn)).await.unwrap().version, korn.version);
    server.delete(&id_of(&korn), "").await.unwrap();
    disk.make_room();
    eventually("the record is written", async || server.read(&id("mortise.v1.Plugin", "broken")).await.is_ok()).await;
    assert!(server.stop().await.success());
}
