//! Enables a plugin: the component of its source goes through every stage.

use mortise_resource::{Error, pb};

use super::{load::OperatorLoad, precondition};
use crate::{
    core::Core,
    files::folder,
    load::request::{LoadReason, LoadRequest},
    state::{BUNDLED, ManagerState},
    trust::Origin,
};

pub(crate) async fn enable(core: &Core, name: &str) -> Result<pb::Resource, Error> {
    let mut load = OperatorLoad::begin(core, name).await;
    let state = &mut load.state;
    state.owned_record(name)?;
    if !state.managed(name).is_disabled() {
        return state.enabled_resource(name);
    }
    let request = state.enable_request(name)?;
    load.run(core, request).await.answer(name).await
}

impl ManagerState {
    fn enabled_resource(&self, name: &str) -> Result<pb::Resource, Error> {
        if self.registry.load().plugin(name).is_none() {
            let why = self.plugins.get(name).map(|m| m.record.loaded.message.as_str()).unwrap_or_default();
            return Err(precondition(format!("plugin {name:?} is enabled, but not loaded: {why}")));
        }
        self.answer(name)
    }

    /// Makes the request for the component in the source; for the version that it was rolled back to if the source has
    /// not changed since.
    fn enable_request(&mut self, name: &str) -> Result<LoadRequest, Error> {
        let data = self.managed(name).record.data.clone();
        let (mut origin, mut signature) = (Origin::Binary, Ok(None));
        let content = match data.source.as_str() {
            BUNDLED => self.bundled(name),
            file => {
                let read = folder::read_plugin(&self.path(file), self.sandbox.limits().component_bytes);
                let read = read.map_err(|e| precondition(format!("{e}; install it again")))?;
                (origin, signature) = (Origin::Folder, read.signature);
                let digest = folder::digest(&read.bytes);
                Some((read.bytes, digest))
            }
        };
        let (bytes, digest) =
            content.ok_or_else(|| precondition(format!("plugin {name:?} is no longer bundled; install it")))?;
        if let Some(file) = self.files.get_mut(&data.source) {
            file.set_digest(&digest);
        }
        if data.rolled_back && data.held_digest == digest {
            let kept = self.kept_request(name, data.digest, LoadReason::Reload);
            return kept
                .map_err(|e| precondition(format!("the version that it was rolled back to cannot be read: {e}")));
        }
        self.managed(name).follow_source();
        let plugin_before = Some(name.to_owned());
        let reason = LoadReason::Reload;
        Ok(LoadRequest { source: data.source, bytes, digest, origin, signature, reason, plugin_before })
    }
}
