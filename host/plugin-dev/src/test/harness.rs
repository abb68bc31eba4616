//! Single reconciles of one resource, for benches and for the rules of the contract.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use mortise_plugin_host::{
    Cancel, ControllerDecl, Failure, HookError, Outcome as ActualOutcome, Plugin, ReconcileError, Reconciler, Usage,
};
use mortise_resource::{Code, pb};

use super::{
    codec::short,
    error::CaseError,
    exchange::{Answer, Exchange, HostCall, Journal, Responder},
    memory::{Memory, Values},
    outside::Outside,
    stored::StoredResources,
};

/// A controller and a store with one resource, for measured reconciles.
pub(crate) struct ReconcileHarness {
    reconciler: Reconciler,
    memory: Arc<Memory>,
    controller: ControllerDecl,
    id: pb::Id,
}

impl ReconcileHarness {
    /// Stores the resource.
    ///
    /// # Errors
    /// The store's refusal.
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        controller: &ControllerDecl,
        resource: &pb::Resource,
    ) -> Result<Self, CaseError> {
        let stored = StoredResources::of(plugin.manifest());
        stored.put(resource.clone())?;
        let memory = Memory::new(plugin, controller, &stored, Values::new(), Outside::default());
        let id = resource.id.clone().unwrap_or_default();
        let id = stored.find(&pb::Id { uid: String::new(), ..id.clone() }).and_then(|found| found.id).unwrap_or(id);
        let reconciler = Reconciler::new(plugin).ok_or("the plugin has no controllers")?;
        Ok(Self { reconciler, memory: Arc::new(memory), controller: controller.clone(), id })
    }

    /// Reconciles once. An error returned by the plugin is an end like any other.
    ///
    /// # Errors
    /// The plugin's fault.
    pub(crate) async fn reconcile(&self) -> Result<Usage, HookError> {
        let host = Journal::new(self.memory.clone());
        match self.reconciler.reconcile(&self.controller.name, &self.id, host, &Cancel::new()).await {
            Err(ReconcileError::Fault(fault)) => Err(fault),
            Ok(_) | Err(ReconcileError::Guest(_)) => Ok(self.reconciler.used()),
        }
    }

    /// Reconciles once. A failure is the answer to the host call of that number.
    pub(crate) async fn reconcile_recorded(
        &self,
        failure: Option<(usize, Code)>,
    ) -> (HostCalls, Result<ActualOutcome, ReconcileError>) {
        self.run(&self.id, failure).await
    }

    /// Reconciles a resource that is not stored.
    pub(crate) async fn reconcile_missing(&self) -> (HostCalls, Result<ActualOutcome, ReconcileError>) {
        let id = pb::Id { name: format!("no-{}", self.id.name), uid: ABSENT_UID.to_owned(), ..self.id.clone() };
        self.run(&id, None).await
    }

    async fn run(
        &self,
        id: &pb::Id,
        failure: Option<(usize, Code)>,
    ) -> (HostCalls, Result<ActualOutcome, ReconcileError>) {
        let responder = Failing { memory: self.memory.clone(), failure, asked: AtomicUsize::new(0) };
        let journal = Journal::new(Arc::new(responder));
        let outcome = self.reconciler.reconcile(&self.controller.name, id, journal.clone(), &Cancel::new()).await;
        let exchanges = journal.exchanges();
        let changes = exchanges.iter().filter_map(|Exchange { ask, .. }| match ask {
            HostCall::Write(resource) => Some(format!("write {}", short(&resource.id.clone().unwrap_or_default()))),
            HostCall::Update(_) => Some("update".to_owned()),
            HostCall::WriteStatus { id, key, .. } => Some(format!("status {key} of {}", short(id))),
            HostCall::Delete { id, .. } => Some(format!("delete {}", short(id))),
            _ => None,
        });
        (HostCalls { all: exchanges.len(), changes: changes.collect() }, outcome)
    }
}

/// Uid of a resource that is not stored.
const ABSENT_UID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAW";

/// Host calls of one reconcile.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    /// Number of all.
    pub(crate) all: usize,
    /// Those that change resources, as text.
    pub(crate) changes: Vec<String>,
}

/// A host in memory that refuses one call.
struct Failing {
    memory: Arc<Memory>,
    failure: Option<(usize, Code)>,
    asked: AtomicUsize,
}

#[async_trait]
impl Responder for Failing {
    async fn answer(&self, ask: &HostCall) -> Result<Answer, Failure> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        match self.failure {
            Some((at, code)) if at == number => Err(Failure::new(code, "refused on purpose, to see what follows")),
            _ => self.memory.answer(ask).await,
        }
    }

    fn now(&self) -> u64 {
        self.memory.now()
    }
}
