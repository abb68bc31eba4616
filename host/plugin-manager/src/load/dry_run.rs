//! A load without its last step: every check of a component, and no change.
//!
//! The component is compiled, which may fill the code cache, and describes itself. Its name and its types are compared
//! with the loaded plugins, and the stored resources with its types. The lock is held for single looks alone, so
//! another load may come in between; a later install makes every check again.

use std::sync::Arc;

use mortise_plugin_host::Plugin;
use mortise_resource::data;

use super::{
    canary::{MAX_SCANS, StoredComparison, store_busy},
    migration::mark_for_upgrade,
    record::describe,
    request::LoadRequest,
    stage::{Failure, Stage},
    transition::catch_panic,
    types::types_of,
};
use crate::{core::Core, trust::TrustDecision};

/// The result of a load that was tried.
pub(crate) struct DryLoad {
    /// The plugin's data as it would be, without the time at which its service begins.
    pub(crate) data: data::Plugin,
    /// True if the component serves already.
    pub(crate) serves: bool,
}

impl Core {
    /// Makes the checks of a load.
    pub(crate) async fn try_load(&self, request: &LoadRequest) -> Result<DryLoad, Failure> {
        let decision = self.verify(request).await?;
        let settings = self.lock().await.settings.clone();
        let loading = async {
            Plugin::load(&self.sandbox, &request.source, &request.bytes, &settings).await.map_err(Failure::from)
        };
        let plugin = catch_panic(Stage::Compiling, loading).await?;
        catch_panic(Stage::Checking, self.try_admit(&plugin, request, &decision)).await
    }

    /// Compares a component that described itself with plugins and stored resources.
    async fn try_admit(
        &self,
        plugin: &Arc<Plugin>,
        request: &LoadRequest,
        decision: &TrustDecision,
    ) -> Result<DryLoad, Failure> {
        let name = plugin.name();
        let (backend, before, data) = {
            let state = self.lock().await;
            let gives_way = state.find_name(plugin, request)?.is_some();
            let known = state.plugins.get(name).filter(|_| !gives_way).map(|managed| &managed.record.data);
            let mut data = known.cloned().unwrap_or_default();
            let registry = state.registry.load();
            let is_same =
                |serving: &Arc<Plugin>| serving.digest() == request.digest && serving.has_settings(&state.settings);
            if registry.plugin(name).is_some_and(is_same) {
                return Ok(DryLoad { data, serves: true });
            }
            let plan = state.plan(plugin, request)?;
            let types = mark_for_upgrade(types_of(&plan.next, name), &plan.before);
            describe(&mut data, plugin, request, decision, types);
            data.source.clone_from(&request.source);
            (data.rolled_back, data.held_digest, data.loaded_at) = (false, String::new(), None);
            (state.backend.clone(), plan.before, data)
        };
        let mut comparison = StoredComparison::new(backend, plugin.clone(), &before);
        comparison.compare(&before)?;
        for _ in 0..MAX_SCANS {
            comparison.scan().await?;
            if comparison.settle().await? {
                return Ok(DryLoad { data, serves: false });
            }
        }
        Err(store_busy("too much changed meanwhile"))
    }
}
