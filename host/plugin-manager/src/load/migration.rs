//! Upgrades stored resources from older schema versions, in the background, once a plugin serves.
//!
//! The plugin's record names these types (`upgrading`), so that a restart continues. The work begins when the calls in
//! replaced versions have ended, which might still write in an old schema version. After [`Limits::drain`] it begins
//! anyway; then it is done again when these calls have ended, and the mark stays until then. Readers do not wait for
//! it: a read upgrades each resource of an older schema version, whenever it was stored.
//!
//! [`Limits::drain`]: crate::options::Limits::drain

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use mortise_resource::{data, pb, types};
use mortise_service::ResourceService;
use mortise_service::registry::Registry;
use tokio::time::Instant;

use crate::{
    event::{Event, Migrated},
    state::ManagerState,
};

/// Most objects that the log names as not upgraded.
const MAX_NAMED_OBJECTS: usize = 10;

/// Interval of checks whether replaced versions are gone, before [`Limits::drain`] has passed, and after it.
///
/// [`Limits::drain`]: crate::options::Limits::drain
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
const LATE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The types as served now, marked if resources of an older schema version may be stored.
pub(crate) fn mark_for_upgrade(mut now: Vec<data::PluginType>, before: &[data::PluginType]) -> Vec<data::PluginType> {
    for entry in &mut now {
        let known = before.iter().find(|known| known.r#type == entry.r#type);
        entry.upgrading = known.is_some_and(|known| known.upgrading || known.schema_version < entry.schema_version);
    }
    now
}

impl ManagerState {
    /// Starts the upgrade of the types that the plugin's record marks, if there are any.
    pub(crate) fn migrate(&mut self, name: &str) {
        let managed = self.managed(name);
        let replaced = managed.replaced.clone();
        let data = &managed.record.data;
        let marked: Vec<_> =
            data.types.iter().filter(|name| name.upgrading).filter_map(|name| name.r#type.clone()).collect();
        if marked.is_empty() {
            return;
        }
        let (plugin, digest) = (name.to_owned(), data.digest.clone());
        let (service, registry, events) = (self.service.clone(), self.registry.clone(), self.events.clone());
        let patience = self.options.limits.drain;
        self.work.spawn(async move {
            let ended = || replaced.iter().all(|old| old.strong_count() == 0);
            let upgrade = || store_upgraded(&service, &registry, &digest, &marked);
            let types = upgrade_until_ended(ended, patience, upgrade).await;
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

/// Upgrades once the calls in replaced versions have ended. After `patience` it upgrades without waiting for them, and
/// again at their end. Returns the result of the last upgrade, which found all writes of these calls.
async fn upgrade_until_ended<T, F>(ended: impl Fn() -> bool, patience: Duration, mut upgrade: impl FnMut() -> F) -> T
where
    F: Future<Output = T>,
{
    let begun = Instant::now();
    while !ended() && begun.elapsed() < patience {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    loop {
        // The upgrade reads the store as of its beginning.
        let is_last = ended();
        let upgraded = upgrade().await;
        if is_last {
            return upgraded;
        }
        while !ended() {
            tokio::time::sleep(LATE_CHECK_INTERVAL).await;
        }
    }
}

/// Upgrades stored resources; returns the types that are completely upgraded.
async fn store_upgraded(
    service: &ResourceService,
    registry: &Arc<ArcSwap<Registry>>,
    digest: &str,
    marked: &[pb::Type],
) -> Vec<pb::Type> {
    let mut done = Vec::new();
    for marked_name in marked {
        let kind = registry.load().get(marked_name).cloned();
        let Some(kind) = kind.filter(|kind| kind.owner.plugin().is_some_and(|plugin| plugin.digest() == digest)) else {
            continue;
        };
        let name = types::gvk(marked_name);
        match service.upgrade_stored(&kind, MAX_NAMED_OBJECTS).await {
            Ok(report) if report.failures.is_empty() => {
                tracing::info!(r#type = name, upgraded = report.older, of = report.seen, "stored data is upgraded");
                done.push(marked_name.clone());
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn types_stay_marked_until_an_upgrade_that_began_after_the_calls_of_replaced_versions() {
        let (ended, upgrades) = (AtomicBool::new(false), AtomicUsize::new(0));
        let work = upgrade_until_ended(
            || ended.load(Relaxed),
            Duration::from_secs(10),
            || async { upgrades.fetch_add(1, Relaxed) + 1 },
        );
        tokio::pin!(work);
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut work).await.is_err());
        assert_eq!(upgrades.load(Relaxed), 0, "it waits for the calls");
        assert!(tokio::time::timeout(Duration::from_secs(3600), &mut work).await.is_err());
        assert_eq!(upgrades.load(Relaxed), 1, "and upgrades without waiting, but is not done");
        ended.store(true, Relaxed);
        assert_eq!(work.await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn types_are_upgraded_once_if_the_calls_of_replaced_versions_end_in_time() {
        let (begun, upgrades) = (Instant::now(), AtomicUsize::new(0));
        let ended = || begun.elapsed() >= Duration::from_secs(1);
        let upgrade = || async { upgrades.fetch_add(1, Relaxed) };
        upgrade_until_ended(ended, Duration::from_secs(10), upgrade).await;
        assert_eq!((begun.elapsed().as_secs(), upgrades.load(Relaxed)), (1, 1));
    }
}
