//! A controller in a test: a closure is its reconciler, and its calls are recorded with the time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::kit::{Store, artist};
use crate::{Context, Controllers, Definition, Leases, Outcome, ReconcileError, Reconciler, Request, State, Status};

type Answer = BoxFuture<'static, Result<Outcome, ReconcileError>>;
type Script = Box<dyn Fn(Context, Request, usize) -> Answer + Send + Sync>;
type Init = Box<dyn Fn() -> Result<(), ReconcileError> + Send + Sync>;

/// Records its calls, and answers by its script.
pub(super) struct Probe {
    script: Mutex<Arc<Script>>,
    pub(super) init: Mutex<Option<Init>>,
    began: Instant,
    log: Mutex<Vec<(Duration, String)>>,
    running: Mutex<Vec<String>>,
    most: Mutex<usize>,
    /// The context of the newest reconcile.
    pub(super) context: Mutex<Option<Context>>,
}

impl Probe {
    /// The script gets the request and the number of reconciles before.
    pub(super) fn new<F>(script: impl Fn(Context, Request, usize) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        Arc::new(Self {
            script: Mutex::new(Arc::new(Box::new(move |c, r, n| Box::pin(script(c, r, n))))),
            init: Mutex::default(),
            began: Instant::now(),
            log: Mutex::default(),
            running: Mutex::default(),
            most: Mutex::default(),
            context: Mutex::default(),
        })
    }

    /// Makes a probe that succeeds on everything.
    pub(super) fn done() -> Arc<Self> {
        Self::new(|_, _, _| async { Ok(Outcome::Done) })
    }

    /// Events since the last call, in order: names of reconciled resources, and notifications in brackets.
    pub(super) fn names(&self) -> Vec<String> {
        self.log.lock().drain(..).map(|(_, what)| what).collect()
    }

    /// The same events, with the milliseconds since the probe was made.
    pub(super) fn times(&self) -> Vec<(u64, String)> {
        self.log.lock().drain(..).map(|(time, what)| (u64::try_from(time.as_millis()).unwrap(), what)).collect()
    }

    /// Most reconciles that ran at once.
    pub(super) fn most_at_once(&self) -> usize {
        *self.most.lock()
    }

    pub(super) fn note(&self, what: &str) {
        self.log.lock().push((self.began.elapsed(), what.to_owned()));
    }
}

/// Removes a name from the list of running reconciles, even when the reconcile is dropped.
struct Entered<'a>(&'a Probe, String);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.running.lock().retain(|name| *name != self.1);
    }
}

#[async_trait]
impl Reconciler for Probe {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let name = request.key.name().to_owned();
        let before = {
            let mut running = self.running.lock();
            assert!(!running.contains(&name), "{name} is reconciled twice at once");
            running.push(name.clone());
            let mut most = self.most.lock();
            *most = (*most).max(running.len());
            let mut log = self.log.lock();
            log.push((self.began.elapsed(), name.clone()));
            log.len() - 1
        };
        let _entered = Entered(self, name);
        *self.context.lock() = Some(context.clone());
        let script = self.script.lock().clone();
        script(context.clone(), request, before).await
    }

    async fn initialize(&self, context: &Context) -> Result<(), ReconcileError> {
        assert!(context.cache().get(&super::kit::id(&artist(), "a")).is_err(), "there is no cache yet");
        self.note("[initialize]");
        self.init.lock().as_ref().map_or(Ok(()), |init| init())
    }

    async fn notify_start(&self, context: &Context) {
        assert_eq!(context.cache().count(&artist()), Ok(0));
        self.note("[start]");
    }

    async fn notify_stop(&self, context: &Context) {
        assert!(context.is_cancelled());
        self.note("[stop]");
    }
}

/// Leases that a test grants and revokes.
pub(super) struct TestLeases(pub(super) watch::Sender<bool>);

impl Leases for TestLeases {
    fn lease(&self, _controller: &str) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

/// A controller named `c` that manages artists, with its store.
pub(super) struct Harness {
    pub(super) store: Store,
    pub(super) probe: Arc<Probe>,
    pub(super) all: Controllers,
    pub(super) lease: Arc<TestLeases>,
}

pub(super) fn definition(probe: &Arc<Probe>) -> Definition {
    Definition::new("c", artist(), probe.clone())
}

impl Harness {
    /// A harness with a controller that is not registered yet.
    pub(super) fn new(probe: Arc<Probe>) -> Self {
        Self::over(Store::default(), probe)
    }

    /// The same over a store that the probe writes.
    pub(super) fn over(store: Store, probe: Arc<Probe>) -> Self {
        let lease = Arc::new(TestLeases(watch::channel(true).0));
        let all = Controllers::new(Arc::new(store.clone()), lease.clone());
        Self { store, probe, all, lease }
    }

    /// A harness with a registered and running controller; `change` adapts its definition.
    pub(super) async fn start(probe: Arc<Probe>, change: impl FnOnce(Definition) -> Definition) -> Self {
        let harness = Self::new(probe);
        harness.register(change);
        harness.settle().await;
        harness
    }

    pub(super) fn register(&self, change: impl FnOnce(Definition) -> Definition) {
        self.all.register(change(definition(&self.probe))).unwrap();
    }

    /// Lets all work without waits finish: the clock moves on only when all tasks wait.
    pub(super) async fn settle(&self) {
        self.pass(1).await;
    }

    /// Lets this many milliseconds pass.
    pub(super) async fn pass(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    pub(super) fn status(&self) -> Status {
        self.all.status("c").unwrap()
    }

    pub(super) fn state(&self) -> State {
        self.status().state
    }
}
