//! Loads the content of a source: reads it, checks that it is complete, loads it, and shows a refusal.
//!
//! A start takes the same way as a change, with three differences: it does not wait for the rest of a file, the
//! component that served before serves again when its source holds nothing better ([`start`](crate::load::start)), and
//! resources are written together at the end.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::pb::condition::State;

use crate::{
    core::Core,
    files::{
        folder::{self, OfferedSignature, PluginContent, Stamp},
        truncation::{self, Completeness},
    },
    load::{
        request::{LoadEffect, LoadReason, LoadRefusal, LoadRequest, Loaded},
        stage::{Failure, Stage},
    },
    state::{BUNDLED, ManagerState},
    trust::Origin,
    turns::Turn,
    work::LoadPermit,
};

/// Content of a source.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: String,
    pub(crate) origin: Origin,
    pub(crate) signature: OfferedSignature,
}

impl Core {
    /// Handles a changed file in the background. `since` is the time at which its current state was first seen.
    pub(crate) fn spawn_file(self: &Arc<Self>, file: String, stamp: Stamp, since: Instant) {
        let core = self.clone();
        self.work.spawn(async move {
            core.handle_file(&file, stamp, since).await;
            core.lock().await.kick.notify_one();
        });
    }

    /// Takes the plugin of a removed file out of service, in the background.
    pub(crate) fn spawn_gone(self: &Arc<Self>, file: String) {
        let core = self.clone();
        self.work.spawn(async move {
            let turn = core.turn_of_file(&file).await;
            let mut state = core.lock().await;
            if Stamp::at(&state.path(&file)).is_some() {
                // The file is there again.
                state.file(&file).changed_meanwhile();
            } else {
                state.file_gone(&file).await;
            }
            state.kick.notify_one();
            drop((state, turn));
        });
    }

    /// Reads a file that looked like `stamp` and loads its content.
    pub(crate) async fn handle_file(&self, file: &str, stamp: Stamp, since: Instant) {
        let mut turn = self.turn_of_file(file).await;
        let place = self.work.place().await;
        let path = {
            let mut state = self.lock().await;
            let path = state.path(file);
            let provides = match state.files.get(file) {
                Some(known) if known.is_busy() => known.provides.clone(),
                // A command removed it.
                _ => return,
            };
            if provides.and_then(|plugin| state.plugins.get(&plugin)).is_some_and(|managed| managed.is_disabled()) {
                // The file is loaded when the plugin is enabled.
                state.file(file).skip(stamp);
                return;
            }
            path
        };
        let read = self.read(path).await;
        let (content, provides) = {
            let mut state = self.lock().await;
            if !state.files.get(file).is_some_and(|known| known.is_busy()) {
                return;
            }
            let Some(content) = state.settled_content(file, stamp, since, read).await else { return };
            (content, state.file(file).provides.clone())
        };
        self.load_content(file, provides, content, &mut turn, place).await;
    }

    async fn read(&self, path: PathBuf) -> Result<(Content, Stamp), Failure> {
        let limit = self.sandbox.limits().component_bytes;
        let read = tokio::task::spawn_blocking(move || {
            let PluginContent { bytes, signature, stamp } = folder::read_plugin(&path, limit)?;
            let digest = folder::digest(&bytes);
            Ok((Content { bytes, digest, origin: Origin::Folder, signature }, stamp))
        });
        read.await.unwrap_or_else(|_| Err(Failure::new(Stage::Waiting, "HostFault", "reading the file was aborted")))
    }

    /// Loads the content of a source, and shows the result. Returns whether it failed for a fault that may pass.
    pub(crate) async fn load_content(
        &self,
        source: &str,
        plugin_before: Option<String>,
        content: Result<Content, Failure>,
        turn: &mut Option<Turn>,
        place: LoadPermit,
    ) -> bool {
        let digest = content.as_ref().ok().map(|content| content.digest.clone());
        let outcome = match content {
            Err(failure) => Err(LoadRefusal::from(failure)),
            Ok(Content { bytes, digest, origin, signature }) => {
                let request = LoadRequest {
                    source: source.to_owned(),
                    bytes,
                    digest,
                    origin,
                    signature,
                    reason: LoadReason::Source,
                    plugin_before: plugin_before.clone(),
                };
                self.load(&request, turn, place).await
            }
        };
        if outcome.is_err()
            && let Some(name) = &plugin_before
        {
            self.fall_back(name, turn).await;
        }
        let may_pass = outcome.as_ref().err().is_some_and(|refusal| refusal.failure.may_pass());
        let mut state = self.lock().await;
        match outcome {
            Ok(Loaded { change: LoadEffect::Superseded, .. }) => {}
            _ if source == BUNDLED => {
                if let Err(refusal) = outcome {
                    state.refuse_bundled(plugin_before, refusal).await;
                }
            }
            // The content was replaced meanwhile. Content that could not be read has no digest to compare.
            _ if !state.files.get(source).is_some_and(|known| match &digest {
                Some(digest) => known.is_loading(digest),
                None => known.is_busy(),
            }) => {}
            Ok(loaded) => state.file_loaded(source, loaded.name).await,
            Err(refusal) => state.refuse_file(source, refusal).await,
        }
        may_pass
    }
}

impl ManagerState {
    /// The content of a file to load; `None` if it must not be loaded now.
    async fn settled_content(
        &mut self,
        file: &str,
        stamp: Stamp,
        since: Instant,
        read: Result<(Content, Stamp), Failure>,
    ) -> Option<Result<Content, Failure>> {
        let (stamp, read) = match read {
            // The file changed while it was read, or was replaced: it has not settled.
            Ok((_, after)) if after != stamp && !self.starting => {
                self.file(file).changed_meanwhile();
                return None;
            }
            Err(_) if Stamp::at(&self.path(file)).is_none() && !self.starting => {
                self.file(file).changed_meanwhile();
                return None;
            }
            Ok((content, after)) => (after, Ok(content)),
            Err(failure) => (stamp, Err(failure)),
        };
        let digest = read.as_ref().ok().map(|content| content.digest.clone());
        if digest.as_ref().is_some_and(|digest| self.file(file).holds(digest)) {
            self.file(file).skip(stamp);
            self.complete_again(file).await;
            return None;
        }
        let content = match read {
            Ok(Content { bytes, .. }) if truncation::shape(&bytes) == Completeness::Truncated => {
                let wait = if self.starting { Duration::ZERO } else { self.options.limits.unfinished };
                if since.elapsed() < wait {
                    self.file(file).is_incomplete(stamp, since);
                    if let Some(plugin) = self.file(file).provides.clone() {
                        let text = format!("{file} is incomplete (it ends within a section); waiting for the rest");
                        self.set_loaded(&plugin, State::Unknown, Stage::Waiting.reason(), text).await;
                    }
                    return None;
                }
                Err(truncated(bytes.len()))
            }
            other => other,
        };
        self.file(file).was_read(stamp, digest.as_deref());
        Some(content)
    }

    /// Handles a file that was shown as incomplete and again holds the serving component.
    async fn complete_again(&mut self, file: &str) {
        let Some(plugin) = self.file(file).provides.clone() else { return };
        let waiting = self.managed(&plugin).record.loaded.reason == Stage::Waiting.reason();
        if waiting && self.registry.load().plugin(&plugin).is_some() {
            self.serving(&plugin).await;
        }
    }

    /// Handles a file with content that serves, or that belongs to a disabled plugin.
    async fn file_loaded(&mut self, file: &str, plugin: String) {
        let known = self.file(file);
        known.loaded();
        let shown = known.shown.take().filter(|shown| *shown != plugin);
        known.provides = Some(plugin);
        if let Some(shown) = shown {
            self.forget(&shown).await;
        }
    }

    /// Handles a removed file. Removes its plugin, unless that has another file by now.
    async fn file_gone(&mut self, file: &str) {
        let Some(known) = self.files.remove(file) else { return };
        if let Some(shown) = known.shown {
            self.forget(&shown).await;
        }
        if let Some(plugin) = known.provides {
            tracing::info!(plugin, file, "the file is gone");
            self.remove_from_service(&plugin).await;
        }
    }

    /// Shows that a file's content is rejected: in the log, and in the record of its plugin, or else in a record of the
    /// file.
    async fn refuse_file(&mut self, file: &str, refusal: LoadRefusal) {
        let LoadRefusal { failure, name } = refusal;
        let path = self.path(file);
        let next = if failure.may_pass() { "; it is tried again" } else { "" };
        tracing::error!(
            reason = failure.reason,
            stage = failure.stage.reason(),
            "plugin {} is not loaded: {}{next}",
            path.display(),
            failure.message
        );
        let known = self.file(file);
        match failure.may_pass() {
            true => known.postponed(),
            false => known.rejected(),
        }
        let digest = known.digest().map(str::to_owned);
        let (provides, before) = (known.provides.clone(), known.shown.clone());
        let about = match (provides, name) {
            (Some(plugin), _) => plugin,
            (None, named) => {
                let concerned = |name: &String| {
                    let known = self.plugins.get(name);
                    known.is_none_or(|m| m.is_removed() || m.is_file_only() && m.record.data.source == file)
                };
                let about = named.filter(concerned).unwrap_or_else(|| self.name_for(file));
                if let Some(before) = before.filter(|before| *before != about) {
                    self.forget(&before).await;
                }
                let removed = self.managed(&about).is_removed();
                // The record of an earlier plugin does not go with this file.
                self.file(file).shown = (!removed).then(|| about.clone());
                if !removed {
                    let data = &mut self.managed(&about).record.data;
                    file.clone_into(&mut data.source);
                    data.digest = digest.clone().unwrap_or_default();
                }
                about
            }
        };
        self.failed(&about, failure, digest).await;
    }

    async fn refuse_bundled(&mut self, plugin_before: Option<String>, refusal: LoadRefusal) {
        let removed = |name: &String| self.plugins.get(name).is_some_and(|managed| managed.is_removed());
        let about = match plugin_before {
            Some(name) => Some(name),
            None => {
                tracing::error!("a bundled plugin is not loaded: {}", refusal.failure.message);
                refusal.name.filter(removed)
            }
        };
        if let Some(name) = about {
            self.failed(&name, refusal.failure, None).await;
        }
    }
}

fn truncated(len: usize) -> Failure {
    let place = match len {
        0..8 => "the file is truncated, or not WebAssembly: it ends",
        _ => "the file is truncated: it ends within a section,",
    };
    let what = format!("not a WebAssembly component: {place} after {len} bytes; copy the whole file again");
    Failure::new(Stage::Waiting, "Truncated", what)
}
