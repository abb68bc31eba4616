//! Records: the current content of each plugin's resource.

use std::sync::Arc;

use mortise_plugin_host::{Grant, GrantRequest, Grants, HealthState, Plugin};
use mortise_resource::{
    data,
    pb::{self, Condition, condition::State},
};

use crate::{
    files::folder,
    load::{
        migration,
        request::{LoadReason, LoadRequest},
        stage::{Failure, Stage},
        types::types_of,
    },
    plugin_resources::{self, condition},
    state::{ManagerState, plugin::REMOVED, short},
    trust::TrustDecision,
};

impl ManagerState {
    /// Shows a failure in a plugin's record.
    pub(crate) async fn failed(&mut self, about: &str, failure: Failure, digest: Option<String>) {
        self.sandbox.count_refused(about);
        let serves = match self.registry.load().plugin(about) {
            Some(plugin) => format!("version {} ({}) continues to serve", plugin.version(), short(plugin.digest())),
            None => "no version of it serves".to_owned(),
        };
        let managed = self.managed(about);
        managed.last_failure = Some(data::inspect_response::Failure {
            reason: failure.reason.to_owned(),
            message: failure.message.clone(),
            stage: failure.stage.reason().to_owned(),
            digest: digest.unwrap_or_default(),
            at: Some(plugin_resources::now()),
        });
        let removed = managed.is_removed();
        let text = format!("while {}: {}; {serves}", failure.stage.reason().to_lowercase(), failure.message);
        if removed {
            let text = format!("{} {text}; stored resources can be read and deleted, but not written", failure.reason);
            return self.set_loaded(about, State::False, REMOVED, text).await;
        }
        self.set_loaded(about, State::False, failure.reason, text).await;
    }

    /// A free name for the record of a file.
    pub(crate) fn name_for(&self, file: &str) -> String {
        let stem = folder::resource_name(file);
        let ours = |name: &str| {
            self.plugins.get(name).is_none_or(|known| known.is_file_only() && known.record.data.source == file)
        };
        if ours(&stem) {
            return stem;
        }
        let numbered = (2..).map(|n| format!("{stem}-file-{n}"));
        std::iter::once(format!("{stem}-file")).chain(numbered).find(|name| ours(name)).unwrap_or(stem)
    }

    /// Records the component that serves from now on.
    pub(crate) fn record_loaded(
        &mut self,
        plugin: &Plugin,
        request: &LoadRequest,
        decision: &TrustDecision,
        before: &[data::PluginType],
    ) {
        let types = migration::mark_for_upgrade(types_of(&self.registry.load(), plugin.name()), before);
        let was_there = self.registry.load().plugin(plugin.name()).is_some();
        self.set_source(plugin.name(), &request.source);
        let managed = self.managed(plugin.name());
        managed.serve();
        let data = &mut managed.record.data;
        let changed = describe(data, plugin, request, decision, types);
        if changed || !was_there || data.loaded_at.is_none() {
            data.loaded_at = Some(plugin_resources::now());
        }
        match &request.reason {
            LoadReason::Reload => {}
            LoadReason::Rollback { held } => {
                data.rolled_back = held.is_some();
                data.held_digest = held.clone().unwrap_or_default();
            }
            LoadReason::Source | LoadReason::Install(_) => managed.follow_source(),
        }
    }

    /// Shows that a plugin serves.
    pub(crate) async fn serving(&mut self, name: &str) {
        let data = &self.managed(name).record.data;
        let mut text = format!("version {} ({})", data.version, short(&data.digest));
        if data.rolled_back {
            text.push_str(&format!(", rolled back from {}", short(&data.held_digest)));
        }
        self.set_loaded(name, State::True, Stage::Serving.reason(), text).await;
    }

    /// Shows that a plugin is disabled.
    pub(crate) async fn disabled(&mut self, name: &str, more: &str) {
        let text = format!("disabled; stored resources can be read and deleted, but not written{more}");
        self.set_loaded(name, State::False, "Disabled", text).await;
    }

    /// Sets the condition `Loaded`. A failed write is only logged, since the plugin matters more.
    pub(crate) async fn set_loaded(&mut self, name: &str, state: State, reason: &str, message: impl Into<String>) {
        let healthy = healthy(self.registry.load().plugin(name));
        let record = &mut self.managed(name).record;
        record.loaded = condition("Loaded", state, reason, message);
        record.healthy = healthy;
        self.write_record(name).await;
    }

    /// Writes a plugin's record, if it has changed.
    pub(crate) async fn write_record(&mut self, name: &str) {
        if self.starting {
            return;
        }
        if let Some(managed) = self.plugins.get(name) {
            // A fault is in the log.
            let _ = self.resources.put_logged([(name, &managed.record)]).await;
        }
    }

    /// Writes the health of every plugin, where it changed.
    pub(crate) async fn reflect_health(&mut self) {
        let registry = self.registry.load_full();
        for (name, managed) in &mut self.plugins {
            managed.record.healthy = healthy(registry.plugin(name));
        }
        drop(registry);
        let records = self.plugins.iter().map(|(name, managed)| (name.as_str(), &managed.record));
        // A fault is in the log.
        let _ = self.resources.put_logged(records).await;
    }

    /// The resource of a plugin.
    pub(crate) fn resource(&self, name: &str) -> Option<pb::Resource> {
        self.resources.resource(name).cloned()
    }
}

/// Describes a component in its plugin's record. Returns whether it is another one than before.
pub(super) fn describe(
    data: &mut data::Plugin,
    plugin: &Plugin,
    request: &LoadRequest,
    decision: &TrustDecision,
    types: Vec<data::PluginType>,
) -> bool {
    let changed = data.digest != request.digest;
    if changed && !data.digest.is_empty() && !data.version.is_empty() {
        data.previous_digest = std::mem::take(&mut data.digest);
        data.previous_version = std::mem::take(&mut data.version);
    }
    data.digest.clone_from(&request.digest);
    // The original reason of the trust says more than that the component served.
    if changed || *decision != TrustDecision::Served || data.trust.is_empty() {
        data.trust = decision.describe();
    }
    data.withdrawn = false;
    plugin.version().clone_into(&mut data.version);
    mortise_plugin_host::CONTRACT_VERSION.clone_into(&mut data.contract_version);
    data.size = plugin.size() as u64;
    data.types = types;
    let limits = plugin.limits();
    data.limits = Some(data::PluginLimits {
        memory_bytes: limits.memory_bytes as u64,
        fuel: limits.fuel,
        deadline_ms: limits.deadline_ms,
        concurrency: limits.concurrency as u64,
    });
    let grants = plugin.grants();
    data.grants = grants.iter().map(|grant| grant.to_string()).collect();
    data.requests = requests_shown(plugin, grants);
    changed
}

fn not_loaded() -> Condition {
    condition("Healthy", State::Unknown, "NotLoaded", "")
}

/// The condition `Healthy`. It changes only with the state, not with every fault.
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

/// The grants that a plugin asks for, with those that it has; `None` if it asks for nothing by name.
fn requests_shown(plugin: &Plugin, grants: &Grants) -> Option<data::PluginRequests> {
    let (manifest, missing) = (plugin.manifest(), plugin.missing_limits());
    let (requests, asks_for_reuse) = (manifest.requests.as_ref(), manifest.reuses_instances);
    let has_reuse = grants.includes(&Grant::Reuse);
    if requests.is_none() && !asks_for_reuse && !has_reuse && missing.is_empty() {
        return None;
    }
    let to_data = |request: &GrantRequest| data::PluginRequest {
        grant: request.grant.to_string(),
        reason: request.reason.clone(),
        granted: grants.includes(&request.grant),
    };
    let reuse = asks_for_reuse.then(|| data::PluginRequest {
        grant: Grant::Reuse.to_string(),
        reason: "its hooks are pure".to_owned(),
        granted: has_reuse,
    });
    let limits = missing.into_iter().map(|grant| data::PluginRequest {
        grant,
        reason: "its manifest asks for more than the default".to_owned(),
        granted: false,
    });
    let is_unrequested = |grant: &Grant| match grant {
        Grant::Reuse => !asks_for_reuse,
        grant => requests.is_some_and(|requests| !requests.is_requested(grant)),
    };
    Some(data::PluginRequests {
        requests: requests
            .iter()
            .flat_map(|requests| requests.iter())
            .map(to_data)
            .chain(reuse)
            .chain(limits)
            .collect(),
        unrequested: grants.iter().filter(is_unrequested).map(|grant| grant.to_string()).collect(),
    })
}
