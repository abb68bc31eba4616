//! Resources, servers with a controller, and their leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use mortise_resource::{EncodedResource, pb, types::Gvk};
use shuttle::future::yield_now;
use tokio_itself::sync::{mpsc, watch};

use super::{
    NAMES,
    record::{Entry, Step},
};
use crate::{
    Context, Controllers, Definition, Event, Leases, Outcome, ReconcileError, Reconciler, Request, Source, SourceError,
    Watch,
    dice::{below, one_in},
    time::FOR_EVER,
};

/// Name of the controller.
const NAME: &str = "c";

/// Resources and the record. Its locks are plain: only locks of the controllers are steps.
#[derive(Default)]
pub(super) struct World {
    content: Mutex<Content>,
    record: Mutex<Vec<Entry>>,
    /// Newest version of each name, zero without a resource, that a server has reconciled.
    seen: watch::Sender<BTreeMap<(usize, &'static str), u64>>,
    /// Servers with a run that has its cache.
    running: watch::Sender<BTreeSet<usize>>,
}

#[derive(Default)]
struct Content {
    version: u64,
    stored: BTreeMap<&'static str, Arc<EncodedResource>>,
    watches: Vec<mpsc::UnboundedSender<Result<Event, String>>>,
}

/// A server.
pub(super) struct Server {
    pub(super) number: usize,
    world: Arc<World>,
    controllers: Controllers,
    lease: Arc<watch::Sender<bool>>,
    definition: AtomicUsize,
}

/// The lease of a server.
struct OneLease(Arc<watch::Sender<bool>>);

/// The code of a definition.
struct Code {
    server: usize,
    definition: usize,
    world: Arc<World>,
}

/// A reconcile that is under way.
struct Working<'a>(&'a Code, &'static str);

struct Events(mpsc::UnboundedReceiver<Result<Event, String>>);

fn managed() -> pb::Type {
    Gvk::new("g", "v1", "K").to_pb()
}

fn resource(name: &str, version: u64) -> Arc<EncodedResource> {
    let id = pb::Id { uid: "u".into(), name: name.into(), r#type: Some(managed()), tenancy: None };
    let resource = pb::Resource { id: Some(id), version: version.to_string(), ..pb::Resource::default() };
    Arc::new(EncodedResource::encode(&resource).unwrap())
}

impl World {
    /// Writes a resource.
    pub(super) fn put(&self, name: &'static str) {
        let mut content = self.content.lock().unwrap();
        content.version += 1;
        let resource = resource(name, content.version);
        content.stored.insert(name, resource.clone());
        content.tell(&Event::Upsert(resource));
    }

    /// Deletes a resource, if there is one.
    pub(super) fn delete(&self, name: &'static str) {
        let mut content = self.content.lock().unwrap();
        if let Some(gone) = content.stored.remove(name) {
            content.tell(&Event::Delete(gone));
        }
    }

    /// Ends every watch with an error.
    pub(super) fn break_watches(&self) {
        for watch in self.content.lock().unwrap().watches.drain(..) {
            watch.send(Err("the course says so".to_owned())).ok();
        }
    }

    /// Waits until a server has reconciled every resource in its present version.
    pub(super) async fn reconciled_by(&self, server: usize) {
        let versions: Vec<_> = NAMES.into_iter().map(|name| (name, self.version(name))).collect();
        let mut seen = self.seen.subscribe();
        let is_done = |seen: &BTreeMap<(usize, &str), u64>| {
            versions.iter().all(|(name, version)| *version == 0 || seen.get(&(server, name)) == Some(version))
        };
        seen.wait_for(is_done).await.unwrap();
    }

    /// Waits until the run of a server has ended, if there is one.
    pub(super) async fn without_run(&self, server: usize) {
        self.running.subscribe().wait_for(|running| !running.contains(&server)).await.unwrap();
    }

    /// Takes the record.
    pub(super) fn record(&self) -> Vec<Entry> {
        std::mem::take(&mut self.record.lock().unwrap())
    }

    fn note(&self, server: usize, step: Step) {
        self.record.lock().unwrap().push(Entry { server, step });
    }

    fn version(&self, name: &str) -> u64 {
        self.content.lock().unwrap().stored.get(name).map_or(0, |found| found.version().parse().unwrap())
    }
}

impl Content {
    fn tell(&mut self, event: &Event) {
        self.watches.retain(|watch| watch.send(Ok(event.clone())).is_ok());
    }
}

impl Server {
    /// Starts a server without the lease.
    pub(super) fn start(number: usize, world: &Arc<World>) -> Self {
        let lease = Arc::new(watch::channel(false).0);
        let controllers = Controllers::new(world.clone(), Arc::new(OneLease(lease.clone())));
        let server = Self { number, world: world.clone(), controllers, lease, definition: AtomicUsize::new(0) };
        server.controllers.register(server.definition(0)).unwrap();
        server
    }

    fn definition(&self, definition: usize) -> Definition {
        let code = Code { server: self.number, definition, world: self.world.clone() };
        // Without a deadline, every end of a run must wake what waits.
        let drain = if one_in(2) { FOR_EVER } else { Duration::from_secs(1) };
        Definition::new(NAME, managed(), Arc::new(code)).resync(None).parallel(1 + below(2)).drain(drain)
    }

    /// Gives the lease.
    pub(super) fn grant(&self) {
        self.world.note(self.number, Step::Granted);
        self.lease.send_replace(true);
    }

    /// Takes the lease away.
    pub(super) fn revoke(&self) {
        self.lease.send_replace(false);
        self.world.note(self.number, Step::Revoked);
    }

    /// Pauses the controller, which gives the lease back.
    pub(super) async fn give_back(&self) {
        self.controllers.pause(NAME, "the course says so").await.unwrap();
        assert_eq!(self.lease.receiver_count(), 0, "a paused controller has no lease");
        self.world.note(self.number, Step::Returned);
        self.lease.send_replace(false);
    }

    /// Ends the pause.
    pub(super) fn resume(&self) {
        self.controllers.resume(NAME).unwrap();
    }

    /// Replaces the definition.
    pub(super) async fn replace(&self) {
        let definition = self.definition.fetch_add(1, Ordering::Relaxed) + 1;
        self.controllers.replace(self.definition(definition)).await.unwrap();
        self.world.note(self.number, Step::Replaced(definition));
    }

    /// Ends the controllers.
    pub(super) async fn end(&self) {
        self.controllers.shutdown().await;
        assert_eq!(self.lease.receiver_count(), 0, "an ended controller has no lease");
        self.world.note(self.number, Step::Ended);
    }
}

impl Leases for OneLease {
    fn lease(&self, _: &str) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

impl Code {
    fn note(&self, step: Step) {
        self.world.note(self.server, step);
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.note(Step::Reconciled(self.0.definition, self.1));
    }
}

#[async_trait]
impl Reconciler for Code {
    async fn reconcile(&self, _: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let name = NAMES.into_iter().find(|name| *name == request.key.name()).unwrap_or_default();
        self.note(Step::Reconciles(self.definition, name));
        let _working = Working(self, name);
        let version = self.world.version(name);
        for _ in 0..below(4) {
            yield_now().await;
        }
        if one_in(6) {
            return Err(ReconcileError::from("the course says so"));
        }
        self.world.seen.send_modify(|seen| {
            seen.insert((self.server, name), version);
        });
        Ok(Outcome::Done)
    }

    async fn initialize(&self, _: &Context) -> Result<(), ReconcileError> {
        self.note(Step::Initializes(self.definition));
        yield_now().await;
        Ok(())
    }

    async fn notify_start(&self, _: &Context) {
        self.note(Step::Starts(self.definition));
        self.world.running.send_modify(|running| {
            running.insert(self.server);
        });
    }

    async fn notify_stop(&self, _: &Context) {
        self.note(Step::Stops(self.definition));
        self.world.running.send_modify(|running| {
            running.remove(&self.server);
        });
    }
}

#[async_trait]
impl Source for World {
    async fn watch(&self, _: &pb::Type) -> Result<Box<dyn Watch>, SourceError> {
        yield_now().await;
        let (sender, events) = mpsc::unbounded_channel();
        let mut content = self.content.lock().unwrap();
        for resource in content.stored.values() {
            sender.send(Ok(Event::Upsert(resource.clone()))).ok();
        }
        sender.send(Ok(Event::EndOfSnapshot)).ok();
        content.watches.push(sender);
        Ok(Box::new(Events(events)))
    }
}

#[async_trait]
impl Watch for Events {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.0.recv().await {
            Some(event) => event.map_err(SourceError::new),
            None => std::future::pending().await,
        }
    }
}
