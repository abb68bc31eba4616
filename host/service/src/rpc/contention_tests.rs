//! Many requests without a version about one resource at once: none fails for the others' sake.

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::future::join_all;
use mortise_resource::{
    Code,
    data::{SetBlockDeletionRequest, UpdateRequest},
    pb, types, ulid,
};
use mortise_store::{Backend, Consistency, Options as StoreOptions, SledBackend};

use crate::{call::Caller, core::Options, core::ids, registry::Registry, service::ResourceService};

/// Number that retries after a random wait cannot bring through: each commit lets one of them win.
const WRITERS: usize = 400;

struct Here {
    _dir: tempfile::TempDir,
    service: ResourceService,
    caller: Caller,
}

impl Here {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(StoreOptions::new(dir.path().join("s"))).unwrap());
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let service = ResourceService::new(backend, registry, Options::default());
        Self { _dir: dir, service, caller: Caller::host(Consistency::Eventual) }
    }

    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, mortise_resource::Error> {
        let request = pb::WriteRequest { resource: Some(resource) };
        self.service.write(&self.caller, request).await?.resource.decode().map_err(Into::into)
    }
}

fn partition(name: &str) -> pb::Resource {
    let id = pb::Id { name: name.into(), r#type: Some(types::partition().to_pb()), ..pb::Id::default() };
    pb::Resource { id: Some(id), ..pb::Resource::default() }
}

#[tokio::test]
async fn blanket_writes_of_one_resource_all_succeed() {
    let here = Here::new();
    let writes = (0..WRITERS).map(|n| {
        let mut resource = partition("busy");
        resource.metadata.insert("writer".into(), n.to_string());
        here.write(resource)
    });
    let mut versions: Vec<_> = join_all(writes).await.into_iter().map(|written| written.unwrap().version).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), WRITERS, "each made a version of its own");
    assert!(!here.service.writers.has_queues(), "no queue outlives its requests");
}

/// The uid of a creation is the server's, so its caller does not hear of it.
#[tokio::test]
async fn a_write_with_a_version_that_loses_to_a_creation_loses_by_its_version() {
    let here = Here::new();
    for round in 0..20 {
        let name = format!("p-{round}");
        let conditional = pb::Resource { version: "7".into(), ..partition(&name) };
        let (created, late) = tokio::join!(here.write(partition(&name)), here.write(conditional));
        created.unwrap();
        let late = late.unwrap_err();
        assert_eq!(late.code, Code::Aborted, "{}", late.message);
        assert!(late.message.contains("the given version doesn't match"), "{}", late.message);
    }
}

/// Kinds of requests without a version meet in one queue, and a request with one still loses.
#[tokio::test]
async fn statuses_updates_and_deletions_queue_with_writes() {
    let here = Here::new();
    let stored = here.write(partition("busy")).await.unwrap();
    let id = stored.id.clone().unwrap();
    let status = |n: usize| {
        let status = pb::Status { observed_generation: ids::ulid(), ..pb::Status::default() };
        pb::WriteStatusRequest {
            id: Some(id.clone()),
            key: format!("writer-{n}"),
            status: Some(status),
            version: String::new(),
        }
    };
    let outcomes = join_all((0..WRITERS).map(|n| {
        let (here, request, id) = (&here, status(n), &id);
        async move {
            match n % 5 {
                0 => here.write(partition("busy")).await.map(drop),
                1 => {
                    let mut resource = partition("busy");
                    resource.metadata.insert(format!("writer-{n}"), "x".into());
                    let request = UpdateRequest { resource: Some(resource), ..UpdateRequest::default() };
                    here.service.update(&here.caller, request).await.map(drop)
                }
                2 => here.service.write_status(&here.caller, request).await.map(drop),
                3 => {
                    let request = SetBlockDeletionRequest { id: Some(id.clone()), ..Default::default() };
                    here.service.change_block_deletion(&here.caller, request).await.map(drop)
                }
                _ => {
                    // It holds the wrong incarnation, so that it deletes nothing, but reads and compares.
                    let other = pb::Id { uid: ids::ulid(), ..id.clone() };
                    let request = pb::DeleteRequest { id: Some(other), version: String::new() };
                    here.service.delete(&here.caller, request).await.map(drop)
                }
            }
        }
    }))
    .await;
    let failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} failed, such as {:?}", failed.len(), failed.first());
    let busy = here.write(partition("busy")).await.unwrap();
    assert_eq!(busy.status.len(), WRITERS / 5, "no status is lost");
    assert!(ulid::is_valid(&busy.generation));

    let conditional = pb::Resource { version: stored.version.clone(), ..partition("busy") };
    let late = here.write(conditional).await.unwrap_err();
    assert_eq!(late.code, Code::Aborted);
    assert!(late.message.contains("the given version doesn't match"), "{}", late.message);
}

#[tokio::test]
async fn a_write_that_is_given_up_in_the_queue_leaves_it() {
    let here = Here::new();
    let id = full("busy");
    let mut turn = crate::call::Retry::new(&here.service.writers, &here.caller, &id, "");
    turn.after(crate::call::Failure::Conflict(mortise_resource::Error::internal("x"))).await.unwrap();
    let mut waiting = Box::pin(here.write(partition("busy")));
    for _ in 0..100 {
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    drop(waiting);
    drop(turn);
    assert!(!here.service.writers.has_queues());
    here.write(partition("busy")).await.unwrap();
}

/// The id of a partition, filled in as the server does.
fn full(name: &str) -> pb::Id {
    pb::Id { tenancy: Some(pb::Tenancy::default()), ..partition(name).id.unwrap() }
}
