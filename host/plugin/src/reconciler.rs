//! Calls of a plugin's controllers, in warm instances.
//!
//! # Contract
//! Each call has an instance to itself, and the limits of `[controllers]`. Faults count towards the plugin's health
//! under `reconcile`, `map` and `initialize`; errors that the guest answers do not. The caller ensures that a resource
//! is not reconciled twice at once. Dropping a future ends the call, and its instance.
//!
//! # Cost
//! A call in a warm instance takes a microsecond or two beyond its work, a fresh one some tens more.
//!
//! # Limits
//! Concurrent calls are bounded by the sum of `parallel` of the running controllers, and by the instances
//! (`controllers.instances`); further ones wait, for `controllers.deadline_ms` at most. A plugin whose controllers take
//! much processor time runs them at low priority (`Limits::low_priority_ms`); its hooks are not affected.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::{pb, redaction::Secrets};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::{
    sync::Semaphore,
    time::{timeout, timeout_at},
};

use crate::{
    bindings,
    call::{
        answer::{NewResourceReply, Usage},
        export::{ControllerGuest, HookExport, Import, Initialize, Map, Reconcile},
        instrumented_call::InstrumentedCall,
        warm_instance::{ControllerComponent, MAX_CONCURRENT_IMPORTS, WarmInstance},
    },
    error::{HookError, HookFault},
    health::{breaker::CallerId, logs::plain},
    hook::Hook,
    host::{
        call_context::{CallContext, Cancel},
        granted_dir::DirQuota,
        reconciler_host::ReconcilerHost,
    },
    load::controller_engine::ControllerEngine,
    manifest::controllers::Mapper,
    opaque::Shared,
    plugin::Plugin,
    probes::Probes,
};

/// Longest error or reason of a guest that is kept, characters.
const MAX_TEXT: usize = 2_000;

/// Handle for calls of one loaded plugin's controllers and of its `import`. Its warm instances are dropped with it.
pub struct Reconciler {
    plugin: Arc<Plugin>,
    engine: Shared<ControllerEngine>,
    component: Shared<ControllerComponent>,
    /// Key under which its instances are kept.
    key: u64,
    turns: Arc<Semaphore>,
    turn_count: usize,
    /// Checks that the host performs for the controllers; they end with this handle.
    probes: Arc<Probes>,
    used: Mutex<Usage>,
    /// Caller of the calls in the counts of quarantine.
    by: CallerId,
}

/// Outcome of a successful reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The resource is as it should be.
    Done,
    /// Reconcile again, behind those that are waiting.
    RequeueNow,
    /// Reconcile again after this time, or earlier if something changes.
    RequeueAfter(Duration),
    /// Reconcile again later, for a reason that operators are shown.
    Deferred {
        /// Delay.
        after: Duration,
        /// Reason.
        reason: String,
    },
}

/// Reason that a call of a controller is retried.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReconcileError {
    /// The plugin gave no usable answer: a trap, a limit, quarantine.
    #[error("{0}")]
    Fault(#[from] HookError),
    /// Error of the plugin, in its own words.
    #[error("{0}")]
    Guest(String),
}

impl Reconciler {
    /// Makes a reconciler for a plugin's controllers and its `import`; `None` if it has neither.
    #[must_use]
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        let (engine, component) = plugin.controllers.clone()?;
        let maps = |mapper: &Mapper| usize::from(*mapper == Mapper::Map);
        let wanted: usize = plugin
            .controllers()
            .map(|controller| {
                controller.parallel + controller.watches.iter().map(|watch| maps(&watch.mapper)).sum::<usize>()
            })
            .sum();
        let turn_count = wanted.clamp(1, engine.slot_count);
        Some(Self {
            plugin: plugin.clone(),
            key: engine.key(),
            turns: Arc::new(Semaphore::new(turn_count)),
            turn_count,
            probes: Arc::new(Probes::new(plugin.hooks.reporter.metrics.label())),
            used: Mutex::default(),
            by: CallerId::HOST,
            engine,
            component,
        })
    }

    /// Counts its calls for this caller instead of the host.
    #[must_use]
    pub fn for_caller(mut self, caller: CallerId) -> Self {
        self.by = caller;
        self
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Fuel and memory of the call that ended last.
    #[must_use]
    pub fn used(&self) -> Usage {
        *self.used.lock()
    }

    /// Calls `reconcile` for one resource.
    ///
    /// # Errors
    /// The plugin's fault, or the error that it answered.
    pub async fn reconcile(
        &self,
        controller: &str,
        id: &pb::Id,
        host: Arc<dyn ReconcilerHost>,
        cancel: &Cancel,
    ) -> Result<Outcome, ReconcileError> {
        let export = Reconcile { controller: controller.to_owned(), id: id.encode_to_vec() };
        let call_context = self.call_context(host, cancel);
        let secrets = call_context.secrets.clone();
        let answer = self.call(export, call_context).await?;
        let secrets = secrets.lock();
        answer.map(|answer| outcome(answer, &secrets)).map_err(|text| ReconcileError::Guest(short(&text, &secrets)))
    }

    /// Calls `map` for a changed resource. Answers ids of the managed type to reconcile.
    ///
    /// # Errors
    /// The plugin's fault, or the error that it answered.
    pub async fn map(
        &self,
        controller: &str,
        changed: &pb::Resource,
        host: Arc<dyn ReconcilerHost>,
        cancel: &Cancel,
    ) -> Result<Vec<pb::Id>, ReconcileError> {
        let export = Map { controller: controller.to_owned(), changed: changed.encode_to_vec() };
        let call_context = self.call_context(host.clone(), cancel);
        let secrets = call_context.secrets.clone();
        host.note_secrets(changed, &mut secrets.lock());
        let answer = self.call(export, call_context).await?;
        let ids = answer.map_err(|text| ReconcileError::Guest(short(&text, &secrets.lock())))?;
        let read = |id: Vec<u8>| pb::Id::decode(id.as_slice());
        ids.into_iter().map(read).collect::<Result<_, _>>().map_err(|e| {
            let what = format!("it answered a malformed hashicorp.consul.resource.ID: {e}");
            self.plugin.blame_answer(Hook::Map.name(), self.by, what).into()
        })
    }

    /// Calls `import` for an external object, into the tenancy `within`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn import(
        &self,
        owner: pb::Type,
        within: pb::Tenancy,
        external_id: String,
        host: Arc<dyn ReconcilerHost>,
        cancel: &Cancel,
    ) -> Result<NewResourceReply, HookError> {
        let turn = timeout(self.component.limits.deadline(), self.component.import_turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            let fault = HookFault::Busy { limit: MAX_CONCURRENT_IMPORTS, setting: "imports of one plugin at once" };
            return Err(self.plugin.hooks.reporter.fault(Hook::Import.name(), fault, None));
        };
        self.call(Import { kind: owner, within, external_id }, self.call_context(host, cancel)).await
    }

    /// Calls `initialize`, before a controller starts.
    ///
    /// # Errors
    /// The plugin's fault, or the error that it answered.
    pub async fn initialize(
        &self,
        controller: &str,
        host: Arc<dyn ReconcilerHost>,
        cancel: &Cancel,
    ) -> Result<(), ReconcileError> {
        let export = Initialize { controller: controller.to_owned() };
        let call_context = self.call_context(host, cancel);
        let secrets = call_context.secrets.clone();
        let answer = self.call(export, call_context).await?;
        answer.map_err(|text| ReconcileError::Guest(short(&text, &secrets.lock())))
    }

    /// Calls the guest once, in an instance of its own, on the threads that the plugin's priority selects.
    async fn call<E: HookExport<Guest = ControllerGuest>>(
        &self,
        export: E,
        call_context: CallContext,
    ) -> Result<E::Reply, HookError> {
        let hook = E::HOOK;
        let (plugin, engine) = (self.plugin.clone(), self.engine.clone());
        let reporter = &plugin.hooks.reporter;
        let threads = &plugin.sandbox.low_priority;
        let running = InstrumentedCall::begin(reporter, threads, hook, self.by, || export.fingerprint())?;
        let limits = &self.component.limits;
        // Waits for a place end earlier than the call, which then has its whole own time.
        let place_until = Instant::now() + limits.deadline();
        let until = place_until + limits.max_delay();
        let busy = |limit, setting| reporter.fault(hook.name(), HookFault::Busy { limit, setting }, None);
        let turn = match self.turns.try_acquire() {
            Ok(turn) => Some(turn),
            Err(_) => timeout_at(place_until.into(), self.turns.acquire()).await.ok().and_then(Result::ok),
        };
        let Some(_turn) = turn else {
            return running.end(Err(busy(self.turn_count, "`parallel` of its controllers in its manifest")), 0);
        };
        let kept = engine.take(self.key);
        let (owner, component) = (plugin.clone(), self.component.clone());
        let work = || async move {
            let _ticking = owner.sandbox.tick();
            let mut warm = match kept {
                Some(warm) => warm,
                None => {
                    let Some(slot) = engine.slot(place_until).await else {
                        let limit = engine.slot_count;
                        let fault = HookFault::Busy { limit, setting: "controllers.instances" };
                        return Err(owner.hooks.reporter.fault(hook.name(), fault, None));
                    };
                    {
                        let settings = owner.hooks.settings.clone();
                        Box::pin(WarmInstance::open(&owner.hooks.reporter, &component, settings, hook, slot, until))
                            .await?
                    }
                }
            };
            let answer = warm.call(export, call_context, until).await;
            Ok((warm, answer))
        };
        let (outcome, spent) = match running.work(work).await {
            Ok((warm, answer)) => {
                let used = warm.used();
                *self.used.lock() = used;
                self.keep_or_drop(hook, warm);
                (answer, used.fuel)
            }
            Err(fault) => (Err(fault), 0),
        };
        running.end(outcome, spent)
    }

    fn call_context(&self, host: Arc<dyn ReconcilerHost>, cancel: &Cancel) -> CallContext {
        CallContext {
            host,
            permit: self.component.permit.clone(),
            cancel: cancel.clone(),
            host_call: Duration::from_millis(self.engine.limits.host_call_ms),
            file_turns: self.engine.file_turns.clone(),
            connect_turns: self.engine.connect_turns.clone(),
            identities: self.plugin.sandbox.identities.clone(),
            metrics: self.plugin.hooks.reporter.metrics.clone(),
            probes: self.probes.clone(),
            quota: DirQuota { bytes: self.engine.limits.directory_bytes, files: self.engine.limits.directory_files },
            secrets: Arc::default(),
            host_work: Duration::ZERO,
        }
    }

    /// Keeps an instance for the next call, unless it must retire or others need its slot.
    fn keep_or_drop(&self, hook: Hook, warm: WarmInstance) {
        let gone = if warm.must_retire() { Some(warm) } else { self.engine.keep(self.key, warm) };
        // Releasing a guest's memory takes the system as long as the guest took to write it.
        if let (Some(warm), Some(threads)) = (gone, self.plugin.low_priority_threads(hook)) {
            threads.drop_in_background(warm);
        }
    }
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        drop(self.engine.remove_instances(self.key));
    }
}

fn outcome(wit: bindings::Outcome, secrets: &Secrets) -> Outcome {
    match wit {
        bindings::Outcome::Done => Outcome::Done,
        bindings::Outcome::RequeueNow => Outcome::RequeueNow,
        bindings::Outcome::RequeueAfter(ms) => Outcome::RequeueAfter(Duration::from_millis(ms)),
        bindings::Outcome::Deferred((ms, reason)) => {
            Outcome::Deferred { after: Duration::from_millis(ms), reason: short(&reason, secrets) }
        }
    }
}

/// Text of a guest for people: without secrets, cursor movements and line breaks, and cut.
fn short(text: &str, secrets: &Secrets) -> String {
    let text = plain(&secrets.hide(text));
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod guest;

#[cfg(test)]
mod tests;
