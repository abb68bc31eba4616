//! Pages: what the resource of each plugin says at this moment.

use std::sync::Arc;

use mortise_plugin_host::{HealthState, Plugin};
use mortise_resource::{
    data,
    pb::{self, Condition, condition::State},
};

use crate::{
    files::folder,
    gc::REMOVED,
    load::stage::{Failure, Stage},
    resources::plugin_resources::{self, PluginRecord, condition},
    task::{Managed, ManagerTask, short},
};

impl ManagerTask {
    /// Notes a failure in a plugin's page.
    pub(crate) async fn failed(&mut self, about: &str, failure: Failure, digest: String) {
        self.sandbox.count_refused(about);
        let serves = match self.registry.load().plugin(about) {
            Some(plugin) => format!("version {} ({}) goes on serving", plugin.version(), short(plugin.digest())),
            None => "nothing of it serves".to_owned(),
        };
        let managed = self.managed(about);
        managed.last_failure = Some(data::inspect_response::Failure {
            reason: failure.reason.to_owned(),
            message: failure.message.clone(),
            stage: failure.stage.reason().to_owned(),
            digest,
            at: Some(plugin_resources::now()),
        });
        let removed = managed.removed;
        let text = format!("while {}: {}; {serves}", failure.stage.reason().to_lowercase(), failure.message);
        if removed {
            let text = format!("{} {text}; what is stored can be read and deleted, not written", failure.reason);
            return self.set_loaded(about, State::False, REMOVED, text).await;
        }
        self.set_loaded(about, State::False, failure.reason, text).await;
    }

    /// A name for the page of a file, that no other page has.
    pub(crate) fn name_for(&self, file: &str) -> String {
        let stem = folder::resource_name(file);
        let ours =
            |name: &str| self.plugins.get(name).is_none_or(|known| known.only_file && known.page.data.source == file);
        if ours(&stem) {
            return stem;
        }
        let numbered = (2..).map(|n| format!("{stem}-file-{n}"));
        std::iter::once(format!("{stem}-file")).chain(numbered).find(|name| ours(name)).unwrap_or(stem)
    }

    pub(crate) fn managed(&mut self, name: &str) -> &mut Managed {
        self.plugins.entry(name.to_owned()).or_insert_with(|| Managed {
            page: PluginRecord {
                data: data::Plugin::default(),
                loaded: condition("Loaded", State::Unknown, Stage::Compiling.reason(), ""),
                healthy: not_loaded(),
            },
            only_file: false,
            removed: false,
            last_failure: None,
            draining: 0,
        })
    }

    /// Shows where a plugin stands. A store that fails is logged: the plugin is what matters.
    pub(crate) async fn set_loaded(&mut self, name: &str, state: State, reason: &str, message: impl Into<String>) {
        let healthy = healthy(self.registry.load().plugin(name));
        let page = &mut self.managed(name).page;
        page.loaded = condition("Loaded", state, reason, message);
        page.healthy = healthy;
        self.write_record(name).await;
    }

    /// Writes a plugin's page, if it differs from what is written.
    pub(crate) async fn write_record(&mut self, name: &str) {
        if self.starting {
            return;
        }
        if let Some(managed) = self.plugins.get(name)
            && let Err(e) = self.resources.put([(name, &managed.page)]).await
        {
            tracing::error!(plugin = name, "the plugin's resource is not written: {e}");
        }
    }

    /// Writes the health of every plugin, where it changed.
    pub(crate) async fn reflect_health(&mut self) {
        let registry = self.registry.load_full();
        for (name, managed) in &mut self.plugins {
            managed.page.healthy = healthy(registry.plugin(name));
        }
        drop(registry);
        let pages = self.plugins.iter().map(|(name, managed)| (name.as_str(), &managed.page));
        if let Err(e) = self.resources.put(pages).await {
            tracing::error!("the health of plugins is not written: {e}");
        }
    }

    /// The resource of a plugin.
    pub(crate) fn resource(&self, name: &str) -> Option<pb::Resource> {
        self.resources.resource(name).cloned()
    }
}

fn not_loaded() -> Condition {
    condition("Healthy", State::Unknown, "NotLoaded", "")
}

/// The condition `Healthy`. It changes with the state only, not with every fault.
fn healthy(plugin: Option<&Arc<Plugin>>) -> Condition {
    let Some(plugin) = plugin else { return not_loaded() };
    let report = plugin.health().report();
    let (state, reason) = match report.state {
        HealthState::Healthy => return condition("Healthy", State::True, "Healthy", ""),
        HealthState::Probation => (State::Unknown, "Probation"),
        HealthState::Quarantined => (State::False, "Quarantined"),
    };
    let hooks = report.hooks.iter().filter(|hook| hook.state != HealthState::Healthy);
    let text: Vec<_> = hooks.map(|hook| format!("hook {} {}", hook.hook, hook.last_fault)).collect();
    condition("Healthy", state, reason, text.join("; "))
}
