//! Settings of plugins follow the configuration's file: a plugin with changed settings is loaded again, through the
//! same stages as a new component.

use std::{sync::Arc, time::Duration};

use crate::{
    commands::load::{EndedLoad, OperatorLoad},
    core::Core,
    load::stage::{Failure, Stage},
    options::ConfigFault,
    retry::retry_pause,
    state::ManagerState,
};

impl Core {
    /// Reads the configuration again if its file has changed and settled. Returns the time until the next look.
    pub(crate) async fn look_at_config(self: &Arc<Self>) -> Option<Duration> {
        let mut state = self.lock().await;
        if let Err(wait) = state.config.changed(self.options.limits.settle) {
            return wait;
        }
        // The log has the fault.
        let _ = self.apply_config(&mut state).await;
        None
    }

    /// Reads the configuration again at once, changed or not.
    pub(crate) async fn reload_config(self: &Arc<Self>) -> Result<(), ConfigFault> {
        let mut state = self.lock().await;
        state.config.note_read();
        self.apply_config(&mut state).await
    }

    async fn apply_config(self: &Arc<Self>, state: &mut ManagerState) -> Result<(), ConfigFault> {
        match (self.options.config.read)() {
            Err(fault) => {
                state.config_fault(fault.clone()).await;
                return Err(fault);
            }
            Ok(settings) => state.settings = settings,
        }
        for name in state.plugins_to_set().await {
            let core = self.clone();
            self.work.spawn(async move { core.reload(&name).await });
        }
        state.retry_refused();
        state.warn_of_unknown_settings();
        Ok(())
    }

    /// Loads the serving component again with the current settings, unless it has them by then. After a fault that may
    /// pass it is tried again, with growing pauses, until other settings come.
    async fn reload(&self, name: &str) {
        let number = self.lock().await.config.next_reload(name);
        for failures in 0.. {
            if !self.try_reload(name, number).await {
                return;
            }
            tokio::time::sleep(retry_pause(failures)).await;
        }
    }

    /// Loads the serving component once. Returns whether it failed for a fault that may pass.
    async fn try_reload(&self, name: &str, number: u64) -> bool {
        let mut load = OperatorLoad::begin(self, name).await;
        let state = &mut load.state;
        if state.registry.load().plugin(name).is_none_or(|plugin| plugin.has_settings(&state.settings))
            || state.config.has_later_reload(name, number)
        {
            return false;
        }
        let digest = state.managed(name).record.data.digest.clone();
        match state.last_served_request(name) {
            Ok(request) => {
                let EndedLoad { mut state, outcome, _turn, .. } = load.run(self, request).await;
                match outcome {
                    Ok(_) => false,
                    Err(refusal) => state.refuse_settings(name, refusal.failure, digest).await,
                }
            }
            Err(e) => {
                let what = format!("the copy in data_dir cannot be read: {e}");
                state.refuse_settings(name, Failure::new(Stage::Waiting, "HostFault", what), digest).await
            }
        }
    }
}

impl ManagerState {
    /// Shows a failure. Returns whether it may pass.
    async fn refuse_settings(&mut self, name: &str, failure: Failure, digest: String) -> bool {
        let may_pass = failure.may_pass();
        let next = if may_pass { "; they are tried again" } else { "" };
        tracing::error!("plugin {name}: its new settings are rejected: {}{next}", failure.message);
        self.config.unsettled.insert(name.to_owned());
        self.failed(name, failure, Some(digest)).await;
        may_pass
    }

    /// Warns of settings for plugins that are not loaded.
    pub(crate) fn warn_of_unknown_settings(&self) {
        let registry = self.registry.load();
        for name in self.settings.names().filter(|name| registry.plugin(name).is_none()) {
            tracing::warn!("plugin.{name} is configured, but no plugin of that name is loaded; check the name");
        }
    }

    async fn config_fault(&mut self, fault: ConfigFault) {
        tracing::error!("the changed configuration is rejected and has no effect: {}", fault.what);
        if let Some(plugin) = fault.plugin.filter(|plugin| self.plugins.contains_key(plugin)) {
            self.config.unsettled.insert(plugin.clone());
            self.failed(&plugin, Failure::new(Stage::Waiting, "BadSettings", fault.what), None).await;
        }
    }

    /// The plugins with changed settings. Plugins that rejected new settings, and now have the old ones again, are
    /// shown as serving.
    async fn plugins_to_set(&mut self) -> Vec<String> {
        let unsettled = std::mem::take(&mut self.config.unsettled);
        let registry = self.registry.load_full();
        let serving: Vec<(String, bool)> = registry
            .plugins()
            .iter()
            .map(|plugin| (plugin.name().to_owned(), plugin.has_settings(&self.settings)))
            .collect();
        drop(registry);
        let mut changed = Vec::new();
        for (name, same) in serving {
            if !same {
                changed.push(name);
            } else if unsettled.contains(&name) {
                let source = self.managed(&name).record.data.source.clone();
                if !self.files.get(&source).is_some_and(|file| file.is_rejected()) {
                    self.serving(&name).await;
                }
            }
        }
        changed
    }
}
