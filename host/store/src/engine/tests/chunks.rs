//! Tests of large resources: all chunks are stored, and none are left over.

use super::*;

/// Makes a store with room for the largest resources.
fn roomy() -> TestStore {
    TestStore::new(|options| Options { max_resource_bytes: 1 << 20, history_bytes: 3 << 20, ..options })
}

#[tokio::test]
async fn growing_shrinking_and_deleting_leave_no_chunk_behind() {
    let mut store = roomy();
    let mut stored = write(&*store, &resource("a")).await;
    for size in [100_000, 1_000_000, 10, 5_000, 1_000_000, 100_000, 4_050, 3_990, 4_100, 0] {
        stored = write(&*store, &sized(stored, size)).await;
        assert_eq!(read(&*store, &id(&stored)).await.as_ref(), Some(&stored), "{size}");
        assert_eq!(store.problems().await, [""; 0], "{size}");
    }
    stored = write(&*store, &sized(stored, 1_000_000)).await;
    store.reopen();
    assert_eq!(read(&*store, &id(&stored)).await.as_ref(), Some(&stored));
    assert_eq!(list(&*store, &everything()).await, [stored.clone()]);
    delete(&*store, &stored).await;
    assert_eq!(store.problems().await, [""; 0]);
    // The rest are chunks of events; small events push the large ones out in the end.
    let mut small = write(&*store, &resource("small")).await;
    for n in 0..5 {
        small = write(&*store, &sized(numbered(small, n), 900_000)).await;
    }
    assert_eq!(store.problems().await, [""; 0]);
    assert_eq!(blobs(&store.path()), 0);
}

#[tokio::test]
async fn several_versions_in_one_batch_leave_the_last() {
    let store = roomy();
    let owner = write(&*store, &resource("owner")).await;
    let first = sized(owned(resource("a"), &owner), 100_000);
    let put = |resource: &pb::Resource| Mutation::Put(Box::new(resource.clone()));
    // Versions are dense: this store's next is 2.
    let second = sized(pb::Resource { version: "2".into(), ..first.clone() }, 50_000);
    let gone = Mutation::Delete { id: id(&first), version: "3".into() };
    let third = sized(resource("a"), 70_000);
    let mutations = vec![put(&first), put(&second), gone, put(&third)];
    let results = commit(&*store, Batch::new(mutations)).await.unwrap();
    assert_eq!(read(&*store, &id(&third)).await, results[3]);
    assert!(store.list_by_owner(&id(&owner)).await.unwrap().is_empty());
    assert_eq!(store.count(b'e'), 5);
    assert_eq!(store.problems().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_beside_a_writer_never_see_a_torn_resource() {
    let store = Arc::new(roomy());
    let first = write(&**store, &sized(resource("a"), 60_000)).await;
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, id) = (store.clone(), id(&first));
            tokio::spawn(async move {
                let mut reads = 0_u32;
                loop {
                    let found = read(&**store, &id).await.unwrap();
                    let listed = list(&**store, &everything()).await;
                    for resource in listed.iter().chain([&found]) {
                        let text = &resource.metadata["text"];
                        let fill = (b'a' + (number(resource) % 20) as u8) as char;
                        assert!(number(resource) == 0 || text.chars().all(|c| c == fill));
                    }
                    reads += 1;
                    if number(&found) == 150 {
                        return reads;
                    }
                }
            })
        })
        .collect();
    let mut stored = first;
    for n in 1..=150_u64 {
        let fill = ((b'a' + (n % 20) as u8) as char).to_string();
        stored.metadata.insert("text".into(), fill.repeat(30_000 + 500 * n as usize));
        stored = write(&**store, &numbered(stored, n)).await;
    }
    for reader in readers {
        assert!(reader.await.unwrap() > 1);
    }
    assert_eq!(store.problems().await, [""; 0]);
}
