//! Call of an export while the plugin is loaded, before a reporter exists for its faults.
//!
//! It has an instance of its own, under the given limits and the time of `describe`: requests never wait for it.

use std::{sync::Arc, time::Instant};

use wasmtime::{
    Store,
    component::{Instance as ComponentInstance, InstancePre},
};

use crate::{
    call::{
        export::Export,
        instance::{CallFailure, Instance},
    },
    engine::store::store,
    error::{HookError, HookFault, LoadError},
    health::{backtrace, call_time::CallTime, log_level::LogLevel},
    host::state::State,
    limits::Limits,
    load::needs::exceeded_limit,
    sandbox::Inner,
};

/// The plugin's name and version for errors.
pub(crate) struct PluginName<'a> {
    pub(crate) plugin: Arc<str>,
    pub(crate) version: &'a str,
}

/// Calls an export once.
pub(crate) async fn call_once<E: Export>(
    sandbox: &Inner,
    name: PluginName<'_>,
    settings: Arc<str>,
    limits: &Arc<Limits>,
    component: &InstancePre<State>,
    guest: impl FnOnce(&mut Store<State>, ComponentInstance) -> wasmtime::Result<E::Guest>,
    export: E,
) -> Result<E::Reply, LoadError> {
    let fault = |fault| {
        LoadError::Describe(HookError {
            plugin: name.plugin.to_string(),
            version: name.version.to_owned(),
            hook: E::NAME,
            fault,
            counts: false,
        })
    };
    let _tick = sandbox.tick();
    let time = CallTime::of_hooks(
        limits.describe_deadline(),
        Instant::now() + limits.describe_deadline() + limits.max_delay(),
        Arc::default(),
    );
    let Some(_slot) = sandbox.slots.slot(Some(time.until)).await else {
        return Err(fault(HookFault::Busy { limit: sandbox.slots.count, setting: "sandbox.instances" }));
    };
    let mut store = store(&sandbox.engine, &sandbox.logs, name.plugin.clone(), settings, limits.clone(), time)
        .map_err(|source| LoadError::Host { what: "setting up a store", source })?;
    store.data_mut().hook = E::NAME;
    let outcome = match Instance::open(store, component, guest).await {
        Ok(mut instance) => instance.call(export).await.0,
        Err(failure) => Err(failure),
    };
    outcome.map_err(|CallFailure { fault: kind, cause }| {
        if let Some(error) = cause.as_ref().and_then(|cause| exceeded_limit(cause, None, limits)) {
            return error;
        }
        if let Some(cause) = cause {
            let text = format!("hook {} {kind}\n{}", E::NAME, backtrace::render(&cause));
            sandbox.logs.log_host_line(&name.plugin, E::NAME, LogLevel::Error, text.trim_end().to_owned());
        }
        let is_late = matches!(kind, HookFault::Deadline { .. });
        let limit_ms = limits.describe_deadline_ms;
        fault(if is_late { HookFault::Deadline { limit_ms, setting: "sandbox.describe_deadline_ms" } } else { kind })
    })
}
