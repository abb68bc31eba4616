//! Returns to the component that served before.

use mortise_resource::{Error, pb};

use super::{load::OperatorLoad, precondition};
use crate::{
    core::Core,
    load::request::{LoadReason, LoadRequest},
    state::{BUNDLED, ManagerState},
};

pub(crate) async fn roll_back(core: &Core, name: &str) -> Result<pb::Resource, Error> {
    let load = OperatorLoad::begin(core, name).await;
    let request = load.state.rollback_request(name)?;
    load.run(core, request).await.answer(name).await
}

impl ManagerState {
    fn rollback_request(&self, name: &str) -> Result<LoadRequest, Error> {
        let data = self.owned_record(name)?;
        if data.disabled {
            return Err(precondition(format!("plugin {name:?} is disabled; enable it first")));
        }
        let digest = &data.previous_digest;
        if digest.is_empty() {
            return Err(precondition(format!("plugin {name:?} has no version before {}", data.version)));
        }
        let in_source = match data.source.as_str() {
            BUNDLED => self.bundled(name).map(|(_, digest)| digest),
            file => self.files.get(file).and_then(|known| known.digest()).map(str::to_owned),
        };
        let reason = LoadReason::Rollback { held: in_source.filter(|held| held != digest) };
        self.kept_request(name, digest.clone(), reason)
            .map_err(|e| precondition(format!("the previous version is no longer kept: {e}; install it instead")))
    }
}
