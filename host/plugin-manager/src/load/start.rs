//! The start: everything that is there goes through the stages, and what served before serves again.
//!
//! A component that served before the restart was compared with what is stored then, so it is not compared again; with
//! the compile cache warm, a plugin takes about a millisecond. Nothing waits: a file that is not whole is refused, and
//! tried again when it changes. A file that is refused leaves the component that served before in service.

use mortise_plugin_host::Plugin;
use mortise_resource::pb::condition::State;
use mortise_service::registry::MissingReason;

use crate::{
    files::folder,
    files::truncation::{self, Shape},
    gc::REMOVED,
    load::request::{LoadReason, LoadRefusal, LoadRequest},
    load::stage::Failure,
    manager::StartError,
    resources::plugin_resources::{PluginRecord, STATUS_KEY, condition},
    task::{BUNDLED, Managed, ManagerTask, truncated},
};

/// Where a component is offered from, and what it holds.
struct Candidate {
    source: String,
    /// The plugin that it was when it served last.
    plugin_before: Option<String>,
    content: Result<(Vec<u8>, String), Failure>,
}

impl Managed {
    /// Whether this is a plugin whose source, when the server stopped, was that one.
    fn had_source(&self, source: &str) -> bool {
        !self.only_file && !self.removed && self.page.data.source == source
    }
}

impl ManagerTask {
    /// Loads everything.
    pub(crate) async fn begin(&mut self) -> Result<(), StartError> {
        self.restore_records();
        let candidates = self.candidates().await?;
        let missing: Vec<String> = self
            .plugins
            .iter()
            .filter(|(name, managed)| {
                !managed.only_file && !candidates.iter().any(|c| c.plugin_before.as_ref() == Some(name))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in missing {
            let text = format!("{} is gone; what is stored can be read and deleted, not written", self.source(&name));
            self.register_absent(&name, MissingReason::Removed).await;
            self.managed(&name).removed = true;
            let data = &mut self.managed(&name).page.data;
            data.rolled_back = false;
            data.held_digest.clear();
            self.set_loaded(&name, State::False, REMOVED, text).await;
        }
        for candidate in candidates {
            self.start_candidate(candidate).await;
        }
        // Pages about files that are gone or have become plugins.
        let shown: Vec<_> = self.files.values().filter_map(|known| known.shown.clone()).collect();
        let stale: Vec<_> =
            self.plugins.iter().filter(|(n, m)| m.only_file && !shown.contains(n)).map(|(n, _)| n.clone()).collect();
        for name in stale {
            self.forget(&name).await;
        }
        self.collect_garbage().await;
        self.starting = false;
        self.warn_of_unknown_settings();
        let pages = self.plugins.iter().map(|(name, managed)| (name.as_str(), &managed.page));
        Ok(self.resources.put(pages).await?)
    }

    /// Says which settings are for plugins that are not there.
    pub(crate) fn warn_of_unknown_settings(&self) {
        let registry = self.registry.load();
        for name in self.settings.names().filter(|name| registry.plugin(name).is_none()) {
            tracing::warn!("plugin.{name} is configured, but no plugin of that name is loaded; is the name right?");
        }
    }

    /// Takes the pages from the book.
    fn restore_records(&mut self) {
        let pages: Vec<_> = self.resources.stored().map(|(name, data)| (name.to_owned(), data)).collect();
        for (name, data) in pages {
            let conditions =
                self.resources.resource(&name).and_then(|r| r.status.get(STATUS_KEY)).map(|s| &s.conditions);
            let of = |kind: &str| {
                conditions
                    .and_then(|all| all.iter().find(|c| c.r#type == kind).cloned())
                    .unwrap_or_else(|| condition(kind, State::Unknown, "NotLoaded", ""))
            };
            let page = PluginRecord { loaded: of("Loaded"), healthy: of("Healthy"), data };
            let (only_file, removed) = (page.data.version.is_empty(), page.loaded.reason == REMOVED);
            self.plugins.insert(name, Managed { page, only_file, removed, last_failure: None, draining: 0 });
        }
    }

    /// What is bundled, then the files. What served at the stop comes first, so that names and types stay where they are;
    /// what had been removed and is there again has no more rights than what is new.
    async fn candidates(&mut self) -> Result<Vec<Candidate>, StartError> {
        let (mut candidates, mut fresh) = (Vec::new(), Vec::new());
        for (name, bytes) in self.options.bundled.clone() {
            let removed = self.plugins.get(name).is_some_and(|m| m.removed);
            let list = if removed { &mut fresh } else { &mut candidates };
            list.push(Candidate {
                source: BUNDLED.to_owned(),
                plugin_before: self.plugins.get(name).filter(|m| m.had_source(BUNDLED)).map(|_| name.to_owned()),
                content: Ok((bytes.to_vec(), folder::digest(bytes))),
            });
        }
        let dir = self.options.plugin_dir.clone();
        let found = folder::scan(&dir).map_err(|source| StartError::PluginDir { path: dir.clone(), source })?;
        let limit = self.sandbox.limits().component_bytes;
        for (file, stamp) in found {
            let path = dir.join(&file);
            let read = tokio::task::spawn_blocking(move || folder::read(&path, limit)).await;
            let content = match read {
                Ok(Ok((bytes, _))) => {
                    let digest = folder::digest(&bytes);
                    Ok((bytes, digest))
                }
                Ok(Err(e)) => Err(e.into()),
                Err(e) => Err(Self::host_fault(e.to_string())),
            };
            let known = self.known(&file);
            known.acted = Some(stamp);
            known.digest = content.as_ref().map(|(_, digest)| digest.clone()).unwrap_or_default();
            let plugin_before = self.plugins.iter().find(|(_, m)| m.had_source(&file));
            let plugin_before = plugin_before.map(|(name, _)| name.clone());
            self.known(&file).provides.clone_from(&plugin_before);
            let list = if plugin_before.is_some() { &mut candidates } else { &mut fresh };
            list.push(Candidate { source: file, plugin_before, content });
        }
        candidates.append(&mut fresh);
        Ok(candidates)
    }

    async fn start_candidate(&mut self, candidate: Candidate) {
        let Candidate { source, plugin_before, content } = candidate;
        if let Some(name) = &plugin_before {
            let data = self.managed(name).page.data.clone();
            if data.disabled {
                self.register_absent(name, MissingReason::Disabled).await;
                return;
            }
            let held = content.as_ref().is_ok_and(|(_, digest)| *digest == data.held_digest);
            if data.rolled_back && held && self.start_from_component_store(name, LoadReason::Reload).await {
                return;
            }
        }
        let whole = content.and_then(|(bytes, digest)| match truncation::shape(&bytes) {
            Shape::Whole => Ok((bytes, digest)),
            Shape::Truncated => Err(truncated(bytes.len())),
        });
        let outcome = match whole {
            Err(failure) => Err(LoadRefusal { failure, name: None }),
            Ok((bytes, digest)) => {
                let request = LoadRequest {
                    source: source.clone(),
                    bytes,
                    digest,
                    reason: LoadReason::Source,
                    plugin_before: plugin_before.clone(),
                };
                self.load(request).await
            }
        };
        let Err(refusal) = outcome.map(|loaded| {
            if source != BUNDLED {
                self.known(&source).provides = Some(loaded.name);
            }
        }) else {
            return;
        };
        let Some(name) = plugin_before else {
            if source == BUNDLED {
                tracing::error!("plugin bundled is not loaded: {}", refusal.failure.message);
                let removed = |name: &String| self.plugins.get(name).is_some_and(|m| m.removed);
                if let Some(name) = refusal.name.filter(removed) {
                    self.failed(&name, refusal.failure, String::new()).await;
                }
            } else {
                self.refuse_file(&source, refusal).await;
            }
            return;
        };
        // What served before serves on.
        if !self.start_from_component_store(&name, LoadReason::Reload).await {
            self.register_absent(&name, MissingReason::Broken).await;
        }
        if source == BUNDLED {
            self.failed(&name, refusal.failure, String::new()).await;
        } else {
            self.refuse_file(&source, refusal).await;
        }
    }

    /// Serves the component that served last; whether that worked.
    async fn start_from_component_store(&mut self, name: &str, reason: LoadReason) -> bool {
        let data = self.managed(name).page.data.clone();
        let bytes = match self.components.get(name, &data.digest) {
            Ok(bytes) => bytes,
            Err(e) => {
                tracing::error!("plugin {name}: the version that served last is not kept: {e}");
                return false;
            }
        };
        let request = LoadRequest {
            source: data.source,
            bytes,
            digest: data.digest,
            reason,
            plugin_before: Some(name.to_owned()),
        };
        match self.load(request).await {
            Ok(_) => true,
            Err(refusal) => {
                tracing::error!(
                    "plugin {name}: the version that served last is not loaded: {}",
                    refusal.failure.message
                );
                false
            }
        }
    }

    /// Registers the types of a plugin that is not there, as it declared them last.
    async fn register_absent(&mut self, name: &str, why: MissingReason) {
        let digest = self.managed(name).page.data.digest.clone();
        let kept = match self.components.get(name, &digest) {
            Ok(bytes) => Plugin::load(&self.sandbox, name, &bytes, &self.settings).await.map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        match kept {
            Ok(plugin) => {
                let manifest = plugin.manifest();
                let types = self.managed(name).page.data.types.clone();
                let current = self.registry.load_full();
                let declared = |gvk: &mortise_resource::types::Gvk| {
                    types.iter().filter_map(|t| t.r#type.as_ref()).any(|t| gvk.matches(t))
                };
                let next = current.with_missing_plugin(manifest, why, |decl| declared(&decl.gvk));
                self.swap(next);
            }
            Err(e) => tracing::error!(
                "plugin {name}: its types are not known, and what is stored of them cannot be read until it is \
                 installed: {e}"
            ),
        }
    }

    fn source(&self, name: &str) -> String {
        self.plugins.get(name).map(|m| m.page.data.source.clone()).unwrap_or_default()
    }
}
