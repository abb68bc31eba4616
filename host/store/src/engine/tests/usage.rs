//! Tests of the usage of tenancies: it equals the content after any commits, reopenings and kills, and losses are
//! noticed.

use std::{collections::BTreeMap, time::Duration};

use mortise_resource::{EncodedResource, meta};
use prost::Message as _;

use super::*;
use crate::{
    Quotas, Usage,
    follower::{Draft, DraftLimits, DraftedGrowth},
};

const KINDS: [&str; 3] = ["A", "B", "C"];
const PLACES: [(&str, &str); 5] = [("", ""), ("p", ""), ("p", "n"), ("p", "nn"), ("pn", "n")];

/// Limit above the number of tenancies in any test.
const ALL: usize = 1_000;

fn unlimited(options: Options) -> Options {
    Options { quotas: Quotas::default(), ..options }
}

/// Resources and bytes of each type in each tenancy: group, kind, partition, namespace.
type Counts = BTreeMap<[String; 4], (u64, u64)>;

/// Counts the usage from a list.
async fn recounted(store: &SledBackend) -> Counts {
    let mut counts = Counts::new();
    for type_key in store.types().await.unwrap() {
        let query = Query { type_key: type_key.clone(), ..everything() };
        for stored in list(store, &query).await {
            let pb::Tenancy { partition, namespace } = id(&stored).tenancy.unwrap();
            let TypeKey { group, kind } = type_key.clone();
            let (resources, bytes) = counts.entry([group, kind, partition, namespace]).or_default();
            *resources += 1;
            *bytes += stored.encoded_len() as u64;
        }
    }
    counts
}

fn of_types(usage: &Usage) -> Counts {
    let each = usage.most.iter().cloned().map(|entry| {
        let (TypeKey { group, kind }, pb::Tenancy { partition, namespace }) = (entry.type_key, entry.tenancy);
        ([group, kind, partition, namespace], (entry.resources, entry.bytes))
    });
    each.collect()
}

/// Asserts that every report of the usage equals the content. Returns the number of resources.
async fn assert_true(store: &SledBackend) -> u64 {
    let (usage, counted) = (store.usage(ALL).await.unwrap(), recounted(store).await);
    assert_eq!(of_types(&usage), counted);
    let sum = |part: fn(&(u64, u64)) -> u64| counted.values().map(part).sum::<u64>();
    assert_eq!((usage.resources, usage.bytes), (sum(|entry| entry.0), sum(|entry| entry.1)));
    let mut tenancies = BTreeMap::<_, (u64, u64)>::new();
    for ([_, _, partition, namespace], (resources, bytes)) in &counted {
        let entry = tenancies.entry((partition.clone(), namespace.clone())).or_default();
        *entry = (entry.0 + resources, entry.1 + bytes);
    }
    let reported = usage.largest.iter().map(|entry| {
        let pb::Tenancy { partition, namespace } = entry.tenancy.clone();
        ((partition, namespace), (entry.resources, entry.bytes))
    });
    assert_eq!(reported.collect::<BTreeMap<_, _>>(), tenancies);
    assert_eq!(usage.tenancies, tenancies.len() as u64);
    assert_eq!(store.check().await.unwrap(), []);
    usage.resources
}

/// Makes random puts, changes of length, rewrites and deletions of a few names in a few places; some of them fail.
fn random_mutations(random: &mut fastrand::Rng, known: &[pb::Resource]) -> Vec<Mutation> {
    let count = random.usize(..4);
    let mutation = |_| {
        let mut stored = match random.choice(known) {
            Some(stored) if random.u8(..) < 100 => stored.clone(),
            _ => {
                let (partition, namespace) = PLACES[random.usize(..PLACES.len())];
                let kind = type_of("v1", KINDS[random.usize(..KINDS.len())]);
                resource_in(kind, tenancy(partition, namespace), &format!("r-{}", random.u8(..6)))
            }
        };
        match random.u8(..16) {
            0..3 => Mutation::Delete { id: id(&stored), version: stored.version },
            3 | 4 => Mutation::Rewrite(Box::new(sized(stored, random.usize(..6_000)))),
            5 => {
                stored.version = "nonsense".into();
                Mutation::Put(Box::new(stored))
            }
            6 | 7 => Mutation::Put(Box::new(stored)),
            _ => Mutation::Put(Box::new(sized(stored, random.usize(..6_000)))),
        }
    };
    (0..=count).map(mutation).collect()
}

async fn everything_stored(store: &SledBackend) -> Vec<pb::Resource> {
    let mut all = Vec::new();
    for type_key in store.types().await.unwrap() {
        all.extend(list(store, &Query { type_key, ..everything() }).await);
    }
    all
}

/// Closes the store after each round, or kills it and opens the leftover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_equals_a_recount_after_random_commits_and_ends() {
    let (mut taken, mut failed, mut refused, mut most) = (0, 0, 0, 0);
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let quotas = Quotas { resources: 3, bytes: 12_000 };
        // A small cache, so that checkpoints run, too.
        let change = |options| Options { quotas, cache_bytes: 64 << 10, history_events: 50, ..options };
        let mut store = TestStore::new(change);
        for round in 0..8 {
            for _ in 0..25 {
                let known = everything_stored(&store).await;
                let batches = (0..random.usize(1..4)).map(|_| {
                    let batch = Batch::new(random_mutations(&mut random, &known));
                    if random.bool() { batch.limited() } else { batch }
                });
                let batches: Vec<_> = batches.collect();
                // Concurrent, so that some share a group.
                let writers = batches.into_iter().map(|batch| {
                    let shared = store.shared.clone();
                    tokio::spawn(async move {
                        let (reply, answer) = oneshot::channel();
                        shared.admit(&batch)?;
                        shared.queue.push(Job::Commit(batch, reply)).await?;
                        answer.await.unwrap()
                    })
                });
                for writer in writers.collect::<Vec<_>>() {
                    match writer.await.unwrap() {
                        Ok(_) => taken += 1,
                        Err(StoreError::QuotaExceeded(_)) => refused += 1,
                        Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => failed += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            most = most.max(assert_true(&store).await);
            if round % 2 == 0 {
                store.reopen();
            } else {
                let killed = tempfile::tempdir().unwrap();
                copy_store(&store.path(), killed.path());
                let opened = SledBackend::open(change(Options::new(killed.path()))).unwrap();
                assert_eq!(recounted(&opened).await, recounted(&store).await);
                assert_true(&opened).await;
                assert!(opened.health().borrow().is_ready());
            }
            assert_true(&store).await;
        }
    }
    println!("{taken} batches taken, {failed} failed, {refused} refused by a quota; {most} resources at most");
    assert!(taken > 400 && failed > 100 && refused > 20 && most > 30);
}

/// Makes a closed store with resources in some places.
async fn closed() -> TestStore {
    let mut store = TestStore::new(|options| Options { history_events: 1, scrub_per_second: 0, ..unlimited(options) });
    for (n, (partition, namespace)) in PLACES.into_iter().enumerate() {
        for kind in KINDS {
            let resource = resource_in(type_of("v1", kind), tenancy(partition, namespace), "a");
            write(&*store, &sized(resource, 10 * n)).await;
        }
    }
    store.shut();
    store
}

#[tokio::test]
async fn usage_that_is_gone_or_old_is_noticed() {
    let tampers: [fn(&sled::Db); 2] = [
        |db| drop(db.remove(b"up\0n\0test\0A\0").unwrap().unwrap()),
        |db| {
            let key = b"up\0n\0test\0A\0";
            db.insert(key, crate::engine::tree::record::encode_numbers(key, [2, 700])).unwrap();
        },
    ];
    for tamper in tampers {
        let mut store = closed().await;
        store.tamper(tamper);
        let error = store.open().unwrap_err().to_string();
        assert!(error.contains("the usage of tenancies does not add up to its own"), "{error}");
        let problems = SledBackend::check_offline(&store.path(), None).unwrap().problems;
        assert!(problems.iter().any(|problem| problem.fault.contains("does not add up to its own")), "{problems:?}");
    }
    let mut store = closed().await;
    store.tamper(|db| drop(db.insert(b"up\0n\0test\0A\0", b"x").unwrap()));
    let error = store.open().unwrap_err().to_string();
    assert!(error.contains("the usage of p/n/test/A: the checksum does not match"), "{error}");
}

/// The same version in another length is noticed, which the hashes of keys and versions do not show.
#[tokio::test]
async fn an_older_form_of_a_version_is_noticed_by_its_length() {
    let mut store = closed().await;
    store.open().unwrap();
    let stored = list(&*store, &query("p", "n", "")).await.remove(0);
    store.shut();
    store.tamper(|db| {
        let (mut batch, key) = (WriteBatch::default(), keys::resource(&id(&stored)).unwrap());
        let sequence = stored.version.parse().unwrap();
        let payload = sized(stored.clone(), 2_000).encode_to_vec();
        crate::engine::tree::record::write(
            &mut batch,
            &key,
            crate::engine::tree::record::Kind::Resource,
            sequence,
            &payload,
        );
        db.apply_batch(batch.into_sled()).unwrap();
    });
    store.options.scrub_per_second = 10_000;
    store.open().unwrap();
    let damage = store.health().borrow().damaged.clone().unwrap();
    assert!(damage.contains("usage of type test.A in partition p, namespace n: 1 resources of 2"), "{damage}");
}

/// A scrub stays right for writes before and behind its pass.
#[tokio::test]
async fn writes_amid_a_scrub_are_no_damage() {
    let mut random = fastrand::Rng::with_seed(5);
    let store = TestStore::new(|options| Options { scrub_per_second: 0, ..unlimited(options) });
    let mut stored = Vec::new();
    for n in 0..40 {
        stored.push(write(&*store, &sized(resource(&format!("r-{n:02}")), 10)).await);
    }
    for _ in 0..200 {
        store.shared.queue.push(Job::Scrub(7)).await.unwrap();
        let slot = random.usize(..stored.len());
        let changed = sized(stored[slot].clone(), random.usize(..500));
        match random.u8(..3) {
            0 => {
                delete(&*store, &stored[slot]).await;
                let again = resource(&name(&stored[slot]));
                stored[slot] = write(&*store, &owned(again, &stored[0])).await;
            }
            1 => drop(store.commit(Batch::single(Mutation::Rewrite(Box::new(changed)))).await.unwrap()),
            _ => stored[slot] = write(&*store, &changed).await,
        }
        assert!(store.health().borrow().is_ready(), "{:?}", store.health().borrow());
    }
}

/// A scrub finds a wrong length while the store is in use, and takes no write for damage.
#[tokio::test]
async fn the_scrub_compares_lengths() {
    let mut store = closed().await;
    store.options.scrub_per_second = 10_000;
    store.open().unwrap();
    let mut stored = write(&*store, &resource("a")).await;
    for n in 0..300_usize {
        stored = write(&*store, &sized(stored, n * 17 % 1_000)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(store.health().borrow().is_ready(), "{:?}", store.health().borrow());
    let (mut batch, key) = (WriteBatch::default(), keys::resource(&id(&stored)).unwrap());
    let payload = sized(stored.clone(), 2_000).encode_to_vec();
    let kind = crate::engine::tree::record::Kind::Resource;
    crate::engine::tree::record::write(&mut batch, &key, kind, stored.version.parse().unwrap(), &payload);
    store.shared.table.recent().active().apply(&batch);
    let mut health = store.health();
    let found = tokio::time::timeout(Duration::from_secs(30), health.wait_for(|health| health.damaged.is_some())).await;
    let damage = found.unwrap().unwrap().damaged.clone().unwrap();
    assert!(
        damage.contains("usage of type test.A in partition default, namespace default: 1 resources of 2"),
        "{damage}"
    );
}

/// The byte limit is exact; the versions of these commits have two digits.
#[tokio::test]
async fn the_byte_limit_is_exact() {
    let mut store = TestStore::new(|options| options);
    for n in 0..9 {
        write(&*store, &resource_in(type_of("v1", "B"), tenancy("p", ""), &n.to_string())).await;
    }
    let stored = write(&*store, &sized(resource("a"), 300)).await;
    let bytes = stored.encoded_len() as u64;
    store.options.quotas = Quotas { resources: 10, bytes: bytes + 100 };
    store.reopen();
    let error = store.put_limited(sized(stored.clone(), 401)).await.unwrap_err().to_string();
    let expected = format!(
        "the quota of partition default, namespace default is exceeded: it holds {bytes} bytes of resources, the write \
         adds 101, and the limit is {} (quotas.bytes)",
        bytes + 100
    );
    assert!(error.starts_with(&expected), "{error}");
    store.put_limited(sized(stored, 400)).await.unwrap();
}

/// A lowered limit refuses only growing batches; a deletion mark does not count as growth.
#[tokio::test]
async fn a_lowered_limit_refuses_only_growth() {
    let mut store = TestStore::new(unlimited);
    let mut stored = Vec::new();
    for n in 0..12 {
        stored.push(decoded(&store.put_limited(sized(resource(&format!("r-{n}")), 100)).await.unwrap()));
    }
    let room_for_four = 4 * stored[11].encoded_len() as u64;
    store.options.quotas = Quotas { resources: 5, bytes: room_for_four };
    store.reopen();
    let is_refused = |result: Result<EncodedResource, StoreError>| matches!(result, Err(StoreError::QuotaExceeded(_)));
    assert!(is_refused(store.put_limited(resource("more")).await));
    assert!(is_refused(store.put_limited(sized(stored[0].clone(), 101)).await));
    stored[0] = decoded(&store.put_limited(stored[0].clone()).await.unwrap());
    let mut marked = stored[0].clone();
    marked.metadata.insert(meta::DELETION_TIMESTAMP.into(), "2026-11-23T06:00:00Z".into());
    stored[0] = decoded(&store.put_limited(marked).await.unwrap());
    stored[1] = decoded(&store.put_limited(sized(stored[1].clone(), 10)).await.unwrap());
    for stored in stored.drain(..8) {
        store
            .commit(Batch::single(Mutation::Delete { id: id(&stored), version: stored.version }).limited())
            .await
            .unwrap();
    }
    assert!(is_refused(store.put_limited(resource("more")).await), "four are all that there is room for");
    for stored in stored.drain(..2) {
        delete(&*store, &stored).await;
    }
    store.put_limited(resource("more")).await.unwrap();
    assert_true(&store).await;
}

/// A draft counts the growth of those before it, which the store does not have yet, and no room that they make.
#[tokio::test]
async fn a_draft_counts_what_earlier_ones_add() {
    let store = TestStore::new(|options| Options { quotas: Quotas { resources: 2, bytes: 10_000 }, ..options });
    let gone = write(&*store, &resource("gone")).await;
    let limits = DraftLimits { base: 100, operations: 100, bytes: 1 << 20 };
    let put = |resource| Batch::single(Mutation::Put(Box::new(resource))).limited();
    let drafted = |batches: Vec<Batch>, unseen: DraftedGrowth| store.draft(batches, limits, unseen);
    let refused = |draft: &Draft| matches!(draft.results.as_slice(), [Err(StoreError::QuotaExceeded(_))]);

    let first = drafted(vec![put(resource("a"))], DraftedGrowth::default()).await.unwrap();
    assert!(first.results[0].is_ok());
    assert!(refused(&drafted(vec![put(resource("b"))], first.growth.clone()).await.unwrap()));
    let another = drafted(vec![put(resource("b"))], DraftedGrowth::default()).await.unwrap();
    assert_eq!(another.growth, first.growth, "each adds as much");
    let seen = drafted(vec![put(resource("b"))], first.growth.clone()).await.unwrap();
    assert_eq!(seen.growth, DraftedGrowth::default(), "a refused batch adds nothing");

    let removal = Batch::single(Mutation::Delete { id: id(&gone), version: gone.version.clone() });
    let removal = drafted(vec![removal], first.growth.clone()).await.unwrap();
    assert_eq!(removal.growth, DraftedGrowth::default(), "the copy may lack the resource already");
    let mut sum = first.growth.clone();
    sum.extend(&removal.growth);
    assert!(refused(&drafted(vec![put(resource("b"))], sum).await.unwrap()));

    let large = drafted(vec![put(sized(resource("a"), 6_000))], DraftedGrowth::default()).await.unwrap();
    let elsewhere = |bytes| put(sized(resource_in(type_of("v1", "B"), id(&gone).tenancy.unwrap(), "b"), bytes));
    assert!(refused(&drafted(vec![elsewhere(6_000)], large.growth.clone()).await.unwrap()));
    assert!(drafted(vec![elsewhere(3_000)], large.growth).await.unwrap().results[0].is_ok());
}

/// A restored store has the usage of its records, even over the quotas.
#[tokio::test]
async fn a_loaded_store_has_the_usage_of_its_records() {
    let store = TestStore::new(unlimited);
    for n in 0..40 {
        write(&*store, &sized(resource(&format!("r-{n}")), n * 300)).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut snapshot = store.snapshot().await.unwrap();
    let mut loader = Loader::create(dir.path(), snapshot.head().clone()).unwrap();
    while let Some(records) = snapshot.next().await.unwrap() {
        records.iter().for_each(|record| loader.add(record).unwrap());
    }
    loader.finish().unwrap();
    let quotas = Quotas { resources: 1, bytes: 1 };
    let loaded = SledBackend::open(Options { quotas, ..Options::new(dir.path()) }).unwrap();
    assert_eq!(of_types(&loaded.usage(ALL).await.unwrap()), of_types(&store.usage(ALL).await.unwrap()));
    assert_true(&loaded).await;
}
