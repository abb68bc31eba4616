//! Shows all known facts of a plugin.

use mortise_plugin_host::HealthState;
use mortise_resource::{Error, data};

use crate::core::Core;

/// Takes no turn, so that it shows a plugin even in the middle of its load.
pub(crate) async fn inspect(core: &Core, name: &str) -> Result<data::InspectResponse, Error> {
    let state = core.lock().await;
    let managed = state.known_record(name)?;
    let plugin = state.registry.load().plugin(name).cloned();
    let hooks = plugin.map(|plugin| plugin.health().report().hooks).unwrap_or_default();
    let hooks = hooks.into_iter().map(|hook| data::inspect_response::Hook {
        name: hook.hook.to_owned(),
        state: match hook.state {
            HealthState::Healthy => "Healthy",
            HealthState::Probation => "Probation",
            HealthState::Quarantined => "Quarantined",
        }
        .to_owned(),
        faults: hook.faults,
        last_fault: hook.last_fault,
        retry_in: hook.retry_in.and_then(|wait| wait.try_into().ok()),
    });
    Ok(data::InspectResponse {
        plugin: state.resource(name),
        stage: managed.record.loaded.reason.clone(),
        last_failure: managed.last_failure.clone(),
        hooks: hooks.collect(),
        draining: managed.draining,
    })
}
