//! Backup and restore over the wire: a restore returns one moment of a busy server, with its plugins; damaged and
//! foreign files are refused.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use mortise_resource::{data, pb};
use mortise_test_guests::{Thing, component};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::support::{
    PATIENCE, Server, Setup, album, artist, eventually, gvk, id, mortise, plugins::Plugins as _, tenancy, thing,
};

/// Takes a backup with the command; returns exit code, output and errors.
async fn backup(server: &Server, file: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let addr = server.grpc.to_string();
    let mut all = vec!["backup", file.to_str().unwrap(), "--grpc-addr", &addr];
    all.extend(args);
    mortise(&all, &[]).await
}

/// A directory to restore into.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn plugins(&self) -> PathBuf {
        self.0.path().join("plugins")
    }

    async fn restore(&self, file: &Path, args: &[&str]) -> (Option<i32>, String, String) {
        let (data, plugins) = (self.data(), self.plugins());
        let mut all = vec!["restore", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
        all.extend(["--plugin-dir", plugins.to_str().unwrap()]);
        all.extend(args);
        mortise(&all, &[]).await
    }

    /// Restores from a pipe; returns exit code and errors.
    async fn restore_from_pipe(&self, bytes: &[u8], args: &[&str]) -> (Option<i32>, String) {
        let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_mortise"))
            .args(["restore", "-", "--data-dir"])
            .arg(self.data())
            .arg("--plugin-dir")
            .arg(self.plugins())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).await.unwrap();
        let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    async fn serve(&self) -> Server {
        fs::create_dir_all(self.plugins()).unwrap();
        // A restore makes a store of sled; `mortise migrate` moves it.
        Setup::new().of_sled().data_dir(&self.data()).plugin_dir(&self.plugins()).start().await
    }

    /// Content of all files in the directory.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![self.0.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for path in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
                found.insert(path.clone(), fs::read(&path).unwrap_or_default());
                if path.is_dir() {
                    dirs.push(path);
                }
            }
        }
        found
    }
}

async fn list(server: &Server, t: &str) -> Vec<pb::Resource> {
    let everywhere = if t.starts_with("mortise.") { tenancy("", "") } else { tenancy("*", "*") };
    server.list(gvk(t), everywhere, "").await.unwrap()
}

/// 64 writers, a plugin that was replaced once, a backup meanwhile, and another server restored from it.
#[tokio::test(flavor = "multi_thread")]
async fn one_moment_of_a_busy_server_comes_back() {
    let server = Setup::new().start().await;
    let guest = |name: &str| fs::read(component(name)).unwrap();
    server.install("version-stamp", &guest("version-stamp-1")).await.unwrap();
    server.install("version-stamp", &guest("version-stamp-2")).await.unwrap();
    for n in 0..200 {
        server.write(artist(&format!("fixed-{n}"))).await.unwrap();
    }
    let owner = server.read(&id("demo.v2.Artist", "fixed-7")).await.unwrap();
    server.write(album("owned", owner.id.as_ref())).await.unwrap();
    let stamped = server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap();

    // Each writer creates, replaces and deletes its own resources, and notes the acknowledged writes.
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let server = Arc::new(server);
    let writers: Vec<_> = (0..64)
        .map(|writer| {
            let (server, stop, written) = (server.clone(), stop.clone(), written.clone());
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                let mut n = 0_u64;
                while !stop.load(Ordering::SeqCst) {
                    let name = format!("w-{writer}-{}", n % 5);
                    let stored = server.write(artist(&name)).await.unwrap();
                    acknowledged.push((stored.version.parse::<u64>().unwrap(), name, stored.clone()));
                    if n.is_multiple_of(3) {
                        server.delete(stored.id.as_ref().unwrap(), "").await.unwrap();
                    }
                    n += 1;
                    written.fetch_add(1, Ordering::SeqCst);
                }
                acknowledged
            })
        })
        .collect();
    let reached = async |count: u64| {
        eventually("writers write", async || written.load(Ordering::SeqCst) >= count).await;
    };
    reached(300).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup.tar.gz");
    let (code, out, err) = backup(&server, &file, &[]).await;
    assert_eq!(code, Some(0), "{err}");
    // The writers continued meanwhile, and continue now.
    let after = written.load(Ordering::SeqCst);
    reached(after + 300).await;
    stop.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let commit: u64 = out.split("the state of commit ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(acknowledged.iter().any(|(version, ..)| *version > commit), "nothing was written after the backup");

    let place = Place::new();
    let (code, out, err) = place.restore(&file, &[]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains(&format!("the state of commit {commit}, ")) && out.contains("version-stamp.wasm"), "{out}");
    let restored = place.serve().await;

    // Resources that no writer changes are the same, byte for byte.
    let fixed = |all: Vec<pb::Resource>| -> Vec<_> {
        all.into_iter().filter(|r| r.id.as_ref().unwrap().name.starts_with("fixed")).collect()
    };
    let (before, now) = (list(&server, "demo.v2.Artist").await, list(&restored, "demo.v2.Artist").await);
    assert_eq!(fixed(before).len(), 200);
    assert_eq!(fixed(now.clone()), fixed(list(&server, "demo.v2.Artist").await));
    assert_eq!(restored.list_by_owner(owner.id.as_ref().unwrap()).await.unwrap().len(), 1);
    assert_eq!(restored.read(stamped.id.as_ref().unwrap()).await.unwrap(), stamped);

    // The restored writes: none after the commit; for each resource, the last write up to it, unless it was deleted
    // since, in which case that deletion is not after the next write of its writer up to the commit.
    let mine: BTreeMap<_, _> = now
        .iter()
        .filter(|r| r.id.as_ref().unwrap().name.starts_with("w-"))
        .map(|r| (r.id.as_ref().unwrap().name.clone(), r.clone()))
        .collect();
    assert!(!mine.is_empty());
    let mut newest: BTreeMap<String, (u64, pb::Resource)> = BTreeMap::new();
    for (version, name, stored) in acknowledged.into_iter().filter(|(version, ..)| *version <= commit) {
        if newest.get(&name).is_none_or(|(before, _)| *before < version) {
            newest.insert(name, (version, stored));
        }
    }
    for (name, resource) in &mine {
        assert!(resource.version.parse::<u64>().unwrap() <= commit);
        assert_eq!(*resource, newest[name].1, "{name}");
    }

    // The plugin serves in its newer version and can roll back, and versions continue.
    let written = restored.write(thing("version_stamp", "other", &Thing::default())).await.unwrap();
    assert_eq!(written.metadata["mutated-by"], "2.0.0");
    assert!(written.version.parse::<u64>().unwrap() > commit);
    let mut plugins = restored.plugins().await;
    plugins.rollback(data::RollbackRequest { name: "version-stamp".into() }).await.unwrap();
    let written = restored.write(thing("version_stamp", "third", &Thing::default())).await.unwrap();
    assert_eq!(written.metadata["mutated-by"], "1.0.0");
}

#[tokio::test]
async fn incomplete_backups_are_refused_and_change_nothing() {
    let server = Setup::new().start().await;
    for n in 0..50 {
        server.write(artist(&format!("a-{n}"))).await.unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup.tar.gz");
    assert_eq!(backup(&server, &file, &[]).await.0, Some(0));
    let whole = fs::read(&file).unwrap();
    let place = Place::new();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    let len = whole.len();
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("header", flipped(3), "it was altered"),
        ("middle", flipped(len / 2), "it was altered"),
        ("digest", flipped(len - 40), "it was altered"),
        ("trailer", flipped(len - 2), "its seal is missing"),
        ("cut", whole[..len / 2].to_vec(), "its seal is missing"),
        ("one byte less", whole[..len - 1].to_vec(), "its seal is missing"),
        ("one byte more", [&whole[..], b"\n"].concat(), "its seal is missing"),
        ("empty", Vec::new(), "not a backup of mortise: it is empty"),
        ("text", b"hello".to_vec(), "not a backup of mortise: it does not start like one"),
    ];
    for (what, bytes, says) in cases {
        let bad = dir.path().join("bad");
        fs::write(&bad, bytes).unwrap();
        for force in [&[][..], &["--force"]] {
            let (code, _, err) = place.restore(&bad, force).await;
            assert!(matches!(code, Some(1 | 2)) && err.contains(says), "{what}: {code:?} {err}");
            assert!(place.files().is_empty(), "{what}");
        }
    }
    // A pipe gives the same result.
    let (code, err) = place.restore_from_pipe(&whole[..len - 1], &[]).await;
    assert!(code == Some(1) && err.contains("standard input") && err.contains("its seal is missing"), "{err}");
    assert!(place.files().is_empty());
    let (code, _, err) = place.restore(Path::new("/nonexistent/file"), &[]).await;
    assert!(code == Some(2) && err.contains("cannot read /nonexistent/file"), "{err}");

    // The intact backup: a dry run, then a restore; then every restore needs --force.
    let (code, out, _) = place.restore(&file, &["--dry-run"]).await;
    assert!(code == Some(0) && out.contains("demo.Artist: 50") && out.contains("nothing was restored"), "{out}");
    assert!(place.files().is_empty());
    assert_eq!(place.restore(&file, &[]).await.0, Some(0));
    let before = place.files();
    let (code, _, err) = place.restore(&file, &[]).await;
    assert!(code == Some(2) && err.contains("it holds a store already") && err.contains("--force"), "{err}");
    assert_eq!(place.files(), before);
    assert_eq!(place.restore(&file, &["--force"]).await.0, Some(0));
    assert_eq!(place.restore_from_pipe(&whole, &["--force"]).await, (Some(0), String::new()));
    // A server on the restored data.
    let restored = place.serve().await;
    assert_eq!(list(&restored, "demo.v2.Artist").await, list(&server, "demo.v2.Artist").await);
    let (code, _, err) = place.restore(&file, &["--force"]).await;
    assert!(code == Some(1) && err.contains("is in use by another process"), "{err}");
}

#[tokio::test]
async fn the_command_does_not_overwrite_and_leaves_nothing_half_done() {
    let server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup.tar.gz");
    fs::write(&file, "mine").unwrap();
    let (code, _, err) = backup(&server, &file, &[]).await;
    assert!(code == Some(2) && err.contains("exists already") && err.contains("--force"), "{err}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(backup(&server, &file, &["--force"]).await.0, Some(0));
    assert!(fs::read(&file).unwrap().starts_with(&[0x1f, 0x8b]));
    let (code, _, err) = backup(&server, &dir.path().join("no/such/dir/b"), &[]).await;
    assert!(code == Some(2) && err.contains("no/such/dir"), "{err}");
    // An address without a server.
    let other = dir.path().join("other");
    let (code, _, err) = mortise(&["backup", other.to_str().unwrap(), "--grpc-addr", "127.0.0.1:1"], &[]).await;
    assert!(code == Some(3), "{err}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");

    // Standard tools can read it.
    let tar = |args: &[&str]| std::process::Command::new("tar").args(args).current_dir(dir.path()).output().unwrap();
    let listed = tar(&["tzf", "backup.tar.gz"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.starts_with("manifest.json\n") && listed.ends_with("SHA256SUMS\n"), "{listed}");
    assert!(tar(&["xzf", "backup.tar.gz"]).status.success());
    let mut sums = std::process::Command::new("sha256sum");
    assert!(sums.args(["--quiet", "-c", "SHA256SUMS"]).current_dir(dir.path()).status().unwrap().success());
}

#[tokio::test]
async fn the_configuration_is_restored_into_a_folder_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().serve().config("[plugins]\nbundled = [\"demo\"]\n").start().await;
    let (with, without) = (dir.path().join("with"), dir.path().join("without"));
    assert_eq!(backup(&server, &with, &[]).await.0, Some(0));
    assert_eq!(backup(&server, &without, &["--without-config"]).await.0, Some(0));
    let place = Place::new();
    let (_, out, _) = place.restore(&with, &[]).await;
    assert!(out.contains("its configuration is in") && out.contains("not in use there"), "{out}");
    assert_eq!(fs::read(place.data().join("restored/config.toml")).unwrap(), fs::read(&server.config).unwrap());
    let (_, out, _) = Place::new().restore(&without, &[]).await;
    assert!(!out.contains("its configuration"), "{out}");
}

/// A restore that was interrupted after its decision is completed by the next server.
#[tokio::test]
async fn a_server_completes_a_decided_restore() {
    let server = Setup::new().start().await;
    server.write(artist("korn")).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup.tar.gz");
    assert_eq!(backup(&server, &file, &[]).await.0, Some(0));
    let place = Place::new();
    assert_eq!(place.restore(&file, &[]).await.0, Some(0));
    // The state after the decision, and before the first move.
    let (data, ready) = (place.data(), place.data().join("restore.ready"));
    fs::create_dir_all(ready.join("store")).unwrap();
    fs::rename(data.join("store/store"), ready.join("store/store")).unwrap();
    fs::rename(data.join("plugins"), ready.join("plugins")).unwrap();
    let restored = place.serve().await;
    assert!(restored.log().contains("a restore that was interrupted is complete now"), "{}", restored.log());
    assert_eq!(list(&restored, "demo.v2.Artist").await, list(&server, "demo.v2.Artist").await);
    assert!(!ready.exists());
}

#[tokio::test]
async fn a_closed_store_is_checked() {
    let place = Place::new();
    let data = place.data();
    let check = async || mortise(&["check", "--data-dir", data.to_str().unwrap()], &[]).await;
    let (code, _, err) = check().await;
    assert!(code == Some(2) && err.contains("holds no store"), "{err}");
    assert!(!data.exists());
    let server = place.serve().await;
    server.write(artist("korn")).await.unwrap();
    let (code, _, err) = check().await;
    assert!(code == Some(1) && err.contains("is in use by another process"), "{err}");
    assert!(server.stop().await.success());
    let (code, out, err) = check().await;
    assert!(code == Some(0) && out.contains("no problems found"), "{out}{err}");
    // Every copy of the data is changed by a byte, since one of them is the current one.
    let db = data.join("store/store/db");
    let mut bytes = fs::read(&db).unwrap();
    let places: Vec<_> = (0..bytes.len() - 4).filter(|&at| &bytes[at..at + 4] == b"korn").collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] ^= 1;
    }
    fs::write(&db, &bytes).unwrap();
    let (code, _, err) = check().await;
    assert!(code == Some(1) && err.contains("damaged") && err.contains("store/store/db"), "{err}");
    assert_eq!(fs::read(&db).unwrap(), bytes, "it is as it was");
}

/// An unread backup does not slow writers down.
#[tokio::test]
async fn a_reader_that_stops_reading_delays_no_writer() {
    let server = Server::start().await;
    for n in 0..300 {
        server.write(artist(&format!("a-{n}"))).await.unwrap();
    }
    let mut client = mortise_api::ServerServiceClient::new(server.channel().await);
    let mut stream = client.backup(data::BackupRequest::default()).await.unwrap().into_inner();
    let begins = stream.message().await.unwrap().unwrap().begins.unwrap();
    assert!(begins.resources >= 300 && begins.records == begins.resources + begins.events);
    let writes = async {
        for n in 0..300 {
            server.write(artist(&format!("a-{n}"))).await.unwrap();
        }
    };
    timeout(PATIENCE, writes).await.expect("the writes wait for no reader");
    drop(stream);
    let mut status = mortise_api::ServerServiceClient::new(server.channel().await);
    eventually("the backup is given up", async || {
        let answer = status.status(data::ServerStatusRequest {}).await.unwrap().into_inner();
        answer.store.unwrap().backups == 0
    })
    .await;
}
