//! Lifts the quarantine of a plugin's hooks.

use mortise_resource::{Error, pb};

use super::precondition;
use crate::core::Core;

pub(crate) async fn reset(core: &Core, name: &str) -> Result<pb::Resource, Error> {
    let _turn = core.turns.take(name).await;
    let mut state = core.lock().await;
    state.known_record(name)?;
    let plugin = state.registry.load().plugin(name).cloned();
    let plugin =
        plugin.ok_or_else(|| precondition(format!("plugin {name:?} is not loaded; there is nothing to reset")))?;
    plugin.health().reset();
    drop(plugin);
    state.reflect_health().await;
    state.answer(name)
}
