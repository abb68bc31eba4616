//! The charge of changes that a watch looks at in vain. Time is paused: only waits for the caller's share pass it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use mortise_resource::types;
use mortise_store::{Backend, Consistency, Options as StoreOptions, SledBackend};

use super::*;
use crate::{
    call::Caller,
    core::Options,
    lists::{WatchPermission, WatchScope},
    registry::Registry,
    service::ResourceService,
};

/// Changes of partitions, each of them alone: first those of another GroupVersion, then those of the watched one.
struct Changes {
    others: u32,
    /// Processor time that the look at a change takes.
    work: Duration,
    /// Whether the next event is ready.
    is_ready: bool,
}

impl Changes {
    fn new(others: u32, work: Duration) -> Self {
        Self { others, work, is_ready: true }
    }
}

fn partition(version: &str) -> EncodedResource {
    let kind = pb::Type { group_version: version.into(), ..types::partition().to_pb() };
    let id = pb::Id { name: "p".into(), r#type: Some(kind), tenancy: Some(pb::Tenancy::default()), uid: "u".into() };
    EncodedResource::encode(&pb::Resource { id: Some(id), ..pb::Resource::default() }).unwrap()
}

#[async_trait]
impl Watch for Changes {
    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// Has one event ready at every other poll, and looks at the change before it in between.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchEvent, StoreError>> {
        self.is_ready = !self.is_ready;
        if self.is_ready {
            let begun = processor_time();
            while processor_time().saturating_sub(begun) < self.work {}
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (others, version) = match self.others.checked_sub(1) {
            Some(others) => (others, "v2beta0"),
            None => (0, "v2beta1"),
        };
        self.others = others;
        Poll::Ready(Ok(WatchEvent::Upsert(partition(version))))
    }
}

/// Time that a watch waits until it has delivered so many changes.
async fn waited(changes: Changes, delivered: usize) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(StoreOptions::new(dir.path().join("s"))).unwrap());
    let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
    let lists = ResourceService::new(backend, registry, Options::default()).lists.clone();
    let caller = Caller::host(Consistency::Eventual);
    let permission = WatchPermission::now(&lists.core, &caller);
    let scope = WatchScope::Many(types::partition(), pb::Tenancy::default());
    let open = OpenWatch::new(&lists, &caller, "WatchList", scope, permission).unwrap();
    let query = Query {
        type_key: mortise_store::TypeKey::from(&types::partition().to_pb()),
        tenancy: pb::Tenancy::default(),
        name_prefix: String::new(),
    };
    let mut events = Events::new(&lists, query, None, open);
    events.state = WatchState::Live(Box::new(changes));
    let begun = tokio::time::Instant::now();
    for _ in 0..delivered {
        events.next().await.unwrap();
    }
    begun.elapsed()
}

/// A caller has a quarter of a processor, after the credit of 2 ms.
#[tokio::test(start_paused = true)]
async fn a_caller_pays_for_changes_that_its_watches_skip_and_for_no_others() {
    let wakes = waited(Changes::new(5_000, Duration::ZERO), 1).await;
    assert!(wakes >= 5_000 * WAKE_TIME * 4 - Duration::from_millis(10), "{wakes:?}");
    let work = Duration::from_millis(1);
    let looks = waited(Changes::new(50, work), 1).await;
    // The first one costs no more than its wake-up.
    assert!(looks >= 49 * work * 4 - Duration::from_millis(10), "{looks:?}");
    let delivered = waited(Changes::new(0, Duration::ZERO), 5_000).await;
    assert_eq!(delivered, Duration::ZERO, "delivered changes cost no share");
}
