//! Load requests for components that the data directory has copies of.

use std::io;

use crate::{
    load::request::{LoadReason, LoadRequest},
    state::ManagerState,
    trust::Origin,
};

impl ManagerState {
    /// A request for a component of a plugin by its digest.
    pub(crate) fn kept_request(&self, plugin: &str, digest: String, reason: LoadReason) -> io::Result<LoadRequest> {
        let source = self.plugins.get(plugin).map(|managed| managed.record.data.source.clone()).unwrap_or_default();
        let (origin, signature, plugin_before) = (Origin::Kept, Ok(None), Some(plugin.to_owned()));
        let bytes = self.components.get(plugin, &digest)?;
        Ok(LoadRequest { source, bytes, digest, origin, signature, reason, plugin_before })
    }

    /// A request for the component of a plugin that served last.
    pub(crate) fn last_served_request(&self, plugin: &str) -> io::Result<LoadRequest> {
        let digest = self.plugins.get(plugin).map(|managed| managed.record.data.digest.clone()).unwrap_or_default();
        self.kept_request(plugin, digest, LoadReason::Reload)
    }
}
