//! Tests with many threads: the assertions of the conformance suite, under races.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::*;

/// Writers move amounts between resources; every list, from any thread, at any moment, has the same total, and no
/// reader ever sees a number of commits decrease.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lists_and_snapshots_are_exact_beside_writers() {
    const ACCOUNTS: u64 = 300;
    let store = Arc::new(TestStore::new(|options| Options { watch_buffer: 1 << 16, ..options }));
    let owner = write(&**store, &resource_in(type_of("v1", "Owner"), tenancy("", ""), "owner")).await;
    let account = |n: u64| owned(numbered(resource(&format!("r-{n:03}")), 10), &owner);
    let mutations = (0..ACCOUNTS).map(|n| Mutation::Put(Box::new(account(n)))).collect();
    let created = commit(&**store, Batch::new(mutations)).await.unwrap();
    let ids: Arc<Vec<_>> = Arc::new(created.iter().flatten().map(id).collect());
    let (moved, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));

    let writers: Vec<_> = (0..4)
        .map(|seed| {
            let (store, ids, moved) = (store.clone(), ids.clone(), moved.clone());
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..400 {
                    let (from, to) = (random.usize(..ids.len()), random.usize(..ids.len()));
                    if from == to {
                        continue;
                    }
                    let less = read(&**store, &ids[from]).await.unwrap();
                    let more = read(&**store, &ids[to]).await.unwrap();
                    if number(&less) == 0 {
                        continue;
                    }
                    let size = if random.u8(..) < 40 { random.usize(..20_000) } else { 10 };
                    let (n, m) = (number(&less) - 1, number(&more) + 1);
                    let mutations = vec![
                        Mutation::Put(Box::new(sized(numbered(less, n), size))),
                        Mutation::Put(Box::new(numbered(more, m))),
                    ];
                    match store.commit(Batch::new(mutations)).await {
                        Ok(_) => drop(moved.fetch_add(1, Ordering::Relaxed)),
                        Err(StoreError::CasFailure { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();

    // A rewrite is not another state: the checks below must not notice it.
    let rewriter = {
        let (store, ids, done) = (store.clone(), ids.clone(), done.clone());
        tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(99);
            let mut rewritten = 0;
            while !done.load(Ordering::Relaxed) {
                let stored = read(&**store, &ids[random.usize(..ids.len())]).await.unwrap();
                let size = if random.u8(..) < 80 { random.usize(..20_000) } else { 10 };
                let other = Mutation::Rewrite(Box::new(sized(stored, size)));
                rewritten += store.commit(Batch::single(other)).await.unwrap().iter().flatten().count();
            }
            rewritten
        })
    };

    let total = |resources: &[pb::Resource]| resources.iter().map(number).sum::<u64>();
    let newest =
        |resources: &[pb::Resource]| resources.iter().map(|r| r.version.parse::<u64>().unwrap()).max().unwrap();
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let (store, done, owner) = (store.clone(), done.clone(), id(&owner));
            tokio::spawn(async move {
                let (mut last, mut rounds) = (0, 0);
                while !done.load(Ordering::Relaxed) || rounds < 3 {
                    let resources = match (rounds + reader) % 3 {
                        0 => list(&**store, &everything()).await,
                        1 => store.list_by_owner(&owner).await.unwrap(),
                        _ => watch(&**store, &everything()).await.0,
                    };
                    assert_eq!(resources.len() as u64, ACCOUNTS);
                    assert_eq!(total(&resources), 10 * ACCOUNTS);
                    assert!(newest(&resources) >= last);
                    last = newest(&resources);
                    rounds += 1;
                }
            })
        })
        .collect();

    // A watch's content has the same total at its start and after every batch of two events.
    let (snapshot, mut events) = watch(&**store, &everything()).await;
    let mut state: BTreeMap<_, _> = snapshot.into_iter().map(|r| (name(&r), number(&r))).collect();
    let follower = tokio::spawn(async move {
        loop {
            for _ in 0..2 {
                match next(&mut events).await {
                    Event::Upsert(r) if name(&r) == "the-end" => return state,
                    Event::Upsert(r) => drop(state.insert(name(&r), number(&r))),
                    event => panic!("{event:?}"),
                }
            }
            assert_eq!(state.values().sum::<u64>(), 10 * ACCOUNTS);
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    let last: BTreeMap<_, _> =
        list(&**store, &everything()).await.into_iter().map(|r| (name(&r), number(&r))).collect();
    write(&**store, &resource("the-end")).await;
    assert_eq!(follower.await.unwrap(), last);
    assert!(moved.load(Ordering::Relaxed) > 200);
    assert!(rewriter.await.unwrap() > 20);
    assert_eq!(store.problems().await, [""; 0]);
}

/// Point reads of created and deleted resources never go back: a resource that a reader saw deleted stays deleted until
/// it is created again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn point_reads_never_go_back_beside_writers() {
    let store = Arc::new(TestStore::new(|options| options));
    let newest = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, done, newest) = (store.clone(), done.clone(), newest.clone());
            tokio::spawn(async move {
                let mut wanted = id(&resource("a"));
                wanted.uid.clear();
                while !done.load(Ordering::Relaxed) {
                    // A state seen by any thread is a lower bound for every later read.
                    let before = newest.load(Ordering::SeqCst);
                    if let Some(found) = read(&**store, &wanted).await {
                        let seen = number(&found);
                        assert!(seen >= before, "{seen} after {before}");
                        newest.fetch_max(seen, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for n in 0..800 {
        let created = write(&**store, &numbered(resource("a"), 2 * n)).await;
        let updated = write(&**store, &sized(numbered(created, 2 * n + 1), (n as usize % 4) * 3_000)).await;
        delete(&**store, &updated).await;
        newest.fetch_max(2 * n + 2, Ordering::SeqCst);
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
}
