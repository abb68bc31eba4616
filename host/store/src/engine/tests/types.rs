//! A type is there as long as there is a resource of it.

use super::*;

#[tokio::test]
async fn a_type_goes_with_its_last_resource_in_whatever_order_they_go() {
    let mut random = fastrand::Rng::with_seed(3);
    let store = Fresh::new(|options| Options { cache_bytes: 256 << 10, ..options });
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
            // One behind, or one before, what is left.
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
