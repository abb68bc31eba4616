//! A plugin's own check of its settings, once each time it is loaded.
//!
//! It runs in an instance of its own, under the plugin's fuel and memory and the wall clock of `describe`: nothing serves
//! yet that could wait for it.

use std::sync::Arc;

use mortise_resource::Severity;
use wasmtime::component::InstancePre;

use crate::{
    bindings::configures::ConfiguresIndices,
    call::session,
    engine::store,
    error::{HookError, HookFault, LoadError},
    host::state::State,
    limits::Limits,
    load::{contract, settings::key},
    manifest::document::Manifest,
    sandbox::Inner,
};

/// The name of the check in errors.
const HOOK: &str = "check";

/// Asks the plugin what it thinks of its settings. Errors keep it from being loaded, warnings are logged.
pub(crate) async fn check(
    sandbox: &Arc<Inner>,
    manifest: &Manifest,
    limits: &Arc<Limits>,
    settings: &Arc<str>,
    pre: &InstancePre<State>,
) -> Result<(), LoadError> {
    let (name, version) = (&manifest.name, &manifest.version);
    let fault = |fault| {
        LoadError::Describe(HookError {
            plugin: name.to_string(),
            version: version.to_string(),
            hook: HOOK,
            fault,
            counts: false,
        })
    };
    let late = HookFault::Deadline { limit_ms: limits.describe_deadline_ms, setting: "sandbox.describe_deadline_ms" };
    let _tick = sandbox.tick();
    let within = limits.describe_deadline();
    let Ok(Ok(_slot)) = tokio::time::timeout(within, sandbox.slots.clone().acquire_owned()).await else {
        return Err(fault(HookFault::Busy { limit: sandbox.slot_count, setting: "sandbox.instances" }));
    };
    let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
    let indices = ConfiguresIndices::new(pre).map_err(contract)?;
    let mut store = store::store(sandbox, name.clone(), settings.clone(), limits.clone(), within)
        .map_err(|source| LoadError::Host { what: "setting up a store", source })?;
    let call = async {
        store.data_mut().hook = HOOK;
        let instance = pre.instantiate_async(&mut store).await?;
        let guest = indices.load(&mut store, &instance)?;
        guest.mortise_plugin_configuring().call_check(&mut store, settings).await
    };
    let found = match tokio::time::timeout(within + store::GRACE, call).await {
        Ok(Ok(found)) => found,
        Ok(Err(e)) => {
            let kind = store::classify(&e, store.data());
            tracing::error!(target: "plugin", plugin = &**name, "hook {HOOK} {kind}\n{e:?}");
            return Err(fault(if matches!(kind, HookFault::Deadline { .. }) { late } else { kind }));
        }
        Err(_) => return Err(fault(late)),
    };

    let mut errors = Vec::new();
    for one in found.into_iter().map(session::diagnostic) {
        let detail = if one.detail.is_empty() { String::new() } else { format!(" ({})", one.detail) };
        let (key, what) = (key(name, &one.path), one.summary + &detail);
        if one.severity == i32::from(Severity::Warning) {
            tracing::warn!(target: "plugin", plugin = &**name, "settings {key}: {what}");
        } else {
            errors.push((key, what));
        }
    }
    let mut errors = errors.into_iter();
    let Some((key, mut what)) = errors.next() else {
        return Ok(());
    };
    for (key, more) in errors {
        what.push_str(&format!("; {key}: {more}"));
    }
    Err(LoadError::Settings { key, what })
}
