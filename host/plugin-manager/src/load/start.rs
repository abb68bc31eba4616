//! The start: loads all sources, and brings the components that served before back into service.
//!
//! A component that served before the restart was compared with stored resources then, so it is not compared again;
//! with a warm compile cache, a plugin takes about a millisecond. A start waits for nothing: an incomplete file is
//! rejected, and tried again when it changes. A rejected file leaves the component that served before in service.
//! Sources are loaded one after another, in a fixed order ([`ManagerState::sources`]).

use std::{sync::Arc, time::Instant};

use mortise_plugin_host::Plugin;
use mortise_resource::{pb::condition::State, types::Gvk};
use mortise_service::registry::MissingReason;
use mortise_store::StoreError;

use crate::{
    core::Core,
    files::folder::{self, Stamp},
    load::{
        content::Content,
        stage::{Failure, Stage},
    },
    options::{Bundled, StartError},
    retry::retry_pause,
    state::{
        BUNDLED, ManagerState,
        plugin::{ManagedPlugin, REMOVED},
    },
    trust::Origin,
    turns::Turn,
};

/// The source of a component.
enum Source {
    Bundled(Bundled),
    File(String, Stamp),
}

impl Core {
    /// Loads all sources.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<(), StartError> {
        let (sources, missing) = {
            let mut state = self.lock().await;
            state.restore_records();
            let sources = state.sources()?;
            let missing = state.without_source();
            (sources, missing)
        };
        for name in missing {
            self.register_absent(&name, MissingReason::Removed).await;
            let mut state = self.lock().await;
            state.managed(&name).source_gone();
            let source = &state.managed(&name).record.data.source;
            let text = format!("{source} is gone; stored resources can be read and deleted, but not written");
            state.set_loaded(&name, State::False, REMOVED, text).await;
        }
        let mut postponed = Vec::new();
        for source in sources {
            postponed.extend(self.start_source(source).await);
        }
        let mut state = self.lock().await;
        // Removes records of files that are gone or have become plugins.
        let shown: Vec<_> = state.files.values().filter_map(|known| known.shown.clone()).collect();
        let stale = state.plugins.iter().filter(|(name, managed)| managed.is_file_only() && !shown.contains(name));
        let stale: Vec<_> = stale.map(|(name, _)| name.clone()).collect();
        for name in stale {
            state.forget(&name).await;
        }
        state.collect_garbage().await;
        state.starting = false;
        state.warn_of_unknown_settings();
        let ManagerState { resources, plugins, .. } = &mut *state;
        let records = plugins.iter().map(|(name, managed)| (name.as_str(), &managed.record));
        // Without space, reads and deletions go on; the records are written once there is some.
        match resources.put_logged(records).await {
            Err(StoreError::Full { .. }) => {}
            put => put?,
        }
        drop(state);
        for bundled in postponed {
            let core = self.clone();
            self.work.spawn(async move { core.load_bundled_again(bundled).await });
        }
        Ok(())
    }

    /// Loads a source. Returns a bundled plugin that failed for a fault that may pass.
    async fn start_source(&self, source: Source) -> Option<Bundled> {
        let (name, digest) = {
            let state = self.lock().await;
            match &source {
                Source::Bundled((name, bytes)) => {
                    let before = state.plugins.get(*name).filter(|managed| managed.had_source(BUNDLED));
                    (before.map(|_| (*name).to_owned()), Some(folder::digest(bytes)))
                }
                Source::File(file, _) => {
                    let name = state.files.get(file).and_then(|known| known.provides.clone());
                    let rolled_back = name.as_ref().and_then(|name| state.plugins.get(name));
                    let rolled_back = rolled_back.is_some_and(|managed| managed.record.data.rolled_back);
                    let digest = if rolled_back { digest_of(self, state.path(file)).await } else { None };
                    (name, digest)
                }
            }
        };
        if let Some(name) = &name {
            let (disabled, held) = {
                let mut state = self.lock().await;
                let managed = state.managed(name);
                let data = &managed.record.data;
                (managed.is_disabled(), digest.clone().filter(|now| data.rolled_back && *now == data.held_digest))
            };
            if disabled {
                self.register_absent(name, MissingReason::Disabled).await;
            } else if let Some(held) = held
                && self.start_kept(name, &mut None).await
            {
                if let Source::File(file, stamp) = &source {
                    self.lock().await.file(file).installed(Some(*stamp), held);
                }
                return None;
            }
            if disabled && matches!(source, Source::Bundled(_)) {
                return None;
            }
        }
        match source {
            Source::Bundled(bundled) => self.load_bundled(bundled, name).await.then_some(bundled),
            Source::File(file, stamp) => {
                self.lock().await.file(&file).load_begins();
                self.handle_file(&file, stamp, Instant::now()).await;
                None
            }
        }
    }

    /// Loads a bundled plugin. Returns whether it failed for a fault that may pass.
    async fn load_bundled(&self, (_, bytes): Bundled, plugin_before: Option<String>) -> bool {
        let digest = folder::digest(bytes);
        let content = Content { bytes: bytes.to_vec(), digest, origin: Origin::Binary, signature: Ok(None) };
        let place = self.work.place().await;
        self.load_content(BUNDLED, plugin_before, Ok(content), &mut None, place).await
    }

    /// Loads a bundled plugin again, with growing pauses, until it serves, an operator has decided about it, or it fails
    /// for a fault of its own.
    async fn load_bundled_again(&self, bundled: Bundled) {
        let (name, bytes) = bundled;
        for failures in 0.. {
            tokio::time::sleep(retry_pause(failures)).await;
            let before = {
                let state = self.lock().await;
                let serves = |plugin: &Arc<Plugin>| plugin.digest() == folder::digest(bytes);
                let known = state.plugins.get(name);
                if state.registry.load().plugin(name).is_some_and(serves)
                    || known.is_some_and(|managed| managed.is_disabled() || managed.record.data.rolled_back)
                {
                    return;
                }
                known.filter(|managed| managed.had_source(BUNDLED)).map(|_| name.to_owned())
            };
            if !self.load_bundled(bundled, before).await {
                return;
            }
        }
    }

    /// Brings the component that served last back into service during a start, since its source holds nothing better.
    /// If that fails as well, stored resources of its types can still be read.
    pub(crate) async fn fall_back(&self, name: &str, turn: &mut Option<Turn>) {
        if self.lock().await.starting && !self.start_kept(name, turn).await {
            self.register_absent(name, MissingReason::Broken).await;
        }
    }

    /// Loads the component that served last from the copies in data_dir; returns whether that worked.
    async fn start_kept(&self, name: &str, turn: &mut Option<Turn>) -> bool {
        if turn.is_none() {
            *turn = Some(self.turns.take(name).await);
        }
        let request = self.lock().await.last_served_request(name);
        let request = match request {
            Ok(request) => request,
            Err(e) => {
                tracing::error!("plugin {name}: the copy of the version that served last cannot be read: {e}");
                return false;
            }
        };
        let place = self.work.place().await;
        match self.load(&request, turn, place).await {
            Ok(_) => true,
            Err(refusal) => {
                let what = refusal.failure.message;
                tracing::error!("plugin {name}: the version that served last cannot be loaded: {what}");
                false
            }
        }
    }

    /// Registers the types of an absent plugin as it declared them last.
    async fn register_absent(&self, name: &str, why: MissingReason) {
        let (request, settings) = {
            let state = self.lock().await;
            (state.last_served_request(name), state.settings.clone())
        };
        let kept = async {
            let request = request.map_err(|e| Failure::new(Stage::Waiting, "HostFault", e.to_string()))?;
            self.verify(&request).await?;
            Ok::<_, Failure>(Plugin::load(&self.sandbox, name, &request.bytes, &settings).await?)
        };
        match kept.await {
            Ok(plugin) => {
                let mut state = self.lock().await;
                let types = state.managed(name).record.data.types.clone();
                let declared = |gvk: &Gvk| types.iter().filter_map(|t| t.r#type.as_ref()).any(|t| gvk.matches(t));
                let current = state.registry.load_full();
                let next = current.with_missing_plugin(plugin.manifest(), why, |decl| declared(&decl.gvk));
                state.swap(next);
            }
            Err(Failure { message, .. }) => tracing::error!(
                "plugin {name}: its types are unknown, and their stored resources cannot be read until it is \
                 installed: {message}"
            ),
        }
    }
}

/// The digest of a file's content; `None` if the file cannot be read, which its load reports.
async fn digest_of(core: &Core, path: std::path::PathBuf) -> Option<String> {
    let limit = core.sandbox.limits().component_bytes;
    let read = tokio::task::spawn_blocking(move || folder::read(&path, limit).map(|bytes| folder::digest(&bytes)));
    read.await.ok()?.ok()
}

impl ManagerState {
    /// Restores the records from the stored resources.
    fn restore_records(&mut self) {
        self.inherited = self.resources.inherited_names();
        for (name, record) in self.resources.stored() {
            self.plugins.insert(name, ManagedPlugin::restore(record));
        }
    }

    /// The bundled plugins, then the files. Plugins that served at the stop come first, so that they keep their names
    /// and types; a removed plugin that is there again has no more rights than a new one.
    fn sources(&mut self) -> Result<Vec<Source>, StartError> {
        let (mut sources, mut fresh) = (Vec::new(), Vec::new());
        for bundled in self.options.bundled.clone() {
            let removed = self.plugins.get(bundled.0).is_some_and(ManagedPlugin::is_removed);
            let list = if removed { &mut fresh } else { &mut sources };
            list.push(Source::Bundled(bundled));
        }
        let dir = self.options.plugin_dir.clone();
        let found = folder::scan(&dir).map_err(|source| StartError::PluginDir { path: dir, source })?;
        for (file, stamp) in found.into_iter().take(folder::MAX_FILES) {
            let name = self.plugins.iter().find(|(_, managed)| managed.had_source(&file)).map(|(name, _)| name.clone());
            let list = if name.is_some() { &mut sources } else { &mut fresh };
            self.file(&file).provides = name;
            list.push(Source::File(file, stamp));
        }
        sources.append(&mut fresh);
        Ok(sources)
    }

    /// The plugins that no longer have a source.
    fn without_source(&self) -> Vec<String> {
        let held = |name: &String, managed: &ManagedPlugin| match managed.record.data.source.as_str() {
            BUNDLED => managed.had_source(BUNDLED) && self.options.bundled.iter().any(|(bundled, _)| bundled == name),
            file => self.files.get(file).is_some_and(|known| known.provides.as_ref() == Some(name)),
        };
        let missing = self.plugins.iter().filter(|(name, managed)| !managed.is_file_only() && !held(name, managed));
        missing.map(|(name, _)| name.clone()).collect()
    }
}
