//! Keeps the running controllers equal to those that the serving plugins declare.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use mortise_controller::{Controllers, ControllersError, Leases};
use mortise_plugin_host::{Plugin, Reconciler};
use mortise_resource::{data, types};
use mortise_service::ResourceService;
use mortise_service::registry::{Owner, Registry};
use mortise_store::Backend;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::{AbortHandle, JoinHandle, JoinSet},
};

use mortise_service::kv::{PluginKv, Quota};

use super::{
    definition::{definition, pairs, whole_name},
    guest::Controller,
    host::ControllerContext,
    report::{ControllerDetails, report},
    source::ServiceSource,
};
use crate::{failpoint, work::Work};

/// The state of the hooks `reconcile` in which a controller is paused.
const RECONCILE: &str = "reconcile";

/// Runs the controllers of the host and of the plugins that serve. Cheap to clone.
#[derive(Clone)]
pub struct ControllerManager(Arc<Inner>);

struct Inner {
    controllers: Controllers,
    service: ResourceService,
    registry: Arc<ArcSwap<Registry>>,
    plugin_kv: PluginKv,
    /// Plugins with controllers, by name.
    attached: Mutex<BTreeMap<String, Attached>>,
    swapped: Arc<Notify>,
    work: Work,
}

/// A plugin with running controllers.
struct Attached {
    plugin: Weak<Plugin>,
    /// Whole names of its controllers.
    names: Vec<Arc<str>>,
    /// Pauses them while they are quarantined.
    health: AbortHandle,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.health.abort();
    }
}

impl ControllerManager {
    /// Makes a manager without controllers, which run while `leases` grants their lease.
    #[must_use]
    pub fn new(
        service: ResourceService,
        backend: Arc<dyn Backend>,
        registry: Arc<ArcSwap<Registry>>,
        quota: Quota,
        leases: Arc<dyn Leases>,
    ) -> Self {
        Self(Arc::new(Inner {
            controllers: Controllers::new(Arc::new(ServiceSource::new(service.clone())), leases),
            plugin_kv: PluginKv::new(backend, quota),
            attached: Mutex::default(),
            swapped: Arc::default(),
            work: Work::new(1),
            service,
            registry,
        }))
    }

    /// Starts the host's own controllers, and starts and ends those of plugins with their plugins, until
    /// [`ControllerManager::stop`].
    ///
    /// # Errors
    /// None in a build that passes its tests: the host's controllers are fixed.
    pub fn start(&self) -> Result<JoinHandle<()>, ControllersError> {
        self.0.controllers.register(self.0.service.reaper())?;
        self.0.controllers.register(self.0.service.ownership())?;
        let manager = self.clone();
        Ok(tokio::spawn(async move {
            loop {
                let swapped = manager.0.swapped.clone();
                let changed = swapped.notified();
                manager.follow().await;
                tokio::select! {
                    () = changed => {}
                    () = manager.0.work.given_up() => resume_unwind(Box::new(
                        "the task that pauses quarantined controllers panicked before; the log says where",
                    )),
                }
            }
        }))
    }

    /// The notification to send when the registry was swapped.
    #[must_use]
    pub fn swapped(&self) -> Arc<Notify> {
        self.0.swapped.clone()
    }

    /// Ends every controller: running reconciles have until their drain deadline.
    pub async fn stop(&self) {
        self.0.attached.lock().clear();
        self.0.controllers.shutdown().await;
    }

    /// The reports of every controller, or of those of one plugin, in the order of their names.
    #[must_use]
    pub fn reports(&self, plugin: &str) -> Vec<data::ControllerReport> {
        let registry = self.0.registry.load();
        let mut reports = Vec::new();
        for status in self.0.controllers.statuses() {
            let about = match status.name.split_once('/') {
                None => {
                    let resource_type =
                        if &*status.name == "ownership" { types::ownership_check() } else { types::tombstone() };
                    ControllerDetails { plugin: "", manages: resource_type.to_pb(), watches: Vec::new() }
                }
                Some((plugin, name)) => {
                    let declared = registry.plugin(plugin).map(|p| &p.manifest().controllers);
                    let decl = declared.and_then(|all| all.iter().find(|decl| *decl.name == *name));
                    ControllerDetails {
                        plugin,
                        manages: decl.map(|decl| decl.manages.to_pb()).unwrap_or_default(),
                        watches: decl.iter().flat_map(|decl| &decl.watches).map(|watch| watch.kind.to_pb()).collect(),
                    }
                }
            };
            if plugin.is_empty() || about.plugin == plugin {
                reports.push(report(status.clone(), about));
            }
        }
        reports
    }

    /// Sets the gauges that change with time alone.
    pub fn observe(&self) {
        self.0.controllers.observe();
    }

    /// Starts, replaces and ends controllers until they match the serving plugins.
    async fn follow(&self) {
        let registry = self.0.registry.load_full();
        let mut serving: BTreeMap<String, Arc<Plugin>> = BTreeMap::new();
        for kind in registry.types() {
            if let Owner::Plugin(plugin) = &kind.owner
                && plugin.controllers().next().is_some()
            {
                serving.entry(plugin.name().to_owned()).or_insert_with(|| plugin.clone());
            }
        }
        drop(registry);
        let gone: Vec<(String, Attached)> = {
            let mut attached = self.0.attached.lock();
            let names: Vec<String> = attached.keys().filter(|name| !serving.contains_key(*name)).cloned().collect();
            names.into_iter().filter_map(|name| attached.remove_entry(&name)).collect()
        };
        // In parallel: each change waits for running reconciles.
        let mut changes = JoinSet::new();
        for (name, gone) in gone {
            let manager = self.clone();
            changes.spawn(async move {
                manager.end(&gone.names).await;
                manager.0.plugin_kv.forget(&name).await;
            });
        }
        for (name, plugin) in serving {
            let known =
                self.0.attached.lock().get(&name).is_some_and(|known| known.plugin.as_ptr() == Arc::as_ptr(&plugin));
            if !known {
                let manager = self.clone();
                changes.spawn(async move { manager.attach(&plugin).await });
            }
        }
        // Passes on a panic of one of them.
        changes.join_all().await;
    }

    /// Starts the controllers of a plugin that is new, or new in this version. Controllers of the same name take over
    /// the queue.
    async fn attach(&self, plugin: &Arc<Plugin>) {
        let Some(reconciler) = Reconciler::new(plugin).map(Arc::new) else { return };
        failpoint::reached("starting controllers");
        let before = self.0.attached.lock().remove(plugin.name());
        let old = before.as_ref().map(|before| before.names.clone()).unwrap_or_default();
        drop(before);
        let mut names = Vec::new();
        for decl in plugin.controllers() {
            let name = whole_name(plugin.name(), &decl.name);
            let shared = ControllerContext::new(
                self.0.service.clone(),
                self.0.plugin_kv.clone(),
                plugin.manifest().name.clone(),
                name.clone(),
                decl.placement,
            );
            let controller = Arc::new(Controller {
                reconciler: reconciler.clone(),
                name: decl.name.clone(),
                initializes: decl.initializes,
                shared,
            });
            let made = definition(plugin.name(), decl, controller, &self.0.registry, plugin.health().backoff_range());
            let started = if old.contains(&name) {
                // The previous version may have been paused for its faults; this one has none yet.
                let replaced = self.0.controllers.replace(made).await;
                replaced.and_then(|()| self.0.controllers.resume(&name))
            } else {
                self.0.controllers.register(made)
            };
            match started {
                Ok(()) => names.push(name),
                Err(e) => tracing::error!(
                    plugin = plugin.name(),
                    controller = &*decl.name,
                    "the controller does not run: {e}"
                ),
            }
        }
        let lost: Vec<_> = old.into_iter().filter(|name| !names.contains(name)).collect();
        self.end(&lost).await;
        let health = self.0.work.spawn(self.clone().follow_health(Arc::downgrade(plugin), names.clone()));
        let attached = Attached { plugin: Arc::downgrade(plugin), names, health };
        self.0.attached.lock().insert(plugin.name().to_owned(), attached);
    }

    async fn end(&self, names: &[Arc<str>]) {
        for name in names {
            if let Err(e) = self.0.controllers.remove(name).await {
                tracing::debug!(controller = &**name, "the controller cannot be ended: {e}");
            }
        }
    }

    /// Pauses a plugin's controllers while their hook is quarantined, until the plugin is gone.
    async fn follow_health(self, plugin: Weak<Plugin>, names: Vec<Arc<str>>) {
        failpoint::reached("following quarantine");
        let Some(changes) = plugin.upgrade().map(|plugin| plugin.health().subscribe()) else { return };
        let (controllers, names) = (&self.0.controllers, &names);
        let set_paused = |reason: Option<String>| async move {
            for name in names {
                // A removed controller needs neither.
                let _ = match &reason {
                    Some(reason) => controllers.pause(name, reason.clone()).await,
                    None => controllers.resume(name),
                };
            }
        };
        follow_quarantine(changes, || plugin.upgrade().map(|plugin| quarantine(&plugin)), set_paused).await;
    }
}

/// Calls `set_paused` with a reason when a quarantine begins, and with `None` when its time is over, so that the first
/// reconcile is the trial, or when it is lifted. `quarantined` returns the remaining time and the reason, and is called
/// again at each of the `changes`, which include those of other hooks. Ends when `quarantined` or `changes` ends.
async fn follow_quarantine<F: Future<Output = ()>>(
    mut changes: watch::Receiver<u64>,
    quarantined: impl Fn() -> Option<Option<(Duration, String)>>,
    set_paused: impl Fn(Option<String>) -> F,
) {
    let mut paused = false;
    while let Some(now) = quarantined() {
        let wait = now.as_ref().map(|(wait, _)| *wait);
        if wait.is_some() != paused {
            paused = wait.is_some();
            set_paused(now.map(|(wait, fault)| format!("quarantined for {wait:?}: {fault}"))).await;
        }
        tokio::select! {
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// The remaining quarantine of a plugin's reconcilers, and its reason; `None` without a quarantine, and during the
/// trial.
fn quarantine(plugin: &Plugin) -> Option<(Duration, String)> {
    let report = plugin.health().report();
    let hook = report.hooks.into_iter().find(|hook| hook.hook == RECONCILE)?;
    hook.retry_in.filter(|_| !hook.on_trial).map(|wait| (wait, hook.last_fault))
}

/// The error for controllers that would wake each other for ever, in Consul's words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CircularWatch(String);

/// Rejects a plugin that cannot run together with the serving ones: two controllers that each watch the type that the
/// other manages would wake each other for ever.
///
/// # Errors
/// The circle of watches.
pub(crate) fn check(registry: &Registry, plugin: &Arc<Plugin>) -> Result<(), CircularWatch> {
    let mut others: BTreeMap<&str, &Arc<Plugin>> = BTreeMap::new();
    for kind in registry.types() {
        if let Owner::Plugin(other) = &kind.owner
            && other.name() != plugin.name()
        {
            others.insert(other.name(), other);
        }
    }
    let all = others.into_values().flat_map(|other| pairs(other)).chain(pairs(plugin));
    mortise_plugin_host::controllers::find_cycle(all).map_or(Ok(()), |circle| Err(CircularWatch(circle)))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_quarantine_lasts_whatever_else_changes_and_ends_with_its_time_or_when_it_is_lifted() {
        let now = Arc::new(Mutex::new(Some(None)));
        let (changes, (calls, mut heard)) = (watch::Sender::new(0), mpsc::unbounded_channel());
        let following = tokio::spawn(follow_quarantine(
            changes.subscribe(),
            {
                let now = now.clone();
                move || now.lock().clone()
            },
            move |reason: Option<String>| {
                calls.send(reason).unwrap();
                std::future::ready(())
            },
        ));
        let change = async |to| {
            *now.lock() = to;
            changes.send_modify(|count| *count += 1);
            for _ in 0..9 {
                tokio::task::yield_now().await;
            }
        };
        let quarantined = |ms| Some(Some((Duration::from_millis(ms), "trapped".to_owned())));
        change(Some(None)).await;
        assert!(heard.try_recv().is_err());
        change(quarantined(3_600_000)).await;
        assert_eq!(heard.try_recv().unwrap().as_deref(), Some("quarantined for 3600s: trapped"));
        change(quarantined(3_500_000)).await;
        assert!(heard.try_recv().is_err(), "another hook's health does not matter");
        change(Some(None)).await;
        assert_eq!(heard.try_recv().unwrap(), None, "the quarantine was lifted");
        change(quarantined(1)).await;
        assert!(heard.try_recv().unwrap().is_some());
        *now.lock() = Some(None);
        assert_eq!(heard.recv().await.unwrap(), None, "the time of the quarantine is over");
        change(None).await;
        following.await.unwrap();
    }
}
