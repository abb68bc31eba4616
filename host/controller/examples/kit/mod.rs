//! Helpers of the examples: a reconciler that does nothing, a source in memory, and measurements of the process.
#![allow(dead_code, reason = "not every example uses everything")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mortise_controller::{
    Context, Event, Outcome, ReconcileError, Reconciler, Request, Source, SourceError, Watch, async_trait,
};
use mortise_resource::{EncodedResource, EncodingError, pb};
use tokio::sync::mpsc;

/// Counts reconciles, and answers each with success.
pub(crate) struct CountingReconciler(pub(crate) AtomicU64);

#[async_trait]
impl Reconciler for CountingReconciler {
    async fn reconcile(&self, _context: &Context, _request: Request) -> Result<Outcome, ReconcileError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Outcome::Done)
    }
}

impl CountingReconciler {
    pub(crate) async fn reach(&self, count: usize) {
        while self.0.load(Ordering::Relaxed) < count as u64 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

/// A source of a single watch, made before.
pub(crate) struct ChannelSource(pub(crate) parking_lot::Mutex<Option<mpsc::Receiver<Event>>>);

#[async_trait]
impl Source for ChannelSource {
    async fn watch(&self, _of: &pb::Type) -> Result<Box<dyn Watch>, SourceError> {
        let events = self.0.lock().take().ok_or_else(|| SourceError::new("opened twice"))?;
        Ok(Box::new(Events(events)))
    }
}

struct Events(mpsc::Receiver<Event>);

#[async_trait]
impl Watch for Events {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.0.recv().await {
            Some(event) => Ok(event),
            None => std::future::pending().await,
        }
    }
}

/// A source of watches that begin with a snapshot of these resources and never change.
pub(crate) struct SnapshotSource(pub(crate) Arc<[Arc<EncodedResource>]>);

struct Snapshot(Arc<[Arc<EncodedResource>]>, usize);

#[async_trait]
impl Source for SnapshotSource {
    async fn watch(&self, _of: &pb::Type) -> Result<Box<dyn Watch>, SourceError> {
        Ok(Box::new(Snapshot(self.0.clone(), 0)))
    }
}

#[async_trait]
impl Watch for Snapshot {
    async fn next(&mut self) -> Result<Event, SourceError> {
        self.1 += 1;
        match self.0.get(self.1 - 1) {
            Some(resource) => Ok(Event::Upsert(resource.clone())),
            None if self.1 == self.0.len() + 1 => Ok(Event::EndOfSnapshot),
            None => std::future::pending().await,
        }
    }
}

pub(crate) fn artists() -> pb::Type {
    pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }
}

pub(crate) fn artist(n: usize, version: usize) -> Result<Arc<EncodedResource>, EncodingError> {
    let id = pb::Id {
        uid: format!("{n:026}"),
        name: format!("artist-{n}"),
        r#type: Some(artists()),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
    };
    let resource = pb::Resource { id: Some(id), version: version.to_string(), ..pb::Resource::default() };
    EncodedResource::encode(&resource).map(Arc::new)
}

/// Resident memory, MiB. Linux only.
pub(crate) fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0 / 1024.0 / 1024.0
}

/// Processor time of the process, seconds. Linux only.
pub(crate) fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[allow(clippy::print_stdout, reason = "the point of an example")]
pub(crate) fn report(line: &str) {
    println!("{line}");
}
