//! Tests of events held for watches without a reader, over all types.

use super::*;
use crate::ChangeStep;

#[tokio::test]
async fn watches_of_all_types_have_one_bound_and_the_fuller_type_loses_its_events() {
    const BOUND: usize = 40_000;
    let store = TestStore::new(|options| Options { watch_buffer: 4096, watch_bytes: BOUND, ..options });
    let other = Query { type_key: TypeKey { group: "test".into(), kind: "B".into() }, ..everything() };
    let (_, mut full) = watch(&*store, &everything()).await;
    let (_, mut few) = watch(&*store, &other).await;
    let mut kept = Vec::new();
    for n in 0..60 {
        if n % 20 == 0 {
            let resource = resource_in(type_of("v1", "B"), tenancy("default", "default"), &format!("b-{n}"));
            kept.push(write(&*store, &resource).await);
        }
        write(&*store, &sized(resource(&format!("a-{n}")), 2_000)).await;
        let waiting = store.shared.publisher.waiting_bytes();
        assert!(waiting <= BOUND, "{waiting} bytes after {n}");
    }
    let waiting = store.shared.publisher.waiting_bytes();
    assert!(waiting > BOUND / 2, "{waiting} bytes, and more may wait");
    for expected in kept {
        assert_eq!(next(&mut few).await, Event::Upsert(expected));
    }
    assert!(matches!(full.next().await, Err(StoreError::WatchLagged { .. })));
}

/// A watch of one place is not woken by changes elsewhere, and its buffer has room for none of them.
#[tokio::test]
async fn changes_in_other_places_do_not_reach_a_watch() {
    let store = TestStore::new(|options| Options { watch_buffer: 2, ..options });
    let here = |name: &str| resource_in(type_of("v1", "A"), tenancy("here", "spot"), name);
    let mut watches = Vec::new();
    for query in [query("here", "spot", ""), query("here", "*", ""), query("*", "spot", ""), query("*", "*", "na")] {
        let (_, plain) = watch(&*store, &query).await;
        let changes = store.open_changes(&query, &ScanPart::default(), &[]).await.unwrap().changes;
        watches.push((query, plain, changes));
    }
    for n in 0..10 {
        let name = format!("n-{n}");
        write(&*store, &resource(&name)).await;
        write(&*store, &resource_in(type_of("v1", "A"), tenancy("elsewhere", "there"), &name)).await;
    }
    let meant = write(&*store, &here("name")).await;
    for (query, plain, changes) in &mut watches {
        assert_eq!(next(plain).await, Event::Upsert(meant.clone()), "{query:?}");
        let step = changes.next().await.unwrap_or_else(|error| panic!("{query:?}: {error}"));
        assert!(matches!(step, ChangeStep::Change(change) if change.now.as_ref().map(decoded) == Some(meant.clone())));
    }
}

/// Slow scans buffer overwritten versions, all of them within one bound.
#[tokio::test]
async fn scans_share_a_bound_and_the_largest_is_aborted() {
    const BOUND: usize = 60_000;
    let store = TestStore::new(|options| Options { watch_bytes: BOUND, ..options });
    let name = |n: usize| format!("a-{n:03}");
    // More resources than the first page has.
    let mut stored = Vec::new();
    for n in 0..200 {
        stored.push(write(&*store, &sized(resource(&name(n)), 1_000)).await);
    }
    let (mut first, mut last) = (store.scan(&everything()).await.unwrap(), None);
    let begun = first.next().await.unwrap().unwrap().len();
    for n in (0..200).rev() {
        stored[n] = write(&*store, &sized(stored[n].clone(), 1_100)).await;
        if n == 160 {
            last = Some((store.scan(&everything()).await.unwrap(), n));
        }
        let remembered = store.shared.publisher.window_bytes();
        assert!(remembered <= BOUND, "{remembered} bytes at {n}");
    }
    let outrun = first.next().await.unwrap_err();
    assert!(matches!(outrun, StoreError::ScanAborted { bytes: BOUND }), "{outrun}");
    println!("{begun} resources in the first page");
    assert!(begun < 150, "{begun} of 200 were given before");
    let (mut last, n) = last.unwrap();
    let outrun = last.next().await.unwrap_err();
    assert!(matches!(outrun, StoreError::ScanAborted { .. }), "{outrun}: {n} were overwritten");
    assert_eq!(store.shared.publisher.window_bytes(), 0, "what is given up is held no more");

    // Scans within the bound are exact, and hold versions only until they are delivered.
    let (mut scan, mut seen) = (store.scan(&everything()).await.unwrap(), 0);
    for stored in &mut stored[170..] {
        *stored = write(&*store, &sized(stored.clone(), 500)).await;
    }
    assert!(store.shared.publisher.window_bytes() > 30 * 1_000);
    while let Some(page) = scan.next().await.unwrap() {
        for resource in page {
            let bytes = resource.bytes().len();
            assert!(bytes > 1_000, "{bytes}: as of the beginning");
            seen += 1;
        }
    }
    assert_eq!((seen, store.shared.publisher.window_bytes()), (200, 0));
    let mut unread = store.scan(&everything()).await.unwrap();
    write(&*store, &sized(stored[0].clone(), 500)).await;
    assert!(store.shared.publisher.window_bytes() > 1_000);
    drop(std::mem::replace(&mut unread, store.scan(&everything()).await.unwrap()));
    assert_eq!(store.shared.publisher.window_bytes(), 0);
}

/// A kept content counts among the scans: beyond the bound the largest ends, and its end frees the bytes.
#[tokio::test]
async fn a_kept_content_has_a_bound() {
    const BOUND: usize = 60_000;
    let store = TestStore::new(|options| Options { watch_bytes: BOUND, ..options });
    let kept = store.keep(&everything()).await.unwrap();
    let few = store.keep(&query("*", "*", "b")).await.unwrap();
    let mut stored = Vec::new();
    for n in 0..60 {
        stored.push(write(&*store, &sized(resource(&format!("a-{n:03}")), 2_000)).await);
    }
    write(&*store, &resource("b")).await;
    assert_eq!(kept.overwritten(0).unwrap().len(), 61, "of resources that did not exist");
    for (n, stored) in stored.into_iter().enumerate() {
        write(&*store, &sized(stored, 2_000)).await;
        let bytes = store.shared.publisher.window_bytes();
        assert!(bytes <= BOUND, "{bytes} bytes at {n}");
    }
    assert_eq!(kept.overwritten(0).unwrap().len(), 61, "each resource counts once, as it was");
    let later = store.keep(&everything()).await.unwrap();
    let mut last = 0;
    while later.overwritten(0).is_ok() {
        last += 1;
        let changed =
            store.list(Consistency::Consistent, &query("*", "*", &format!("a-{:03}", last % 60))).await.unwrap();
        write(&*store, &sized(changed[0].clone(), 2_000)).await;
        assert!(last < 100);
    }
    assert!(matches!(later.overwritten(0), Err(StoreError::ScanAborted { bytes: BOUND })));
    assert_eq!(few.overwritten(0).unwrap().len(), 1, "the small one goes on");
    drop((kept, later));
    let bytes = store.shared.publisher.window_bytes();
    assert!(bytes < 2_000, "{bytes} bytes are left");
}
