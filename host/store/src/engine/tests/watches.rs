//! What watches hold that nobody reads, over all types.

use super::*;

#[tokio::test]
async fn watches_of_all_types_have_one_bound_and_the_fuller_type_loses_its_events() {
    const BOUND: usize = 40_000;
    let store = Fresh::new(|options| Options { watch_buffer: 4096, watch_bytes: BOUND, ..options });
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
