//! The end of a plugin: its types stay while resources of them are stored; then the types go, and then the plugin.

use std::sync::Arc;

use mortise_resource::{pb::condition::State, types::Gvk};
use mortise_service::registry::{MissingReason, Owner};
use mortise_store::{Backend, StoreError, TypeKey};

use crate::{
    load::canary,
    load::migration::mark_for_upgrade,
    load::types::{manifests_of, types_of},
    state::{ManagerState, plugin::REMOVED},
};

/// Returns the types without stored resources among those of missing plugins. A type of which the store cannot tell
/// stays, and the fault is logged.
async fn gone_types(backend: &Arc<dyn Backend>, mut candidates: Vec<(Gvk, MissingReason)>) -> Vec<Gvk> {
    candidates.retain(|(_, why)| matches!(why, MissingReason::Removed | MissingReason::Dropped));
    if candidates.is_empty() {
        return Vec::new();
    }
    let fault = |error: &StoreError| {
        tracing::error!("types of removed plugins stay for now, since the store cannot tell which are in use: {error}");
    };
    let stored = match backend.types().await {
        Ok(stored) => stored,
        Err(error) => {
            fault(&error);
            return Vec::new();
        }
    };
    let mut gone = Vec::new();
    for (gvk, why) in candidates {
        // The store knows kinds without versions. A dropped version may go before the others.
        let is_stored = match stored.contains(&TypeKey::from(&gvk.to_pb())) {
            true if why == MissingReason::Dropped => canary::any_stored(backend, &gvk).await,
            is_stored => Ok(is_stored),
        };
        match is_stored {
            Ok(false) => gone.push(gvk),
            Ok(true) => {}
            // The next one would fail, too.
            Err(error) => {
                fault(&error);
                return gone;
            }
        }
    }
    gone
}

impl ManagerState {
    /// Removes a plugin from service after its source is gone.
    pub(crate) async fn remove_from_service(&mut self, name: &str) {
        if self.managed(name).is_file_only() {
            return self.forget(name).await;
        }
        self.take_out(name, MissingReason::Removed);
        self.managed(name).source_gone();
        let source = &self.managed(name).record.data.source;
        let text = format!("{source} is gone; stored resources can be read and deleted, but not written");
        self.set_loaded(name, State::False, REMOVED, text).await;
        self.collect_garbage().await;
        self.retry_refused();
    }

    /// Takes a plugin out of service. Its types stay in the table.
    pub(crate) fn take_out(&mut self, name: &str, why: MissingReason) {
        let current = self.registry.load_full();
        let mut next = current.without(name);
        for manifest in manifests_of(&current, name) {
            next = next.with_missing_plugin(&manifest, why, |_| true);
        }
        let old = current.plugin(name).cloned();
        drop(current);
        let data = &mut self.managed(name).record.data;
        data.types = mark_for_upgrade(types_of(&next, name), &data.types);
        self.swap(next);
        if let Some(old) = old {
            old.record_stopped_serving();
            self.drain_old(name, old);
        }
    }

    /// Handles the end of a replaced version: types that only it had may be removed now.
    pub(crate) async fn drained(&mut self, plugin: &str) {
        if let Some(managed) = self.plugins.get_mut(plugin) {
            managed.draining = managed.draining.saturating_sub(1);
        }
        self.collect_garbage().await;
    }

    /// Removes types without stored resources of plugins that are gone, and then plugins without types. After a fault
    /// of the store, which is logged, types stay until the next call; records are written all the same.
    pub(crate) async fn collect_garbage(&mut self) {
        let registry = self.registry.load_full();
        // A call in a replaced version may still write.
        let is_busy = |name: &str| self.plugins.get(name).is_some_and(|managed| managed.draining > 0);
        let candidates: Vec<(Gvk, MissingReason)> = registry
            .types()
            .iter()
            .filter_map(|t| match &t.owner {
                Owner::Missing(owner) if !is_busy(&owner.name) => Some((t.gvk.clone(), owner.why)),
                _ => None,
            })
            .collect();
        let gone = gone_types(&self.backend, candidates).await;
        if !gone.is_empty() {
            self.swap(registry.without_missing_types(&gone));
        }
        drop(registry);
        let registry = self.registry.load_full();
        let mut leaving = Vec::new();
        for (name, managed) in self.plugins.iter_mut().filter(|(_, managed)| !managed.is_file_only()) {
            let types = mark_for_upgrade(types_of(&registry, name), &managed.record.data.types);
            let removed = managed.is_removed() && registry.plugin(name).is_none();
            if removed && types.is_empty() && managed.draining == 0 {
                leaving.push(name.clone());
            } else if (removed || registry.plugin(name).is_some()) && managed.record.data.types != types {
                managed.record.data.types = types;
            }
        }
        drop(registry);
        for name in leaving {
            tracing::info!(plugin = name, "the plugin has no stored resources any more; its record is removed");
            self.forget(&name).await;
        }
        if !self.starting {
            if let Err(error) = self.resources.refresh().await {
                tracing::warn!(%error, "the resources of plugins cannot be read");
            }
            let records = self.plugins.iter().map(|(name, managed)| (name.as_str(), &managed.record));
            // A fault is in the log.
            let _ = self.resources.put_logged(records).await;
        }
    }

    /// Removes a record, and the copies and the resource that belong to it.
    pub(crate) async fn forget(&mut self, name: &str) {
        self.plugins.remove(name);
        self.components.forget(name);
        match self.resources.leave(name).await {
            Ok(false) => {}
            Ok(true) => return,
            Err(e) => return tracing::error!(plugin = name, "the plugin's resource cannot be written: {e}"),
        }
        match self.resources.resource(name).and_then(|resource| resource.id.clone()) {
            None => self.resources.forget(name),
            Some(id) => match self.service.delete_unchecked(&id).await {
                Ok(_) => self.resources.forget(name),
                Err(e) => tracing::error!(plugin = name, "the plugin's resource cannot be deleted: {e}"),
            },
        }
    }
}
