//! Kills a working process, again and again, and checks what it left.
//!
//! The test starts itself as a child that opens the store and runs 16 writers on it. Before each commit the child
//! prints on a pipe what it will do, after each what was acknowledged. The parent kills it at any moment (also while it
//! opens the store), and then knows the possible states of every resource: the acknowledged one, or that of a begun
//! commit. Both the next child and, every few rounds, the parent compare the store with these.
//!
//! This covers crashes of the process. For a loss of power see docs/storage-format.md.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "tests panic to report; the parent is no async code and waits for processes"
)]

mod ledger;
mod writer;

use std::{
    collections::{BTreeMap, HashMap},
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use ledger::Ledger;
use mortise_resource::pb;
use mortise_store::{Backend, Consistency, Options, Query, SledBackend, TypeKey};
use writer::{NAMES, Writer, name, number, print_line};

const CHILD: &str = "MORTISE_STORE_CRASH_CHILD";
const WRITERS: usize = 16;
const KILLS: u64 = 110;

fn options(path: &Path) -> Options {
    // A small history and a small cache, so that trimming, checkpoints and reads from the file take place.
    Options { history_events: 500, history_bytes: 2 << 20, cache_bytes: 256 << 10, ..Options::new(path) }
}

fn everything() -> Query {
    Query {
        type_key: TypeKey { group: "crash".into(), kind: "Thing".into() },
        tenancy: pb::Tenancy { partition: "*".into(), namespace: "*".into() },
        name_prefix: String::new(),
    }
}

/// The parent starts this as the child; not a test by itself.
#[test]
fn child() {
    let Ok(path) = env::var(CHILD) else { return };
    let store = Arc::new(SledBackend::open(options(Path::new(&path))).unwrap());
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let listed = store.list(Consistency::Consistent, &everything()).await.unwrap();
        let mut stored: HashMap<_, _> = listed.into_iter().map(|r| (name(&r).to_owned(), r)).collect();
        let first = stored.values().map(number).max().unwrap_or(0) + 1_000_000;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let names = (0..NAMES).map(|n| format!("w{writer:02}-{n}"));
            let known: Vec<_> = names.map(|name| (name.clone(), stored.remove(&name))).collect();
            for (name, resource) in &known {
                print_line(&format!("found {name} {}", resource.as_ref().map_or(0, number)));
            }
            let owner = known[0].1.as_ref().and_then(|r| r.id.clone());
            // Numbers grow for each resource by itself only.
            writers.push(Writer { store: store.clone(), known, owner, number: first });
        }
        assert!(stored.is_empty(), "nobody wrote {stored:?}");
        let tasks: Vec<_> = writers.into_iter().map(|writer| tokio::spawn(writer.run())).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn examine(store: &SledBackend, ledger: &mut Ledger) {
    let problems = store.check().await.unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
    let listed = store.list(Consistency::Consistent, &everything()).await.unwrap();
    let mut found: BTreeMap<_, _> = listed.iter().map(|r| (name(r).to_owned(), number(r))).collect();
    for name in ledger.known.keys().cloned().collect::<Vec<_>>() {
        let state = found.remove(&name);
        ledger.compare(&name, state);
    }
    assert!(found.is_empty(), "nobody wrote {found:?}");
    // Both directions of the owner index, by its public methods.
    let mut children: BTreeMap<String, Vec<&pb::Resource>> = BTreeMap::new();
    for resource in &listed {
        if let Some(owner) = &resource.owner {
            children.entry(owner.uid.clone()).or_default().push(resource);
        }
    }
    for expected in children.values() {
        let owner = expected[0].owner.clone().unwrap();
        let by_owner = store.list_by_owner(&owner).await.unwrap();
        assert_eq!(by_owner.iter().collect::<Vec<_>>(), *expected);
    }
    let newest = listed.iter().map(|r| r.version.parse::<u64>().unwrap()).max().unwrap_or(0);
    ledger.bar = ledger.bar.max(newest);
}

#[test]
fn acknowledged_writes_survive_kills() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut ledger = Ledger::default();
    let (mut opened, mut checkpoints) = (0, 0);
    for round in 0..KILLS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = child.stdout.take().unwrap();
        let listener = thread::spawn(move || {
            let mut lines = Vec::new();
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            // The kill tore a line without an end; its step was not begun.
            while pipe.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
                lines.push(line.trim_end().to_owned());
                line.clear();
            }
            lines
        });
        // Kills some while they open the store, most while they work.
        let patience = if round % 5 == 0 { fastrand::u64(..60) } else { fastrand::u64(40..500) };
        thread::sleep(Duration::from_millis(patience));
        assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        // Both files of the write-ahead log are in use after the second checkpoint of a process.
        let used = |name: &str| std::fs::metadata(path.join("store").join(name)).is_ok_and(|file| file.len() > 0);
        checkpoints += u64::from(used("wal.0") && used("wal.1"));
        let lines = listener.join().unwrap();
        opened += u64::from(lines.iter().any(|line| line.starts_with("done")));
        for line in lines {
            ledger.apply_line(&line);
        }
        ledger.round_over();
        // Not every time: a store without a clean close for several rounds is a case of its own.
        if round % 3 == 2 || round == KILLS - 1 {
            let store = SledBackend::open(options(&path)).unwrap();
            runtime.block_on(examine(&store, &mut ledger));
        }
    }
    println!(
        "{} commits acknowledged, in {opened} of {KILLS} lives, {checkpoints} with checkpoints",
        ledger.acknowledged
    );
    assert!(opened > KILLS / 2, "{opened}");
    assert!(checkpoints > KILLS / 10, "{checkpoints}");
    assert!(ledger.acknowledged > 10_000, "{}", ledger.acknowledged);
    assert_eq!(std::fs::read_dir(path.join("store/blobs")).unwrap().count(), 0);
}

#[test]
fn a_creation_that_is_killed_leaves_a_store_or_none() {
    for round in 0..25 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Kills from before its first step to after its last.
        thread::sleep(Duration::from_micros(1_000 * round + fastrand::u64(..1_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = SledBackend::open(options(&path)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(store.check()).unwrap(), []);
        assert!(!path.join("store.new").exists());
    }
}
