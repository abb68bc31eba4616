//! Upgrades stored resources from older schema versions, in the background, once a plugin serves.
//!
//! The plugin's record names these types (`upgrading`), so that a restart continues. The work begins when the calls in
//! the replaced version have ended, which might still write in the old schema version, or after [`Limits::drain`].
//! Readers do not wait for it: they get upgraded data in any case.
//!
//! [`Limits::drain`]: crate::options::Limits::drain

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use mortise_plugin_host::Plugin;
use mortise_resource::{data, pb, types};
use mortise_service::ResourceService;
use mortise_service::registry::Registry;

use crate::{
    event::{Event, Migrated},
    state::ManagerState,
};

/// Most objects that the log names as not upgraded.
const MAX_NAMED_OBJECTS: usize = 10;

/// Interval of checks whether the replaced version is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The types as served now, marked if resources of an older schema version may be stored.
pub(crate) fn mark_for_upgrade(mut now: Vec<data::PluginType>, before: &[data::PluginType]) -> Vec<data::PluginType> {
    for entry in &mut now {
        let known = before.iter().find(|known| known.r#type == entry.r#type);
        entry.upgrading = known.is_some_and(|known| known.upgrading || known.schema_version < entry.schema_version);
    }
    now
}

impl ManagerState {
    /// Starts the upgrade of the types that the plugin's record marks, if there are any. `old` is the replaced version.
    pub(crate) fn migrate(&mut self, name: &str, old: Option<Weak<Plugin>>) {
        let data = &self.managed(name).record.data;
        let marked: Vec<_> =
            data.types.iter().filter(|name| name.upgrading).filter_map(|name| name.r#type.clone()).collect();
        if marked.is_empty() {
            return;
        }
        let (plugin, digest) = (name.to_owned(), data.digest.clone());
        let (service, registry, events) = (self.service.clone(), self.registry.clone(), self.events.clone());
        let patience = self.options.limits.drain;
        self.work.spawn(async move {
            let begun = Instant::now();
            while old.as_ref().is_some_and(|old| old.strong_count() > 0) && begun.elapsed() < patience {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
            let types = store_upgraded(&service, &registry, &digest, marked).await;
            // An error means that the server is stopping; the mark is still there when it starts again.
            let _ = events.send(Event::Migrated(Migrated { plugin, digest, types })).await;
        });
    }

    /// Removes the marks of upgraded types.
    pub(crate) async fn migrated(&mut self, done: Migrated) {
        if self.managed(&done.plugin).record.data.digest != done.digest {
            // Another version serves by now, and starts its own upgrade.
            return;
        }
        let mut changed = false;
        for name in &mut self.managed(&done.plugin).record.data.types {
            if name.upgrading && name.r#type.as_ref().is_some_and(|t| done.types.contains(t)) {
                name.upgrading = false;
                changed = true;
            }
        }
        if changed {
            self.write_record(&done.plugin).await;
        }
    }
}

/// Upgrades stored resources; returns the types that are completely upgraded.
async fn store_upgraded(
    service: &ResourceService,
    registry: &Arc<ArcSwap<Registry>>,
    digest: &str,
    marked: Vec<pb::Type>,
) -> Vec<pb::Type> {
    let mut done = Vec::new();
    for marked_name in marked {
        let kind = registry.load().get(&marked_name).cloned();
        let Some(kind) = kind.filter(|kind| kind.owner.plugin().is_some_and(|plugin| plugin.digest() == digest)) else {
            continue;
        };
        let name = types::gvk(&marked_name);
        match service.upgrade_stored(&kind, MAX_NAMED_OBJECTS).await {
            Ok(report) if report.failures.is_empty() => {
                tracing::info!(r#type = name, upgraded = report.older, of = report.seen, "stored data is upgraded");
                done.push(marked_name);
            }
            Ok(report) => tracing::error!(
                r#type = name,
                "stored data of an older schema version could not be upgraded, and cannot be read: {}; \
                 load a plugin that can upgrade it",
                report.failures.join("; ")
            ),
            Err(e) => tracing::error!(r#type = name, "{}; the next start tries again", e.message),
        }
    }
    done
}
