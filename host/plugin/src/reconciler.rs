//! Calls of a plugin's controllers, in warm instances.
//!
//! # Contract
//! Each call has an instance to itself, and the limits of `[controllers]`. Faults count towards the plugin's health under
//! `reconcile`, `map` and `initialize`; what the guest itself calls an error does not. Who calls sees to it that a resource is
//! not reconciled twice at once. Dropping a future ends the call, and its instance.
//!
//! # Cost
//! A call in a warm instance takes a microsecond or two beyond its work, a fresh one some tens more.
//!
//! # Limits
//! At most as many calls at once as the controllers that run ask for together, and as there are instances
//! (`controllers.instances`); further ones wait, within their deadline. A plugin whose controllers take much processor time
//! has them run at low priority (`sandbox.low_priority_ms`); that does not concern its hooks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::pb;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::{sync::Semaphore, time::timeout_at};
use wasmtime::Store;

use crate::{
    bindings,
    call::{
        instrumented_call::InstrumentedCall,
        warm_instance::{Guest, WarmInstance},
    },
    engine::controller_engine::ControllerComponent,
    error::{HookError, HookFault},
    health::logs::plain,
    hook::Hook,
    host::{
        call_context::{CallContext, Cancel},
        reconciler_host::ReconcilerHost,
        state::State,
    },
    manifest::controllers::Mapper,
    plugin::Plugin,
    request::Usage,
};

/// Longest text of a guest's error or reason that is kept, characters.
const MAX_TEXT: usize = 2_000;

/// Calls the controllers of one loaded plugin. Its warm instances go with it.
pub struct Reconciler {
    plugin: Arc<Plugin>,
    controllers: Arc<ControllerComponent>,
    /// What its instances are kept under.
    key: u64,
    turns: Arc<Semaphore>,
    turn_count: usize,
    used: Mutex<Usage>,
}

/// How a reconcile ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All is as it should be.
    Done,
    /// Once more, behind those that are waiting.
    RequeueNow,
    /// Once more after a while, or earlier if something changes.
    RequeueAfter(Duration),
    /// The same, for a reason that operators are shown.
    Deferred {
        /// The while.
        after: Duration,
        /// The reason.
        reason: String,
    },
}

/// Why a call of a controller is tried again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReconcileError {
    /// It gave no usable answer: a trap, a limit, quarantine.
    #[error("{0}")]
    Fault(#[from] HookError),
    /// In the plugin's own words.
    #[error("{0}")]
    Guest(String),
}

impl Reconciler {
    /// For a plugin's controllers; none when it has none.
    #[must_use]
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        let controllers = plugin.controllers.clone()?;
        let maps = |mapper: &Mapper| usize::from(*mapper == Mapper::Map);
        let wanted: usize = plugin
            .controllers()
            .map(|one| one.parallel + one.watches.iter().map(|watch| maps(&watch.mapper)).sum::<usize>())
            .sum();
        let turn_count = wanted.clamp(1, controllers.controller_engine.slot_count);
        Some(Self {
            plugin: plugin.clone(),
            key: controllers.controller_engine.key(),
            turns: Arc::new(Semaphore::new(turn_count)),
            turn_count,
            used: Mutex::default(),
            controllers,
        })
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// What the call that ended last used.
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
        let asked = Reconcile { controller: controller.to_owned(), id: id.encode_to_vec() };
        let answer = self.call(asked, host, cancel).await?;
        answer.map(outcome).map_err(|text| ReconcileError::Guest(short(&text)))
    }

    /// Calls `map` for a resource that changed: the ids of resources of the managed type that it concerns.
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
        let asked = Map { controller: controller.to_owned(), changed: changed.encode_to_vec() };
        let answer = self.call(asked, host, cancel).await?;
        let ids = answer.map_err(|text| ReconcileError::Guest(short(&text)))?;
        let read = |id: Vec<u8>| pb::Id::decode(id.as_slice());
        ids.into_iter().map(read).collect::<Result<_, _>>().map_err(|e| {
            let what = format!("it answered what is no hashicorp.consul.resource.ID: {e}");
            self.plugin.unusable(Hook::Map.name(), what).into()
        })
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
        let asked = Initialize { controller: controller.to_owned() };
        let answer = self.call(asked, host, cancel).await?;
        answer.map_err(|text| ReconcileError::Guest(short(&text)))
    }

    /// Calls the guest once, in an instance that nobody else uses, on the threads where the plugin's controllers belong now.
    async fn call<A: Export>(
        &self,
        asked: A,
        host: Arc<dyn ReconcilerHost>,
        cancel: &Cancel,
    ) -> Result<A::Answer, HookError> {
        let hook = A::HOOK;
        let (plugin, controller_engine) = (self.plugin.clone(), self.controllers.controller_engine.clone());
        let running = InstrumentedCall::begin(&self.plugin, hook)?;
        let until = Instant::now() + self.controllers.limits.deadline();
        let busy = |limit, setting| plugin.fault(hook.name(), HookFault::Busy { limit, setting }, None);
        let turn = match self.turns.try_acquire() {
            Ok(turn) => Some(turn),
            Err(_) => timeout_at(until.into(), self.turns.acquire()).await.ok().and_then(Result::ok),
        };
        let Some(_turn) = turn else {
            return running.end(Err(busy(self.turn_count, "`parallel` of its controllers in its manifest")), 0);
        };
        let call_context = self.call_context(host, cancel);
        let kept = controller_engine.take(self.key);
        let (of, controllers) = (plugin.clone(), self.controllers.clone());
        let work = || async move {
            let _ticking = of.sandbox.tick();
            let mut warm = match kept {
                Some(warm) => warm,
                None => {
                    let Some(slot) = controllers.controller_engine.slot(until).await else {
                        let limit = controllers.controller_engine.slot_count;
                        let fault = HookFault::Busy { limit, setting: "controllers.instances" };
                        return Err(of.fault(hook.name(), fault, None));
                    };
                    Box::pin(WarmInstance::open(&of, &controllers, hook, slot, until)).await?
                }
            };
            let answer = warm.call(&of, asked, call_context, until).await;
            Ok((warm, answer))
        };
        let (outcome, spent) = match running.work(work).await {
            Ok((warm, answer)) => {
                let used = warm.used();
                *self.used.lock() = used;
                self.put_back(hook, warm);
                (answer, used.fuel)
            }
            Err(fault) => (Err(fault), 0),
        };
        running.end(outcome, spent)
    }

    fn call_context(&self, host: Arc<dyn ReconcilerHost>, cancel: &Cancel) -> CallContext {
        let controller_engine = &self.controllers.controller_engine;
        CallContext {
            host,
            permit: self.controllers.permit.clone(),
            cancel: cancel.clone(),
            made: self.plugin.sandbox.made,
            host_call: Duration::from_millis(controller_engine.limits.host_call_ms),
            file_turns: controller_engine.file_turns.clone(),
            host_work: Duration::ZERO,
        }
    }

    /// Keeps an instance for the next call, unless it is worn or others need its slot.
    fn put_back(&self, hook: Hook, warm: WarmInstance) {
        let gone =
            if warm.must_retire() { Some(warm) } else { self.controllers.controller_engine.keep(self.key, warm) };
        // Clearing away what a guest wrote takes the system as long as the guest took to write it.
        if let (Some(warm), Some(threads)) = (gone, self.plugin.aside(hook)) {
            threads.clear_away(warm);
        }
    }
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        drop(self.controllers.controller_engine.give_up(self.key));
    }
}

/// A question to the guest.
pub(crate) trait Export: Send + 'static {
    /// The export that is called.
    const HOOK: Hook;
    /// What it answers.
    type Answer: Send + 'static;

    /// Calls it.
    fn ask(
        self,
        guest: &Guest,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Self::Answer>> + Send;
}

struct Reconcile {
    controller: String,
    id: Vec<u8>,
}

impl Export for Reconcile {
    const HOOK: Hook = Hook::Reconcile;
    type Answer = Result<bindings::Outcome, String>;

    async fn ask(self, guest: &Guest, store: &mut Store<State>) -> wasmtime::Result<Self::Answer> {
        let guest = guest.controlling.as_ref().ok_or_else(missing)?;
        guest.mortise_plugin_controlling().call_reconcile(store, &self.controller, &self.id).await
    }
}

struct Map {
    controller: String,
    changed: Vec<u8>,
}

impl Export for Map {
    const HOOK: Hook = Hook::Map;
    type Answer = Result<Vec<Vec<u8>>, String>;

    async fn ask(self, guest: &Guest, store: &mut Store<State>) -> wasmtime::Result<Self::Answer> {
        let guest = guest.mapping.as_ref().ok_or_else(missing)?;
        guest.mortise_plugin_mapping().call_map(store, &self.controller, &self.changed).await
    }
}

struct Initialize {
    controller: String,
}

impl Export for Initialize {
    const HOOK: Hook = Hook::Initialize;
    type Answer = Result<(), String>;

    async fn ask(self, guest: &Guest, store: &mut Store<State>) -> wasmtime::Result<Self::Answer> {
        let guest = guest.initializing.as_ref().ok_or_else(missing)?;
        guest.mortise_plugin_initializing().call_initialize(store, &self.controller).await
    }
}

fn missing() -> wasmtime::Error {
    wasmtime::Error::msg("the component does not export it")
}

fn outcome(wit: bindings::Outcome) -> Outcome {
    match wit {
        bindings::Outcome::Done => Outcome::Done,
        bindings::Outcome::RequeueNow => Outcome::RequeueNow,
        bindings::Outcome::RequeueAfter(ms) => Outcome::RequeueAfter(Duration::from_millis(ms)),
        bindings::Outcome::Deferred((ms, reason)) => {
            Outcome::Deferred { after: Duration::from_millis(ms), reason: short(&reason) }
        }
    }
}

/// A guest's text for people: without what moves a cursor or begins a line, and cut.
fn short(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod guest;

#[cfg(test)]
mod tests;
