//! Changes that are given up at each of their steps.

use std::{future::poll_fn, path::Path, sync::Arc, task::Poll, time::Duration};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use mortise_audit::{AuditLog, Events, OnFull, Options as AuditOptions};
use mortise_resource::{
    Error,
    authorizer::AllowAll,
    data::{SetBlockDeletionRequest, UpdateRequest},
    pb, types,
};
use mortise_store::{Backend, Consistency, Options as StoreOptions, SledBackend};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    call::{Caller, Failure, Origin, Remote, Retry, Surface},
    core::{Options, ids},
    registry::Registry,
    service::ResourceService,
};

/// Steps after which a change is dropped; each waits at most for the record, the commit and the cache of tokens.
const MAX_STEPS: usize = 6;

fn service(dir: &Path) -> ResourceService {
    let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(StoreOptions::new(dir.join("s"))).unwrap());
    let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
    let audit = AuditOptions {
        dir: dir.join("audit"),
        events: Events::Changes,
        sinks: Vec::new(),
        file_bytes: 1 << 30,
        files: 1,
        queue: 100,
        when_full: OnFull::Wait,
        wait: Duration::from_secs(60),
        sync: Duration::from_secs(1),
    };
    ResourceService::new(
        backend,
        registry,
        Options { audit: Some(AuditLog::open(&audit).unwrap()), ..Options::default() },
    )
}

fn caller(number: &str) -> Caller {
    let origin = Origin::new(Surface::Grpc, Remote::Unknown, Some(number));
    Caller::new(Arc::new(AllowAll), Consistency::Eventual).from(Some(Arc::new(origin)))
}

fn partition(name: &str) -> pb::Resource {
    let id = pb::Id { name: name.into(), r#type: Some(types::partition().to_pb()), ..pb::Id::default() };
    pb::Resource { id: Some(id), ..pb::Resource::default() }
}

async fn record_of(dir: &Path, number: &str) -> Value {
    let file = dir.join("audit/audit.jsonl");
    loop {
        let text = std::fs::read_to_string(&file).unwrap();
        let whole = text.rsplit_once('\n').map(|(whole, _)| whole).unwrap_or_default();
        let records = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        if let Some(record) = records.into_iter().find(|record| record["request"] == number) {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Polls a change so many times, then drops it. Returns whether it was ready.
async fn cut<T>(mut change: BoxFuture<'_, T>, steps: usize) -> bool {
    for _ in 0..steps {
        let polled = poll_fn(|cx| Poll::Ready(change.as_mut().poll(cx))).await;
        if polled.is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_that_is_given_up_is_recorded_as_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path());
    let host = Caller::host(Consistency::Consistent);
    for method in ["Write", "Update", "WriteStatus", "Delete", "SetBlockDeletion"] {
        let mut found = 0;
        for steps in 1..=MAX_STEPS {
            let name = format!("{}-{steps}", method.to_lowercase());
            let written = service.write(&host, pb::WriteRequest { resource: Some(partition(&name)) }).await.unwrap();
            let before = written.resource.decode().unwrap();
            let (id, caller) = (before.id.clone(), caller(&name));
            let change: BoxFuture<Result<(), Error>> = match method {
                "Write" => {
                    let request = pb::WriteRequest { resource: Some(partition(&name)) };
                    Box::pin(async { service.write(&caller, request).await.map(drop) })
                }
                "Update" => {
                    let mut next = partition(&name);
                    next.metadata.insert("k".into(), "v".into());
                    let request = UpdateRequest { resource: Some(next), ..UpdateRequest::default() };
                    Box::pin(async { service.update(&caller, request).await.map(drop) })
                }
                "WriteStatus" => {
                    let status = pb::Status { observed_generation: ids::ulid(), ..pb::Status::default() };
                    let (key, version) = ("k".into(), String::new());
                    let request = pb::WriteStatusRequest { id: id.clone(), key, status: Some(status), version };
                    Box::pin(async { service.write_status(&caller, request).await.map(drop) })
                }
                "Delete" => {
                    let request = pb::DeleteRequest { id: id.clone(), version: String::new() };
                    Box::pin(async { service.delete(&caller, request).await.map(drop) })
                }
                _ => {
                    let request =
                        SetBlockDeletionRequest { id: id.clone(), block_deletion: true, ..Default::default() };
                    Box::pin(async { service.change_block_deletion(&caller, request).await.map(drop) })
                }
            };
            let is_ready = cut(change, steps).await;
            let record = record_of(dir.path(), &name).await;
            let after = service.core.backend.read(Consistency::Consistent, &id.unwrap()).await.unwrap();
            let code = if after.version == before.version { "Cancelled" } else { "OK" };
            assert_eq!(record["code"], code, "{method}, {steps} steps, ready: {is_ready}: {record}");
            found += usize::from(!is_ready && code == "OK");
        }
        assert!(found > 0, "{method}: one was given up in its commit");
    }
}

/// The record of each change that was made is in the log when the service has ended its changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_changes_that_were_given_up() {
    let mut found = 0;
    for steps in 1..=MAX_STEPS {
        let dir = tempfile::tempdir().unwrap();
        let service = service(dir.path());
        let caller = caller("cut");
        let request = pb::WriteRequest { resource: Some(partition("one")) };
        let is_ready = cut(Box::pin(service.write(&caller, request)), steps).await;
        service.changes_ended().await;
        service.core.audit().unwrap().close().await;
        let id = pb::Id { tenancy: Some(pb::Tenancy::default()), ..partition("one").id.unwrap() };
        let is_made = service.core.backend.read(Consistency::Consistent, &id).await.is_ok();
        let text = std::fs::read_to_string(dir.path().join("audit/audit.jsonl")).unwrap();
        let is_recorded = text.lines().any(|line| line.contains("\"cut\"") && line.contains("\"OK\""));
        assert_eq!(is_recorded, is_made, "{steps} steps, ready: {is_ready}: {text}");
        found += usize::from(!is_ready && is_made);
    }
    assert!(found > 0, "one was given up in its commit");
}

/// A change ends with its caller before its commit, and the record has the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_ends_before_its_commit_says_whether_its_time_was_up() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path());
    let busy = pb::Id { tenancy: Some(pb::Tenancy::default()), ..partition("busy").id.unwrap() };
    let holder = caller("turn");
    let mut turn = Retry::new(&service.writers, &holder, &busy, "");
    turn.after(Failure::Conflict(Error::internal("x"))).await.unwrap();
    for (number, deadline, code) in [
        ("none", None, "Cancelled"),
        ("soon", Some(Instant::now() + Duration::from_secs(3_600)), "Cancelled"),
        ("late", Some(Instant::now()), "DeadlineExceeded"),
    ] {
        let caller = caller(number);
        if let (Some(origin), Some(deadline)) = (&caller.origin, deadline) {
            origin.set_deadline(deadline);
        }
        let request = pb::WriteRequest { resource: Some(partition("busy")) };
        assert!(!cut(Box::pin(service.write(&caller, request)), 20).await, "it waits for its turn");
        let record = record_of(dir.path(), number).await;
        assert_eq!(record["code"], code, "{record}");
    }
    let stored = service.core.backend.read(Consistency::Consistent, &busy).await;
    assert!(stored.is_err(), "{stored:?}");
}
