//! An instance of a plugin for its controllers, which serves one call after another.
//!
//! # Contract
//! Each call has fuel, time, host calls and log of its own. An instance is entered again only after a call that ended
//! well: after a trap, a limit, or an abandoned call it is dead.
//!
//! # Limits
//! An instance retires after [`MAX_CALLS_PER_INSTANCE`] calls, or when its memory has grown by
//! [`MAX_MEMORY_GROWTH_BYTES`]: guests of the SDK free nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{Engine, component::InstancePre};

use crate::{
    call::{
        answer::Usage,
        export::{ControllerExports, ControllerGuest, HookExport},
        instance::{CallFailure, Instance},
    },
    engine::{
        store::{excuse_waits, store},
        ticker::TICK_INTERVAL,
    },
    error::{HookError, HookFault},
    grants::Permit,
    health::{
        call_time::CallTime,
        processor_time::{LOW_PRIORITY_AFTER, could_have_worked},
        reporter::Reporter,
    },
    hook::Hook,
    host::{
        call_context::CallContext,
        state::State,
        wasi::http::{Call as HttpCall, Http},
    },
    limits::Limits,
};

/// Calls after which an instance retires.
const MAX_CALLS_PER_INSTANCE: u32 = 1_000;

/// Imports of one plugin that may run at once.
pub(crate) const MAX_CONCURRENT_IMPORTS: usize = 4;

/// Growth of the memory after which an instance retires, bytes.
const MAX_MEMORY_GROWTH_BYTES: usize = 1 << 20;

/// A plugin's controllers, ready to be instantiated in the engine for controllers.
pub(crate) struct ControllerComponent {
    pub(crate) engine: Engine,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: ControllerExports,
    /// Whether the component sends HTTP requests.
    pub(crate) http: bool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) permit: Arc<Permit>,
    /// Permits that bound concurrent imports, so that callers cannot take the places of controllers.
    pub(crate) import_turns: Semaphore,
}

/// An instance that is kept between calls.
pub(crate) struct WarmInstance {
    instance: Instance<ControllerGuest>,
    reporter: Arc<Reporter>,
    /// Memory before the first call, bytes.
    first: usize,
    calls: u32,
    /// Dropped last: the slot becomes free only after the memory.
    _slot: OwnedSemaphorePermit,
}

impl WarmInstance {
    /// Makes a fresh instance. `until` ends the first call.
    pub(crate) async fn open(
        reporter: &Arc<Reporter>,
        component: &ControllerComponent,
        settings: Arc<str>,
        hook: Hook,
        slot: OwnedSemaphorePermit,
        until: Instant,
    ) -> Result<Self, HookError> {
        let (name, limits) = (reporter.plugin.clone(), &component.limits);
        let host = |e: wasmtime::Error| reporter.fault(hook.name(), HookFault::Host(format!("{e:#}")), Some(&e));
        let time = CallTime::of_controllers(limits.deadline(), until, reporter.work.clone());
        let mut store = store(&component.engine, &reporter.logs, name, settings, limits.clone(), time).map_err(host)?;
        // Twice the limit and some more: a message slightly too large is an error for the guest, one far too large ends
        // it.
        store.set_hostcall_fuel(limits.reply_bytes.saturating_mul(2).saturating_add(64 << 10));
        store.data_mut().hook = hook.name();
        if component.http {
            store.data_mut().http = Some(Box::new(Http::new(limits)));
        }
        let opened = Instance::open(store, &component.pre, |store, instance| {
            ControllerGuest::load(&component.exports, store, &instance)
        });
        let instance =
            opened.await.map_err(|CallFailure { fault, cause }| reporter.fault(hook.name(), fault, cause.as_ref()))?;
        reporter.metrics.instance_started();
        let first = instance.state().memory;
        Ok(Self { instance, reporter: reporter.clone(), first, calls: 0, _slot: slot })
    }

    /// Whether the next call should get a new instance.
    pub(crate) fn must_retire(&self) -> bool {
        let memory = self.instance.state().memory;
        self.instance.is_dead()
            || self.calls >= MAX_CALLS_PER_INSTANCE
            || memory > self.first.saturating_add(MAX_MEMORY_GROWTH_BYTES)
    }

    /// Fuel and memory that the last call used.
    pub(crate) fn used(&self) -> Usage {
        Usage { fuel: self.instance.spent(), memory: self.instance.state().memory }
    }

    /// Calls the guest once, until `until` at most, with the time of a call of its own.
    pub(crate) async fn call<E: HookExport<Guest = ControllerGuest>>(
        &mut self,
        export: E,
        call_context: CallContext,
        until: Instant,
    ) -> Result<E::Reply, HookError> {
        self.calls += 1;
        let fuel = self.instance.state().limits.fuel;
        self.instance.refuel(fuel);
        let state = self.instance.state_mut();
        state.host_calls = 0;
        state.time.renew(until);
        let allowance = state.time.allowance;
        if let Some(http) = &mut state.http {
            http.begin(HttpCall {
                host: call_context.host.answers_http().then(|| call_context.host.clone()),
                permit: call_context.permit.clone(),
                plugin: state.plugin.clone(),
                label: self.reporter.metrics.label(),
                hook: E::NAME,
                logs: state.logs.clone(),
                host_call: call_context.host_call,
                until: until.min(Instant::now() + allowance),
                limit: state.limits.reply_bytes,
                sent: Arc::default(),
                received: Arc::default(),
            });
        }
        state.secrets = call_context.secrets.clone();
        state.call_context = Some(call_context);

        let (outcome, work) = self.instance.call(export).await;

        let spent = self.instance.spent();
        let state = self.instance.state_mut();
        let of_the_host = state.call_context.take().map_or(Duration::ZERO, |call_context| call_context.host_work);
        if let Some(http) = &mut state.http {
            http.end();
        }
        let work = work.saturating_sub(of_the_host);
        state.end_log(|| self.reporter.metrics.label());
        if work >= LOW_PRIORITY_AFTER + TICK_INTERVAL && could_have_worked(spent, state.memory, state.host_calls) {
            let why = || format!("a call took {work:?} of processor time after its first pause");
            self.reporter.lower_priority(E::HOOK, why);
        }
        outcome.map_err(|CallFailure { fault, cause }| {
            excuse_waits(self.reporter.fault(E::NAME, fault, cause.as_ref()), work, allowance)
        })
    }
}

impl Drop for WarmInstance {
    fn drop(&mut self) {
        let state = self.instance.state_mut();
        state.end_log(|| self.reporter.metrics.label());
        self.reporter.metrics.instance_ended(state.memory);
    }
}
