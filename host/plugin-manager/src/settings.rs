//! Settings of plugins follow the configuration's file: a plugin whose settings changed is brought in anew, through the
//! same stages as a new component.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    files::folder::Stamp,
    load::request::{LoadReason, LoadRequest},
    load::stage::{Failure, Stage},
    manager::ConfigFault,
    task::ManagerTask,
};

/// What the configuration's file looked like.
pub(crate) struct ConfigWatch {
    path: Option<PathBuf>,
    acted: Option<Stamp>,
    pending: Option<(Option<Stamp>, Instant)>,
    /// Plugins whose settings could not be brought in.
    unsettled: BTreeSet<String>,
}

impl ConfigWatch {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let acted = path.and_then(Stamp::at);
        Self { path: path.map(Path::to_owned), acted, pending: None, unsettled: BTreeSet::new() }
    }

    /// Whether the file has changed and settled; else when to look again.
    fn changed(&mut self, settle: Duration) -> Result<(), Option<Duration>> {
        let Some(path) = &self.path else { return Err(None) };
        let now = Stamp::at(path);
        // A file that is away for a moment is being replaced; one that stays away changes nothing.
        if now == self.acted || now.is_none() {
            self.pending = None;
            return Err(None);
        }
        let since = match self.pending {
            Some((pending, since)) if pending == now => since,
            _ => Instant::now(),
        };
        self.pending = Some((now, since));
        match settle.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => Err(Some(left)),
            None => {
                (self.acted, self.pending) = (now, None);
                Ok(())
            }
        }
    }
}

impl ManagerTask {
    /// Reads the configuration again if its file has changed and settled. Answers when to look again.
    pub(crate) async fn look_at_config(&mut self) -> Option<Duration> {
        if let Err(wait) = self.config.changed(self.options.settle) {
            return wait;
        }
        match (self.options.config.read)() {
            Err(fault) => self.config_fault(fault).await,
            Ok(settings) => {
                self.settings = settings;
                self.apply_settings().await;
                self.warn_of_unknown_settings();
            }
        }
        None
    }

    async fn config_fault(&mut self, fault: ConfigFault) {
        tracing::error!("the changed configuration is not used, everything stays as it is: {}", fault.what);
        if let Some(plugin) = fault.plugin.filter(|plugin| self.plugins.contains_key(plugin)) {
            self.config.unsettled.insert(plugin.clone());
            self.failed(&plugin, Failure::new(Stage::Waiting, "BadSettings", fault.what), String::new()).await;
        }
    }

    async fn apply_settings(&mut self) {
        let unsettled = std::mem::take(&mut self.config.unsettled);
        let registry = self.registry.load_full();
        let serving: Vec<(String, bool)> = registry
            .plugins()
            .iter()
            .map(|plugin| (plugin.name().to_owned(), plugin.is_set_to(&self.settings)))
            .collect();
        drop(registry);
        for (name, same) in serving {
            if !same {
                self.reload(&name).await;
            } else if unsettled.contains(&name) {
                let source = self.managed(&name).page.data.source.clone();
                if !self.files.get(&source).is_some_and(|known| known.failed) {
                    self.serving(&name).await;
                }
            }
        }
        self.retry_refused();
    }

    /// Brings the component that serves in anew, with the settings as they are now.
    async fn reload(&mut self, name: &str) {
        let (source, digest) = {
            let data = &self.managed(name).page.data;
            (data.source.clone(), data.digest.clone())
        };
        let outcome = match self.components.get(name, &digest) {
            Err(e) => Err(Failure::new(Stage::Waiting, "HostFault", format!("the copy in data_dir: {e}")).into()),
            Ok(bytes) => {
                let request = LoadRequest {
                    source,
                    bytes,
                    digest: digest.clone(),
                    reason: LoadReason::Reload,
                    plugin_before: Some(name.to_owned()),
                };
                self.load(request).await
            }
        };
        if let Err(refusal) = outcome {
            tracing::error!("plugin {name}: its new settings are not used: {}", refusal.failure.message);
            self.config.unsettled.insert(name.to_owned());
            self.failed(name, refusal.failure, digest).await;
        }
    }
}
