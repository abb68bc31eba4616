//! An instance of a plugin, for the hooks of one request.
//!
//! # Contract
//! The hooks of one request share the instance, its fuel and its time; then it is dropped, so that no state of one
//! caller reaches the next. After a fault the instance is dead and is never entered again.
//!
//! An instance with a class may serve further requests of this class ([`crate::call::hook_slots`]), each with the fuel,
//! the time, the host calls, the log, the clock and the random numbers of a fresh one. It is dropped after a fault, an
//! abandoned call, an answer that the host could not use, any growth of its memory or tables, and `Limits::reuses`
//! requests.
//!
//! # Limits
//! Each item of a list gets the fuel and time of a request. Between items an instance retires after
//! [`MAX_CALLS_PER_INSTANCE`] calls, or after [`MAX_ARGUMENT_BYTES`] bytes of arguments.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::redaction::Secrets;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{Engine, component::InstancePre};

use crate::{
    call::{
        export::{HookExport, HookExports, HookGuest},
        hook_slots::{CallerClass, HookSlots, SlotKey},
        instance::{CallFailure, Instance},
    },
    engine::{
        store::{excuse_waits, store},
        ticker::{TickGuard, Ticker},
    },
    error::{HookError, HookFault},
    grants::Permit,
    health::{
        call_time::CallTime,
        processor_time::{LOW_PRIORITY_AFTER, could_have_worked},
        reporter::Reporter,
    },
    host::{lookup_host::Lookup, state::State, wasi::sandboxed::WasiStart},
    limits::Limits,
    opaque::{Owned, own},
};

/// Calls of one instance after which the next item of a list gets a new one.
const MAX_CALLS_PER_INSTANCE: u32 = 64;

/// Bytes of arguments after which the next call gets a new instance: guests of the SDK free nothing.
const MAX_ARGUMENT_BYTES: usize = 512 << 10;

/// A plugin's hooks, ready to be instantiated, with everything that an instance needs.
#[derive(Clone)]
pub(crate) struct HookComponent {
    pub(crate) engine: Engine,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Arc<HookExports>,
    pub(crate) limits: Arc<Limits>,
    /// The plugin's settings, as JSON; they never change.
    pub(crate) settings: Arc<str>,
    /// Permits that bound the plugin's concurrent requests, so that it cannot take every slot of the pool.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) slots: Arc<HookSlots>,
    /// Owner of its idle instances.
    pub(crate) key: SlotKey,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) reporter: Arc<Reporter>,
    /// Limits of the plugin's searches; `None` if it does not import them.
    pub(crate) searches: Option<Arc<Permit>>,
}

/// An instance, and the permits that it holds while it lives.
pub(crate) struct HookInstance {
    instance: Instance<HookGuest>,
    reporter: Arc<Reporter>,
    /// Processor time that the hooks of this request, or of this item of a list, have used so far.
    worked: Duration,
    calls: u32,
    bytes: usize,
    /// Callers whose requests it may serve; `None`: it serves one request.
    class: Option<CallerClass>,
    /// Requests that it served or serves.
    requests: u32,
    start: Start,
    /// Whether the host could not use an answer.
    is_spoiled: bool,
    /// Held while it serves a request.
    _request: Option<(TickGuard, OwnedSemaphorePermit)>,
    /// Dropped last: the slot becomes free only after the memory.
    _slot: OwnedSemaphorePermit,
}

/// State of an instance before its first call.
struct Start {
    memory: usize,
    table_elements: usize,
    wasi: WasiStart,
}

impl HookInstance {
    /// Takes an idle instance of the class, or else makes a fresh one. `waits`: whether it may wait for a free slot,
    /// until the end of the request's whole time.
    pub(crate) async fn open(
        component: &HookComponent,
        hook: &'static str,
        lookup: Option<Lookup>,
        waits: bool,
        class: Option<CallerClass>,
    ) -> Result<Owned<Self>, HookError> {
        let (limits, reporter) = (&component.limits, &component.reporter);
        let until = Instant::now() + limits.deadline() + limits.max_delay();
        let turn = async |turns: &Arc<Semaphore>| {
            if let Ok(turn) = turns.clone().try_acquire_owned() {
                return Some(turn);
            }
            if !waits {
                return None;
            }
            tokio::time::timeout_at(until.into(), turns.clone().acquire_owned()).await.ok()?.ok()
        };
        // Turns are always taken before slots, and a holder of a slot waits for nothing; so slots come back, and the
        // two cannot deadlock.
        let Some(turn) = turn(&component.turns).await else {
            let fault = HookFault::Busy { limit: limits.concurrency, setting: "sandbox.concurrency" };
            return Err(reporter.fault(hook, fault, None));
        };
        let ticking = component.ticker.clone().keep_ticking();
        if let Some(class) = &class
            && let Some(mut idle) = component.slots.take(component.key, class)
        {
            idle.begin_request((ticking, turn), lookup, until);
            return Ok(idle);
        }
        let Some(slot) = component.slots.slot(waits.then_some(until)).await else {
            let fault = HookFault::Busy { limit: component.slots.count, setting: "sandbox.instances" };
            return Err(reporter.fault(hook, fault, None));
        };
        let time = CallTime::of_hooks(limits.deadline(), until, reporter.work.clone());
        let (name, settings) = (reporter.plugin.clone(), component.settings.clone());
        let mut store = store(&component.engine, &reporter.logs, name, settings, limits.clone(), time)
            .map_err(|e| reporter.fault(hook, HookFault::Host(format!("{e:#}")), Some(&e)))?;
        store.data_mut().lookup = lookup;
        let exports = component.exports.clone();
        let opened = Instance::open(store, &component.pre, |_, instance| Ok(HookGuest { exports, instance }));
        let failed = |CallFailure { fault, cause }| reporter.fault(hook, fault, cause.as_ref());
        let instance = opened.await.map_err(failed)?;
        reporter.metrics.instance_started();
        let state = instance.state();
        let (memory, table_elements, wasi) = (state.memory, state.table_elements, state.wasi.start());
        Ok(own(Self {
            start: Start { memory, table_elements, wasi },
            instance,
            reporter: reporter.clone(),
            worked: Duration::ZERO,
            calls: 0,
            bytes: 0,
            class,
            requests: 1,
            is_spoiled: false,
            _request: Some((ticking, turn)),
            _slot: slot,
        }))
    }

    /// Begins another request, with nothing of the one before.
    fn begin_request(&mut self, request: (TickGuard, OwnedSemaphorePermit), lookup: Option<Lookup>, until: Instant) {
        self._request = Some(request);
        self.requests += 1;
        (self.calls, self.bytes, self.worked) = (0, 0, Duration::ZERO);
        let wasi = self.start.wasi;
        let state = self.instance.state_mut();
        let fuel = state.limits.fuel;
        state.time.renew(until);
        state.host_calls = 0;
        state.host_work = Duration::ZERO;
        state.lookup = lookup;
        state.wasi.begin_again(wasi);
        self.instance.refuel(fuel);
        self.reporter.metrics.instance_reused();
    }

    /// Ends the request: its log, and the places that it holds. Answers the class of requests that may use the instance
    /// from now on; `None`: it must be dropped.
    pub(crate) fn end_request(&mut self) -> Option<CallerClass> {
        let (is_dead, metrics) = (self.instance.is_dead(), &self.reporter.metrics);
        let state = self.instance.state_mut();
        state.end_log(|| metrics.label());
        state.lookup = None;
        state.secrets = Arc::default();
        let has_grown = state.memory > self.start.memory || state.table_elements > self.start.table_elements;
        let is_over = is_dead || self.is_spoiled || has_grown || self.requests >= state.limits.reuses;
        self._request = None;
        self.class.clone().filter(|_| !is_over)
    }

    /// Whether the instance may serve this hook: always, if it serves this request alone; otherwise within its class.
    pub(crate) fn serves(&self, class: Option<&CallerClass>) -> bool {
        self.class.is_none() || self.class.as_ref() == class
    }

    /// Whether it has served another request before.
    pub(crate) fn is_reused(&self) -> bool {
        self.requests > 1
    }

    /// Keeps the instance from serving another request, since the host could not use its answer.
    pub(crate) fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    /// Whether the next call should get an instance of its own.
    pub(crate) fn must_retire(&self) -> bool {
        self.instance.is_dead() || self.calls >= MAX_CALLS_PER_INSTANCE || self.bytes >= MAX_ARGUMENT_BYTES
    }

    /// Gives the next item of a list the fuel and time of a whole request.
    pub(crate) fn renew(&mut self) {
        let state = self.instance.state_mut();
        let (fuel, whole) = (state.limits.fuel, state.limits.deadline() + state.limits.max_delay());
        state.time.renew(Instant::now() + whole);
        state.host_calls = 0;
        self.instance.refuel(fuel);
        self.worked = Duration::ZERO;
    }

    /// Removes these secrets from the instance's log from now on; secrets may be added later.
    pub(crate) fn hide(&mut self, secrets: &Arc<Mutex<Secrets>>) {
        self.instance.state_mut().secrets = secrets.clone();
    }

    /// Fuel that the last call used, units.
    pub(crate) fn spent(&self) -> u64 {
        self.instance.spent()
    }

    /// Linear memory of the instance, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.instance.state().memory
    }

    /// Calls a hook, within the remaining time of the request.
    pub(crate) async fn call<E: HookExport<Guest = HookGuest>>(&mut self, export: E) -> Result<E::Reply, HookError> {
        self.calls += 1;
        self.bytes += export.size();
        let (outcome, work) = self.instance.call(export).await;
        let work = work.saturating_sub(std::mem::take(&mut self.instance.state_mut().host_work));
        self.worked += work;
        let state = self.instance.state();
        if work >= LOW_PRIORITY_AFTER && could_have_worked(self.spent(), state.memory, state.host_calls) {
            let why = || format!("a call took {work:?} of processor time after its first tick");
            self.reporter.lower_priority(E::HOOK, why);
        }
        outcome.map_err(|CallFailure { fault, cause }| {
            let allowance = self.instance.state().time.allowance;
            excuse_waits(self.reporter.fault(E::NAME, fault, cause.as_ref()), self.worked, allowance)
        })
    }
}

impl Drop for HookInstance {
    fn drop(&mut self) {
        let metrics = &self.reporter.metrics;
        let state = self.instance.state_mut();
        state.end_log(|| metrics.label());
        metrics.instance_ended(state.memory);
    }
}
