//! Returns to the component that served before.

use mortise_resource::{Error, pb};

use super::precondition;
use crate::{
    core::Core,
    load::request::{LoadReason, LoadRefusal, LoadRequest},
    state::{BUNDLED, ManagerState},
    trust::Origin,
};

pub(crate) async fn roll_back(core: &Core, name: &str) -> Result<pb::Resource, Error> {
    let mut turn = Some(core.turns.take(name).await);
    let place = core.work.place().await;
    let request = core.lock().await.rollback_request(name)?;
    let outcome = core.load(&request, &mut turn, place).await;
    let mut state = core.lock().await;
    match outcome {
        Ok(_) => {
            // The content of the source is not wanted now, so its fault no longer matters.
            if let Some(file) = state.files.get_mut(&request.source) {
                file.clear_rejection();
            }
            state.answer(name)
        }
        Err(LoadRefusal { failure, .. }) => {
            state.failed(name, failure.clone(), request.digest).await;
            Err(precondition(failure.into_error().message))
        }
    }
}

impl ManagerState {
    fn rollback_request(&self, name: &str) -> Result<LoadRequest, Error> {
        let data = self.owned(name)?.clone();
        if data.disabled {
            return Err(precondition(format!("plugin {name:?} is disabled; enable it first")));
        }
        if data.previous_digest.is_empty() {
            return Err(precondition(format!("plugin {name:?} has no version before {}", data.version)));
        }
        let digest = data.previous_digest;
        let kept = self.components.get(name, &digest);
        let bytes =
            kept.map_err(|e| precondition(format!("the previous version is no longer kept: {e}; install it instead")))?;
        let in_source = match data.source.as_str() {
            BUNDLED => self.bundled(name).map(|(_, digest)| digest).unwrap_or_default(),
            file => self.files.get(file).map(|known| known.digest().to_owned()).unwrap_or_default(),
        };
        let held = if in_source == digest { String::new() } else { in_source };
        let reason = LoadReason::Rollback { held };
        Ok(LoadRequest {
            source: data.source,
            bytes,
            digest,
            origin: Origin::Kept,
            signature: Ok(None),
            reason,
            plugin_before: Some(name.to_owned()),
        })
    }
}
