//! Tests of the list of types: a type is listed as long as it has a resource.

use super::*;

#[tokio::test]
async fn a_type_goes_with_its_last_resource_in_any_order() {
    let mut random = fastrand::Rng::with_seed(3);
    let store = TestStore::new(|options| Options { cache_bytes: 256 << 10, ..options });
    write(&*store, &resource_in(type_of("v1", "Other"), tenancy("", ""), "other")).await;
    for round in 0..4 {
        let mut stored = Vec::new();
        for n in 0..40 {
            stored.push(write(&*store, &sized(resource(&format!("r-{n:02}")), 2_000)).await);
        }
        match round {
            0 => {}
            1 => stored.reverse(),
            _ => random.shuffle(&mut stored),
        }
        let mut again = Some(resource(if round % 2 == 0 { "zz" } else { "a" }));
        while let Some(next) = stored.pop() {
            assert_eq!(store.types().await.unwrap().len(), 2, "{} are there", stored.len() + 1);
            delete(&*store, &next).await;
            // One behind, or one before, the rest.
            if stored.len() == 20
                && let Some(again) = again.take()
            {
                let again = write(&*store, &again).await;
                stored.insert(random.usize(..stored.len()), again);
            }
        }
        assert_eq!(store.types().await.unwrap().len(), 1, "{round}");
    }
    assert_eq!(store.problems().await, [""; 0]);
}

/// Types with more resources than the store keeps in memory, deleted in all orders, with several changes in one commit.
#[tokio::test]
async fn a_type_that_empties_again_and_again_comes_and_goes() {
    let mut random = fastrand::Rng::with_seed(8);
    let store = TestStore::new(|options| options);
    let mut stored: Vec<pb::Resource> = Vec::new();
    for round in 0..600 {
        let target = [0, 0, 1, 2, 3, 300][random.usize(0..6)];
        let mut mutations = Vec::new();
        let mut left = stored.len();
        while left > target {
            let gone = stored.swap_remove(random.usize(..stored.len()));
            mutations.push(Mutation::Delete { id: id(&gone), version: gone.version });
            left -= 1;
        }
        mutations.extend((left..target).map(|n| Mutation::Put(Box::new(resource(&format!("r-{round}-{n}"))))));
        let made = commit(&*store, Batch::new(mutations)).await.unwrap();
        stored.extend(made.into_iter().flatten());
        assert_eq!(store.types().await.unwrap().len(), usize::from(!stored.is_empty()), "{round}");
    }
    let put = Mutation::Put(Box::new(resource("short-lived")));
    for resource in stored.drain(..) {
        delete(&*store, &resource).await;
    }
    let made = commit(&*store, Batch::single(put)).await.unwrap().remove(0).unwrap();
    assert_eq!(store.types().await.unwrap().len(), 1);
    delete(&*store, &made).await;
    assert_eq!(store.types().await.unwrap().len(), 0);
    assert_eq!(store.problems().await, [""; 0]);
}
