//! One instance of a plugin for its controllers, which serves one call after another.
//!
//! # Contract
//! Each call has fuel, time, host calls and log of its own. Only a call that ended well leaves an instance that is entered
//! again: after a trap, a limit, or a call that was given up it is dead.
//!
//! # Limits
//! An instance is worn after [`CALLS`] calls, or when its memory is [`GROWTH`] larger than it was at first: guests of the
//! SDK free nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::OwnedSemaphorePermit, time::timeout_at};
use wasmtime::{Store, component::Instance};

use crate::{
    bindings::{controls::Controls, initializes::Initializes, maps::Maps},
    engine::{
        controller_engine::ControllerComponent,
        low_priority::{SHARE, could_have_worked, timed},
        store::{GRACE, WORKED, classify, excused, store_in},
    },
    error::{HookError, HookFault},
    health::metrics::PluginMetrics,
    hook::Hook,
    host::{
        call_context::CallContext,
        state::State,
        wasi::{Http, HttpCall},
    },
    plugin::Plugin,
    reconciler::Export,
    request::Usage,
    sandbox::TICK,
};

/// Calls after which an instance is worn.
const CALLS: u32 = 1_000;

/// Growth of its memory after which an instance is worn, bytes.
const GROWTH: usize = 1 << 20;

/// The functions of an instance, looked up once. Which there are, the plugin's exports say.
pub(crate) struct Guest {
    pub(crate) controlling: Option<Controls>,
    pub(crate) mapping: Option<Maps>,
    pub(crate) initializing: Option<Initializes>,
}

impl Guest {
    fn of(controllers: &ControllerComponent, store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<Self> {
        Ok(Self {
            controlling: controllers.controlling.as_ref().map(|of| of.load(&mut *store, instance)).transpose()?,
            mapping: controllers.mapping.as_ref().map(|of| of.load(&mut *store, instance)).transpose()?,
            initializing: controllers.initializing.as_ref().map(|of| of.load(&mut *store, instance)).transpose()?,
        })
    }
}

/// An instance.
pub(crate) struct WarmInstance {
    store: Store<State>,
    guest: Guest,
    metrics: Arc<PluginMetrics>,
    /// Its memory before the first call, bytes.
    first: usize,
    calls: u32,
    dead: bool,
    /// Fuel of the last call.
    spent: u64,
    /// Dropped last: the slot is free when the memory is.
    _slot: OwnedSemaphorePermit,
}

impl WarmInstance {
    /// A fresh instance. `until` is the deadline of the call that it is made for.
    pub(crate) async fn open(
        plugin: &Plugin,
        controllers: &ControllerComponent,
        hook: Hook,
        slot: OwnedSemaphorePermit,
        until: Instant,
    ) -> Result<Self, HookError> {
        let (name, limits) = (plugin.manifest().name.clone(), &controllers.limits);
        let left = until.saturating_duration_since(Instant::now());
        let settings = plugin.settings.clone();
        let host = |e: wasmtime::Error| plugin.fault(hook.name(), HookFault::Host(format!("{e:#}")), Some(&e));
        let mut store =
            store_in(&controllers.controller_engine.engine, &plugin.sandbox, name, settings, limits.clone(), left)
                .map_err(host)?;
        // Room for what is somewhat too large, which is a failure that the guest hears; what is far too large ends it.
        store.set_hostcall_fuel(limits.reply_bytes.saturating_mul(2).saturating_add(64 << 10));
        store.data_mut().hook = hook.name();
        if controllers.http {
            store.data_mut().http = Some(Box::new(Http::new(limits)));
        }
        let instance = match tokio::time::timeout(left + GRACE, controllers.pre.instantiate_async(&mut store)).await {
            Ok(Ok(instance)) => instance,
            Ok(Err(e)) => return Err(plugin.fault(hook.name(), classify(&e, store.data()), Some(&e))),
            Err(_) => return Err(plugin.fault(hook.name(), HookFault::late(limits), None)),
        };
        let guest = Guest::of(controllers, &mut store, &instance)
            .map_err(|e| plugin.fault(hook.name(), classify(&e, store.data()), Some(&e)))?;
        plugin.metrics.begins();
        let first = store.data().memory;
        let metrics = plugin.metrics.clone();
        Ok(Self { store, guest, metrics, first, calls: 0, dead: false, spent: 0, _slot: slot })
    }

    /// Whether the next call should get another one.
    pub(crate) fn must_retire(&self) -> bool {
        self.dead || self.calls >= CALLS || self.store.data().memory > self.first.saturating_add(GROWTH)
    }

    /// What the last call used.
    pub(crate) fn used(&self) -> Usage {
        Usage { fuel: self.spent, memory: self.store.data().memory }
    }

    /// Calls the guest once, until then at most.
    pub(crate) async fn call<A: Export>(
        &mut self,
        plugin: &Plugin,
        asked: A,
        call_context: CallContext,
        until: Instant,
    ) -> Result<A::Answer, HookError> {
        let hook = A::HOOK;
        let limits = self.store.data().limits.clone();
        self.calls += 1;
        self.dead = true;
        let host = |e: wasmtime::Error| plugin.fault(hook.name(), HookFault::Host(format!("{e:#}")), Some(&e));
        self.store.set_fuel(limits.fuel).map_err(host)?;
        self.store.set_epoch_deadline(1);
        let state = self.store.data_mut();
        state.deadline = until;
        state.hook = hook.name();
        state.host_calls = 0;
        state.growth_refused = None;
        if let Some(http) = &mut state.http {
            http.begin(HttpCall {
                host: call_context.host.answers_http().then(|| call_context.host.clone()),
                permit: call_context.permit.clone(),
                plugin: state.plugin.clone(),
                label: self.metrics.label(),
                hook: hook.name(),
                logs: state.logs.clone(),
                host_call: call_context.host_call,
                until,
                limit: limits.reply_bytes,
                sent: Arc::default(),
                received: Arc::default(),
            });
        }
        state.call_context = Some(call_context);

        let within = until.saturating_duration_since(Instant::now());
        let called = timeout_at((until + GRACE).into(), asked.ask(&self.guest, &mut self.store));
        let (outcome, work) = timed(called).await;

        self.spent = limits.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0));
        let state = self.store.data_mut();
        let of_the_host = state.call_context.take().map_or(Duration::ZERO, |call_context| call_context.host_work);
        if let Some(http) = &mut state.http {
            http.end();
        }
        let work = work.saturating_sub(of_the_host);
        state.end_log(|| self.metrics.label());
        if work >= SHARE + TICK && could_have_worked(self.spent, state.memory, state.host_calls) {
            plugin.lower_priority(hook.name(), || {
                format!("a call took {work:?} of processor time after its first pause")
            });
        }
        let fault = match outcome {
            Ok(Ok(answer)) => {
                self.dead = false;
                return Ok(answer);
            }
            Ok(Err(e)) => plugin.fault(hook.name(), classify(&e, self.store.data()), Some(&e)),
            Err(_) => plugin.fault(hook.name(), HookFault::late(&limits), None),
        };
        // One that waited for the host, or for a core, is late by no fault of its own.
        Err(excused(fault, work < within / WORKED))
    }
}

impl Drop for WarmInstance {
    fn drop(&mut self) {
        let state = self.store.data_mut();
        state.end_log(|| self.metrics.label());
        self.metrics.ends(state.memory);
    }
}
