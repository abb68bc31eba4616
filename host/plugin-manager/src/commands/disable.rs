//! Disables a plugin.

use mortise_resource::{Error, pb};
use mortise_service::registry::MissingReason;

use crate::core::Core;

pub(crate) async fn disable(core: &Core, name: &str) -> Result<pb::Resource, Error> {
    let _turn = core.turns.take(name).await;
    let mut state = core.lock().await;
    state.owned_record(name)?;
    if !state.managed(name).is_disabled() {
        state.managed(name).disable();
        state.take_out(name, MissingReason::Disabled);
        state.disabled(name, "").await;
    }
    state.answer(name)
}
