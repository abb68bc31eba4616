//! A plugin's own check of its settings, once each time it is loaded.
//!
//! It runs in an instance of its own, under the plugin's fuel and memory and the time of `describe`: nothing that
//! serves waits for it.

use std::sync::Arc;

use mortise_resource::Severity;
use wasmtime::{Store, component::InstancePre};

use crate::{
    bindings::configures::ConfiguresIndices,
    call::export::Check,
    error::LoadError,
    host::state::State,
    limits::Limits,
    load::{
        contract,
        loading_call::{PluginName, call_once},
        settings::key,
    },
    manifest::document::Manifest,
    sandbox::Inner,
};

/// Asks the plugin to check its settings. Errors keep it from being loaded, warnings are logged.
pub(crate) async fn check(
    sandbox: &Inner,
    manifest: &Manifest,
    limits: &Arc<Limits>,
    settings: &Arc<str>,
    pre: &InstancePre<State>,
) -> Result<(), LoadError> {
    let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
    let indices = ConfiguresIndices::new(pre).map_err(contract)?;
    let name = &manifest.name;
    let plugin = PluginName { plugin: name.clone(), version: &manifest.version };
    let guest = |store: &mut Store<State>, instance| indices.load(store, &instance);
    let check = Check { settings: settings.clone() };
    let found = call_once(sandbox, plugin, settings.clone(), limits, pre, guest, check).await?;

    let mut errors = Vec::new();
    for fault in found {
        let detail = if fault.detail.is_empty() { String::new() } else { format!(" ({})", fault.detail) };
        let (key, what) = (key(name, &fault.path), fault.summary + &detail);
        if fault.severity == i32::from(Severity::Warning) {
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
