//! The commands that callers of the plugin service give.

pub(crate) mod message;

use std::time::Duration;

use mortise_plugin_host::HealthState;
use mortise_resource::{
    Code, Error, data, name,
    pb::{self, condition::State},
};
use mortise_service::registry::MissingReason;
use tokio::sync::oneshot;

use crate::{
    commands::message::{Command, Pause, Reply},
    files::folder,
    load::request::{LoadReason, LoadRefusal, LoadRequest},
    load::stage::{Failure, Stage},
    task::{BUNDLED, ManagerTask},
};

/// LoadReason long the manager stands still at most.
const MAX_PAUSE: Duration = Duration::from_secs(20);

fn precondition(what: String) -> Error {
    Error::new(Code::FailedPrecondition, what)
}

impl ManagerTask {
    pub(crate) async fn handle(&mut self, command: Command) {
        // A caller that does not wait any more misses its answer, no more.
        match command {
            Command::Install { name, bytes, reply } => drop(reply.send(self.install(&name, bytes).await)),
            Command::Remove(name, reply) => drop(reply.send(self.remove(&name).await)),
            Command::Rollback(name, reply) => drop(reply.send(self.roll_back(&name).await)),
            Command::Reset(name, reply) => drop(reply.send(self.reset(&name).await)),
            Command::Disable(name, reply) => drop(reply.send(self.disable(&name).await)),
            Command::Enable(name, reply) => drop(reply.send(self.enable(&name).await)),
            Command::Inspect(name, reply) => drop(reply.send(self.inspect(&name))),
            Command::Pause(reply) => self.pause(reply).await,
            Command::Drained(drained) => self.drained(drained).await,
            Command::Migrated(migrated) => self.migrated(migrated).await,
        }
    }

    /// Makes no transition for as long as whoever asked holds the answer, and no longer than a while.
    async fn pause(&self, reply: Reply<Pause>) {
        let (until, dropped) = oneshot::channel();
        let still = Pause {
            plugin_dir: self.options.plugin_dir.clone(),
            component_dir: self.options.component_dir.clone(),
            config: self.options.config.path.clone(),
            _until: until,
        };
        if reply.send(Ok(still)).is_ok() && tokio::time::timeout(MAX_PAUSE, dropped).await.is_err() {
            tracing::warn!("a backup holds plugins up for more than {MAX_PAUSE:?}; they go on without it");
        }
    }

    fn page(&self, name: &str) -> Result<&data::Plugin, Error> {
        match self.plugins.get(name) {
            Some(managed) => Ok(&managed.page.data),
            None => Err(Error::not_found(format!("no plugin is named {name:?}"))),
        }
    }

    /// As [`ManagerTask::page`], of something that is a plugin and whose source is there.
    fn owned(&self, name: &str) -> Result<&data::Plugin, Error> {
        let page = self.page(name)?;
        let managed = self.plugins.get(name);
        if managed.is_some_and(|m| m.only_file) {
            return Err(precondition(format!("{} never became a plugin; mend it, or remove it", page.source)));
        }
        if managed.is_some_and(|m| m.removed) {
            let what = if page.disabled {
                "is disabled and its file is gone; put it back, or remove the plugin and install it"
            } else {
                "is removed; install it"
            };
            return Err(precondition(format!("plugin {name:?} {what}")));
        }
        Ok(page)
    }

    fn answer(&self, name: &str) -> Result<pb::Resource, Error> {
        self.resource(name).ok_or_else(|| Error::internal(format!("the resource of plugin {name:?} is not stored")))
    }

    async fn install(&mut self, name: &str, bytes: Vec<u8>) -> Result<(pb::Resource, bool), Error> {
        if let Some(fault) = name::fault(name) {
            return Err(Error::invalid(format!(
                "name invalid: {}",
                fault.replace("a resource name", "a plugin's name")
            )));
        }
        let mut file = format!("{name}.wasm");
        let mut plugin_before = None;
        if let Some(managed) = self.plugins.get(name).filter(|managed| !managed.only_file) {
            let page = &managed.page.data;
            if page.source == BUNDLED && self.options.bundled.iter().any(|(bundled, _)| *bundled == name) {
                let what = "is bundled and switched on; take it out of plugins.bundled to install another";
                return Err(precondition(format!("plugin {name:?} {what}")));
            }
            if page.disabled {
                let what = if managed.removed {
                    " and its file is gone; remove the plugin first"
                } else {
                    "; enable it first"
                };
                return Err(precondition(format!("plugin {name:?} is disabled{what}")));
            }
            if page.source != BUNDLED && self.path(&page.source).exists() {
                file.clone_from(&page.source);
            }
            plugin_before = Some(name.to_owned());
        }
        if let Some(other) = self.files.get(&file).and_then(|known| known.provides.as_deref()).filter(|n| *n != name) {
            return Err(precondition(format!("the file {file} provides plugin {other:?}; remove that one first")));
        }
        let digest = folder::digest(&bytes);
        let request = LoadRequest {
            source: file.clone(),
            bytes,
            digest: digest.clone(),
            reason: LoadReason::Install(name.to_owned()),
            plugin_before: plugin_before.clone(),
        };
        match self.load(request).await {
            Ok(loaded) => {
                let known = self.known(&file);
                known.provides = Some(name.to_owned());
                if let Some(shown) = known.shown.take().filter(|shown| shown != name) {
                    self.forget(&shown).await;
                }
                Ok((self.answer(name)?, loaded.unchanged))
            }
            Err(LoadRefusal { failure, name: own }) => {
                tracing::warn!(plugin = name, reason = failure.reason, "an install is refused: {}", failure.message);
                match (plugin_before, own) {
                    (Some(plugin), _) => self.failed(&plugin, failure.clone(), digest).await,
                    // A page that this attempt began, or that is about what the file holds.
                    (None, Some(own)) if self.began(&own, &file) => self.forget(&own).await,
                    (None, Some(own)) if self.plugins.get(&own).is_some_and(|m| m.only_file) => {
                        self.failed(&own, failure.clone(), digest).await;
                    }
                    (None, _) => {}
                }
                Err(failure.into_error())
            }
        }
    }

    /// Whether a page is there only because an install was tried.
    fn began(&self, name: &str, file: &str) -> bool {
        let shown = self.files.values().any(|known| known.shown.as_deref() == Some(name));
        self.plugins.get(name).is_some_and(|m| m.only_file && m.page.data.source == file) && !shown
    }

    async fn remove(&mut self, name: &str) -> Result<Option<pb::Resource>, Error> {
        let source = self.page(name)?.source.clone();
        if source == BUNDLED && self.bundled(name).is_some() {
            let what = "is bundled; take it out of plugins.bundled, or disable it";
            return Err(precondition(format!("plugin {name:?} {what}")));
        }
        let provides = self.files.get(&source).and_then(|known| known.provides.as_deref());
        // A plugin that is removed already has left its file's name to others.
        if source != BUNDLED && provides.is_none_or(|plugin| plugin == name) {
            let (dir, file) = (self.options.plugin_dir.clone(), source.clone());
            let removed = tokio::task::spawn_blocking(move || folder::take_out(&dir, &file)).await;
            let at = self.path(&source);
            let fault = |e: String| Error::internal(format!("removing {}: {e}", at.display()));
            removed.map_err(|e| fault(e.to_string()))?.map_err(|e| fault(e.to_string()))?;
            let shown = self.files.remove(&source).and_then(|known| known.shown);
            if let Some(shown) = shown.filter(|shown| shown != name) {
                self.forget(&shown).await;
            }
        }
        self.managed(name).page.data.disabled = false;
        self.remove_from_service(name).await;
        Ok(self.resource(name))
    }

    async fn roll_back(&mut self, name: &str) -> Result<pb::Resource, Error> {
        let page = self.owned(name)?.clone();
        if page.disabled {
            return Err(precondition(format!("plugin {name:?} is disabled; enable it first")));
        }
        if page.previous_digest.is_empty() {
            return Err(precondition(format!("plugin {name:?} has no version before {}", page.version)));
        }
        let digest = page.previous_digest;
        let kept = self.components.get(name, &digest);
        let bytes = kept.map_err(|e| precondition(format!("the version before is not kept any more: {e}")))?;
        let in_source = match page.source.as_str() {
            BUNDLED => self.bundled(name).map(|(_, digest)| digest).unwrap_or_default(),
            file => self.files.get(file).map(|known| known.digest.clone()).unwrap_or_default(),
        };
        let held = if in_source == digest { String::new() } else { in_source };
        let reason = LoadReason::Rollback { held };
        let request = LoadRequest {
            source: page.source,
            bytes,
            digest: digest.clone(),
            reason,
            plugin_before: Some(name.to_owned()),
        };
        match self.load(request).await {
            Ok(_) => {
                // What the source holds is not wanted now, whatever was wrong with it.
                let source = self.managed(name).page.data.source.clone();
                if let Some(known) = self.files.get_mut(&source) {
                    known.failed = false;
                }
                self.answer(name)
            }
            Err(LoadRefusal { failure, .. }) => {
                self.failed(name, failure.clone(), digest).await;
                Err(precondition(failure.into_error().message))
            }
        }
    }

    async fn reset(&mut self, name: &str) -> Result<pb::Resource, Error> {
        self.page(name)?;
        let plugin = self.registry.load().plugin(name).cloned();
        let plugin =
            plugin.ok_or_else(|| precondition(format!("plugin {name:?} is not loaded; there is nothing to reset")))?;
        plugin.health().reset();
        drop(plugin);
        self.reflect_health().await;
        self.answer(name)
    }

    async fn disable(&mut self, name: &str) -> Result<pb::Resource, Error> {
        if !self.owned(name)?.disabled {
            self.managed(name).page.data.disabled = true;
            self.take_out(name, MissingReason::Disabled);
            self.disabled(name, "").await;
        }
        self.answer(name)
    }

    pub(crate) async fn disabled(&mut self, name: &str, more: &str) {
        let text = format!("disabled; what is stored can be read and deleted, not written{more}");
        self.set_loaded(name, State::False, "Disabled", text).await;
    }

    async fn enable(&mut self, name: &str) -> Result<pb::Resource, Error> {
        let page = self.owned(name)?.clone();
        if !page.disabled {
            if self.registry.load().plugin(name).is_none() {
                let why = self.plugins.get(name).map(|m| m.page.loaded.message.as_str()).unwrap_or_default();
                return Err(precondition(format!("plugin {name:?} is switched on, but not loaded: {why}")));
            }
            return self.answer(name);
        }
        let content = match page.source.as_str() {
            BUNDLED => self.bundled(name),
            file => {
                let read = folder::read(&self.path(file), self.sandbox.limits().component_bytes);
                let (bytes, _) = read.map_err(|e| precondition(format!("{e}; install it anew")))?;
                let digest = folder::digest(&bytes);
                Some((bytes, digest))
            }
        };
        let (mut bytes, mut digest) =
            content.ok_or_else(|| precondition(format!("plugin {name:?} is not bundled any more; install it")))?;
        if let Some(known) = self.files.get_mut(&page.source) {
            known.digest.clone_from(&digest);
        }
        if page.rolled_back && page.held_digest == digest {
            let kept = self.components.get(name, &page.digest);
            bytes = kept.map_err(|e| precondition(format!("the version that it was rolled back to: {e}")))?;
            digest.clone_from(&page.digest);
        } else {
            let data = &mut self.managed(name).page.data;
            data.rolled_back = false;
            data.held_digest.clear();
        }
        let request = LoadRequest {
            source: page.source.clone(),
            bytes,
            digest: digest.clone(),
            reason: LoadReason::Reload,
            plugin_before: Some(name.to_owned()),
        };
        match self.load(request).await {
            Ok(_) => {
                if let Some(known) = self.files.get_mut(&page.source) {
                    known.failed = false;
                }
                self.answer(name)
            }
            Err(LoadRefusal { failure, .. }) => {
                self.failed(name, failure.clone(), digest).await;
                self.disabled(name, &format!("; enabling it failed, {}: {}", failure.reason, failure.message)).await;
                Err(precondition(failure.into_error().message))
            }
        }
    }

    fn inspect(&self, name: &str) -> Result<data::InspectResponse, Error> {
        self.page(name)?;
        let managed = self.plugins.get(name);
        let plugin = self.registry.load().plugin(name).cloned();
        let hooks = plugin.map(|plugin| plugin.health().report().hooks).unwrap_or_default();
        let hooks = hooks.into_iter().map(|hook| data::inspect_response::Hook {
            name: hook.hook.to_owned(),
            state: match hook.state {
                HealthState::Healthy => "Healthy",
                HealthState::Probation => "Probation",
                HealthState::Quarantined => "Quarantined",
            }
            .to_owned(),
            faults: hook.faults,
            last_fault: hook.last_fault,
            retry_in: hook.retry_in.and_then(|wait| wait.try_into().ok()),
        });
        Ok(data::InspectResponse {
            plugin: self.resource(name),
            stage: managed.map(|m| m.page.loaded.reason.clone()).unwrap_or_default(),
            last_failure: managed.and_then(|m| m.last_failure.clone()),
            hooks: hooks.collect(),
            draining: managed.map_or(0, |m| m.draining),
        })
    }

    /// A bundled plugin's component and its digest, if it is switched on.
    pub(crate) fn bundled(&self, name: &str) -> Option<(Vec<u8>, String)> {
        let (_, bytes) = self.options.bundled.iter().find(|(bundled, _)| *bundled == name)?;
        Some((bytes.to_vec(), folder::digest(bytes)))
    }

    /// A failure that is nobody's but the host's.
    pub(crate) fn host_fault(what: String) -> Failure {
        Failure::new(Stage::Waiting, "HostFault", what)
    }
}
