//! One transition: a component that is offered becomes the plugin that serves, or does not.

use std::sync::Arc;

use mortise_plugin_host::{Manifest, Plugin};
use mortise_resource::{data, pb::condition::State, types::Gvk};
use mortise_service::registry::{MissingReason, Owner, Registry};

use crate::{
    commands::message::Command,
    files::folder,
    load::canary::{Canary, wire_scope},
    load::drain,
    load::migration,
    load::stage::{Failure, Stage},
    resources::plugin_resources,
    task::{BUNDLED, ManagerTask, short},
};

/// A component, and who offers it.
pub(crate) struct LoadRequest {
    /// A file of the folder, or [`BUNDLED`].
    pub(crate) source: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: String,
    pub(crate) reason: LoadReason,
    /// The plugin that came from this source before: it hears of every stage, and the component must be it.
    pub(crate) plugin_before: Option<String>,
}

/// Why it is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadReason {
    /// Its source holds it.
    Source,
    /// A caller sent it, for the plugin of that name; it is put into the folder when it has passed.
    Install(String),
    /// A caller wants it back. `held` is what the source holds instead; empty when that is the component itself.
    Rollback {
        /// SHA-256.
        held: String,
    },
    /// Something around it changed: its settings, or it is switched on.
    Reload,
}

/// What became of it.
pub(crate) struct Loaded {
    pub(crate) name: String,
    /// It served already.
    pub(crate) unchanged: bool,
}

/// Why nothing became of it, and whose fault it is as far as it is known.
pub(crate) struct LoadRefusal {
    pub(crate) failure: Failure,
    /// The component's own name.
    pub(crate) name: Option<String>,
}

impl From<Failure> for LoadRefusal {
    fn from(failure: Failure) -> Self {
        Self { failure, name: None }
    }
}

impl ManagerTask {
    /// Takes an offer through every stage. What fails changes nothing but what the caller of this says about it.
    pub(crate) async fn load(&mut self, request: LoadRequest) -> Result<Loaded, LoadRefusal> {
        if let Some(loaded) = self.already_serving(&request).await {
            return Ok(loaded);
        }
        let begun = std::time::Instant::now();
        if let Some(plugin_before) = &request.plugin_before {
            let text = format!("{} of {}", short(&request.digest), request.source);
            self.set_loaded(plugin_before, State::Unknown, Stage::Compiling.reason(), text).await;
        }
        let called = if request.source == BUNDLED {
            request.plugin_before.clone().unwrap_or_default()
        } else {
            request.source.clone()
        };
        let loaded = Plugin::load(&self.sandbox, &called, &request.bytes, &self.settings).await;
        let plugin = loaded.map_err(Failure::from)?;
        let name = plugin.name().to_owned();
        self.admit(plugin, request, begun).await.map_err(|failure| LoadRefusal { failure, name: Some(name) })
    }

    /// Whether the source holds what serves already, which may have been hidden by something broken meanwhile.
    async fn already_serving(&mut self, request: &LoadRequest) -> Option<Loaded> {
        let name = request.plugin_before.clone()?;
        let same = |plugin: &&Arc<Plugin>| plugin.digest() == request.digest && plugin.is_set_to(&self.settings);
        let serving = self.registry.load().plugin(&name).filter(same).cloned()?;
        if matches!(request.reason, LoadReason::Rollback { .. }) {
            return None;
        }
        // Another source may hold the same and be one too many. Whatever fails here is said by the long way.
        self.check_name(&serving, request).ok()?;
        if let LoadReason::Install(_) = &request.reason {
            self.keep(&name, request).await.ok()?;
            self.install_into_folder(&request.source, &request.bytes).await.ok()?;
        }
        self.set_source(&name, &request.source);
        if !matches!(request.reason, LoadReason::Reload) {
            let data = &mut self.managed(&name).page.data;
            data.rolled_back = false;
            data.held_digest.clear();
        }
        self.serving(&name).await;
        Some(Loaded { name, unchanged: true })
    }

    /// From a component that described itself to a plugin that serves.
    async fn admit(
        &mut self,
        plugin: Arc<Plugin>,
        request: LoadRequest,
        begun: std::time::Instant,
    ) -> Result<Loaded, Failure> {
        let name = plugin.name().to_owned();
        self.check_name(&plugin, &request)?;
        if self.plugins.get(&name).is_some_and(|m| m.page.data.disabled) && request.reason != LoadReason::Reload {
            // Switched off by name, wherever it comes from. What its source holds is looked at when it is switched on.
            self.set_source(&name, &request.source);
            if self.managed(&name).removed {
                self.managed(&name).removed = false;
                self.take_out(&name, MissingReason::Disabled);
            }
            self.disabled(&name, "").await;
            return Ok(Loaded { name, unchanged: true });
        }
        if !self.plugins.contains_key(&name) {
            self.managed(&name).only_file = true;
            self.managed(&name).page.data.source.clone_from(&request.source);
        }
        let text = format!("version {} ({}) of {}", plugin.version(), short(&request.digest), request.source);
        self.set_loaded(&name, State::Unknown, Stage::Checking.reason(), text.clone()).await;

        let current = self.registry.load_full();
        crate::controllers::check(&current, &plugin).map_err(|circle| {
            Failure::new(Stage::Checking, "CircularWatch", format!("{circle}; leave one of the watches out"))
        })?;
        let (adopted, cleared) = adopt(&current.without(&name), &plugin);
        let mut next = cleared.with(&plugin)?;
        let own = self.managed(&name).page.data.types.clone();
        let before: Vec<_> = own.into_iter().chain(adopted).collect();
        let mut canary = Canary::new(self.backend.clone(), plugin.clone(), &before);
        canary.compare(&before)?;
        // Of a plugin that did not serve at the stop, more may have been stored by another that had its types.
        let served = request.plugin_before.is_some() && self.managed(&name).page.data.digest == request.digest;
        if !(self.starting && served) {
            canary.scan().await?;
        }

        self.keep(&name, &request).await?;
        if let LoadReason::Install(_) = &request.reason {
            self.install_into_folder(&request.source, &request.bytes).await?;
        }
        self.set_loaded(&name, State::Unknown, Stage::Swapping.reason(), text).await;
        canary.settle().await?;
        for manifest in manifests_of(&current, &name) {
            next =
                next.with_missing_plugin(&manifest, MissingReason::Dropped, |decl| canary.lost().contains(&decl.gvk));
        }
        drop(canary);
        let old = current.plugin(&name).cloned();
        drop(current);
        self.swap(next);

        self.record_loaded(&plugin, &request, &before);
        plugin.now_serves(old.is_some());
        self.watch_health(&plugin);
        let version = plugin.version().to_owned();
        let types = plugin.manifest().types.len();
        drop(plugin);
        self.serving(&name).await;
        let took_ms = begun.elapsed().as_millis() as u64;
        let source = if request.source == BUNDLED {
            format!("bundled {name}")
        } else {
            self.path(&request.source).display().to_string()
        };
        tracing::info!(plugin = name, version, types, took_ms, "loaded plugin from {source}");
        self.migrate(&name, old.as_ref().map(Arc::downgrade));
        if let Some(old) = old {
            self.drain_old(&name, old);
        }
        let data = &self.managed(&name).page.data;
        let (digest, previous) = (data.digest.clone(), data.previous_digest.clone());
        self.components.prune(&name, &[&digest, &previous]);
        Ok(Loaded { name, unchanged: false })
    }

    /// A source keeps its plugin's name, and a name belongs to one source.
    fn check_name(&mut self, plugin: &Plugin, request: &LoadRequest) -> Result<(), Failure> {
        let name = plugin.name();
        let refused = |reason, what| Err(Failure::new(Stage::Checking, reason, what));
        if let Some(plugin_before) = request.plugin_before.as_deref().filter(|plugin_before| *plugin_before != name) {
            let what = format!(
                "it was plugin {plugin_before:?} and calls itself {name:?} now; give the new plugin a file of its own, and remove \
                 the old one"
            );
            return refused("Renamed", what);
        }
        if let LoadReason::Install(wanted) = &request.reason
            && wanted != name
        {
            let what = format!("it is to be installed as {wanted:?} and calls itself {name:?}; install it as {name:?}");
            return Err(Failure::new(Stage::Compiling, "Renamed", what));
        }
        let Some(known) = self.plugins.get(name) else { return Ok(()) };
        let other = known.page.data.source.clone();
        if other == request.source {
            return Ok(());
        }
        if known.only_file {
            // The page of a broken file has this name; the file gets another page at its next turn.
            let known = self.known(&other);
            (known.shown, known.again) = (None, true);
            self.plugins.remove(name);
            return Ok(());
        }
        let there = match other.as_str() {
            BUNDLED => self.options.bundled.iter().any(|(bundled, _)| *bundled == name),
            file => self.path(file).exists(),
        };
        let owns = self.registry.load().plugin(name).is_some() || known.page.data.disabled && !known.removed;
        if there && owns {
            let what = match other.as_str() {
                BUNDLED => {
                    "it is bundled and switched on; take it out of plugins.bundled, or rename this one".to_owned()
                }
                file => format!("remove one of the two: the file {file} provides it"),
            };
            let version = &known.page.data.version;
            let what = format!("a plugin named {name:?} is loaded already (version {version}); {what}");
            return refused("NameTaken", what);
        }
        Ok(())
    }

    /// Ties a plugin to its source. The file that it came from before has nothing to do with it any more, and shows its
    /// fault, if it has one, in a page of its own.
    fn set_source(&mut self, name: &str, source: &str) {
        let before = std::mem::replace(&mut self.managed(name).page.data.source, source.to_owned());
        if before != source
            && let Some(known) = self.files.get_mut(&before)
            && known.provides.as_deref() == Some(name)
        {
            (known.provides, known.again) = (None, known.failed);
        }
    }

    /// Keeps the component for restarts and rollbacks.
    async fn keep(&self, name: &str, request: &LoadRequest) -> Result<(), Failure> {
        let (components, name, digest, bytes) =
            (self.components.clone(), name.to_owned(), request.digest.clone(), request.bytes.clone());
        let kept = tokio::task::spawn_blocking(move || components.keep(&name, &digest, &bytes)).await;
        let fault = |e: String| Failure::new(Stage::Checking, "HostFault", format!("keeping a copy in data_dir: {e}"));
        kept.map_err(|e| fault(e.to_string()))?.map_err(|e| fault(e.to_string()))
    }

    async fn install_into_folder(&mut self, file: &str, bytes: &[u8]) -> Result<(), Failure> {
        let (dir, name, content) = (self.options.plugin_dir.clone(), file.to_owned(), bytes.to_vec());
        let put = tokio::task::spawn_blocking(move || folder::put(&dir, &name, &content)).await;
        let at = self.path(file);
        let fault = |e: String| Failure::new(Stage::Checking, "HostFault", format!("writing {}: {e}", at.display()));
        put.map_err(|e| fault(e.to_string()))?.map_err(|e| fault(e.to_string()))?;
        let stamp = folder::Stamp::at(&at);
        let known = self.known(file);
        (known.acted, known.again, known.failed) = (stamp, false, false);
        known.digest = folder::digest(bytes);
        Ok(())
    }

    /// Writes what serves into the page.
    fn record_loaded(&mut self, plugin: &Plugin, request: &LoadRequest, before: &[data::PluginType]) {
        let types = types_of(&self.registry.load(), plugin.name());
        let types = migration::mark(types, before);
        let limits = plugin.limits();
        let was_there = self.registry.load().plugin(plugin.name()).is_some();
        self.set_source(plugin.name(), &request.source);
        let managed = self.managed(plugin.name());
        (managed.only_file, managed.removed) = (false, false);
        let data = &mut managed.page.data;
        let changed = data.digest != request.digest;
        if changed && !data.digest.is_empty() && !data.version.is_empty() {
            data.previous_digest = std::mem::take(&mut data.digest);
            data.previous_version = std::mem::take(&mut data.version);
        }
        if changed || !was_there || data.loaded_at.is_none() {
            data.loaded_at = Some(plugin_resources::now());
        }
        data.digest.clone_from(&request.digest);
        plugin.version().clone_into(&mut data.version);
        mortise_plugin_host::CONTRACT_VERSION.clone_into(&mut data.contract_version);
        data.size = plugin.size() as u64;
        data.types = types;
        data.limits = Some(data::PluginLimits {
            memory_bytes: limits.memory_bytes as u64,
            fuel: limits.fuel,
            deadline_ms: limits.deadline_ms,
            concurrency: limits.concurrency as u64,
        });
        data.disabled = false;
        match &request.reason {
            LoadReason::Reload => {}
            LoadReason::Rollback { held } => {
                data.rolled_back = !held.is_empty();
                data.held_digest.clone_from(held);
            }
            LoadReason::Source | LoadReason::Install(_) => {
                data.rolled_back = false;
                data.held_digest.clear();
            }
        }
    }

    /// Says that what should serve does.
    pub(crate) async fn serving(&mut self, name: &str) {
        let data = &self.managed(name).page.data;
        let mut text = format!("version {} ({})", data.version, short(&data.digest));
        if data.rolled_back {
            text.push_str(&format!(", rolled back from {}", short(&data.held_digest)));
        }
        self.set_loaded(name, State::True, Stage::Serving.reason(), text).await;
    }

    /// Waits, in the background, until the calls in a replaced version have ended.
    pub(crate) fn drain_old(&mut self, name: &str, old: Arc<Plugin>) {
        self.managed(name).draining += 1;
        let (digest, deadline, commands) = (old.digest().to_owned(), self.options.drain, self.commands.clone());
        let (old, name) = (drain::release(old), name.to_owned());
        tokio::spawn(async move {
            let drained = drain::drain(name, digest, old, deadline).await;
            // An error means that the server is stopping.
            let _ = commands.send(Command::Drained(drained)).await;
        });
    }

    fn watch_health(&self, plugin: &Plugin) {
        let (mut changes, health) = (plugin.health().subscribe(), self.health.clone());
        // Ends with the plugin, which it does not keep.
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                health.notify_one();
            }
        });
    }

    pub(crate) fn path(&self, file: &str) -> std::path::PathBuf {
        self.options.plugin_dir.join(file)
    }
}

/// Takes types over that a plugin which was removed has left behind. Answers them as they were, and the table without.
fn adopt(registry: &Registry, plugin: &Plugin) -> (Vec<data::PluginType>, Registry) {
    let (mut adopted, mut gone): (Vec<data::PluginType>, Vec<Gvk>) = (Vec::new(), Vec::new());
    for t in registry.types() {
        let Owner::Missing(owner) = &t.owner else { continue };
        let wanted = plugin.manifest().types.iter().any(|d| d.gvk.group == t.gvk.group && d.gvk.kind == t.gvk.kind);
        if wanted && matches!(owner.why, MissingReason::Removed | MissingReason::Dropped) {
            gone.push(t.gvk.clone());
            adopted.push(data::PluginType {
                r#type: Some(t.gvk.to_pb()),
                scope: wire_scope(t.scope).into(),
                schema_version: t.schema_version.get(),
                message: t.schema.message().full_name().to_owned(),
                // Whether an upgrade had come to its end is not known any more.
                upgrading: t.schema_version.get() > 1,
            });
        }
    }
    (adopted, registry.without_missing_types(&gone))
}

/// The manifests under which a plugin's types stand in the table.
pub(crate) fn manifests_of(registry: &Registry, name: &str) -> Vec<Manifest> {
    let there = registry.plugin(name).map(|plugin| plugin.manifest().clone());
    let absent = registry.missing_plugins().iter().filter(|a| a.name == name).map(|a| a.manifest.clone());
    there.into_iter().chain(absent).collect()
}

/// A plugin's types as its page has them.
pub(crate) fn types_of(registry: &Registry, name: &str) -> Vec<data::PluginType> {
    let own = registry.types().iter().filter(|t| t.owner.plugin_name() == Some(name));
    own.map(|t| data::PluginType {
        r#type: Some(t.gvk.to_pb()),
        scope: wire_scope(t.scope).into(),
        schema_version: t.schema_version.get(),
        message: t.schema.message().full_name().to_owned(),
        upgrading: false,
    })
    .collect()
}
