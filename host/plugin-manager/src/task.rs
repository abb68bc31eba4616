//! The manager's task: its state, its loop, and how it looks at the folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use mortise_plugin_host::{PluginSettings, Sandbox};
use mortise_resource::{data, pb::condition::State};
use mortise_service::ResourceService;
use mortise_service::registry::Registry;
use mortise_store::Backend;
use tokio::sync::{Notify, mpsc};

use crate::{
    commands::message::Command,
    component_store::ComponentStore,
    files::folder::{self, Stamp},
    files::truncation::{self, Shape},
    files::watch::Watcher,
    load::request::{LoadReason, LoadRefusal, LoadRequest},
    load::stage::{Failure, Stage},
    manager::{Options, StartError},
    resources::plugin_resources::{PluginRecord, PluginResources},
};

/// What is bundled has this source.
pub(crate) const BUNDLED: &str = "bundled";

/// One plugin, or one file that does not become one.
pub(crate) struct Managed {
    pub(crate) page: PluginRecord,
    /// Nothing of it ever served: the page is about a file.
    pub(crate) only_file: bool,
    /// Its source is gone, and what has been offered since then, if anything, was refused.
    pub(crate) removed: bool,
    pub(crate) last_failure: Option<data::inspect_response::Failure>,
    /// Replaced versions that are not gone yet.
    pub(crate) draining: u32,
}

/// What is known of a file.
#[derive(Default)]
pub(crate) struct Known {
    /// As it was when it was last dealt with.
    pub(crate) acted: Option<Stamp>,
    /// As it has looked since a while, none for "not there"; set while that differs.
    pending: Option<(Option<Stamp>, Instant)>,
    /// Of the content that was last dealt with; empty when it could not be read.
    pub(crate) digest: String,
    /// The plugin that came from it.
    pub(crate) provides: Option<String>,
    /// The page that shows its fault, if it is not the plugin's.
    pub(crate) shown: Option<String>,
    /// What was last dealt with was refused.
    pub(crate) failed: bool,
    /// To be dealt with again although it did not change.
    pub(crate) again: bool,
}

pub(crate) struct ManagerTask {
    pub(crate) options: Options,
    pub(crate) sandbox: Sandbox,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) service: ResourceService,
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    /// Woken when the registry was swapped.
    swapped: Arc<Notify>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) resources: PluginResources,
    pub(crate) components: ComponentStore,
    pub(crate) plugins: BTreeMap<String, Managed>,
    pub(crate) files: BTreeMap<String, Known>,
    pub(crate) settings: PluginSettings,
    pub(crate) config: crate::settings::ConfigWatch,
    /// Pages are written together, at the end, while this is set.
    pub(crate) starting: bool,
    pub(crate) health: Arc<Notify>,
    kick: Arc<Notify>,
    watcher: Watcher,
}

impl ManagerTask {
    pub(crate) async fn open(
        mut options: Options,
        sandbox: Sandbox,
        backend: Arc<dyn Backend>,
        service: ResourceService,
        (registry, swapped): (Arc<ArcSwap<Registry>>, Arc<Notify>),
        commands: mpsc::Sender<Command>,
    ) -> Result<Self, StartError> {
        let kick = Arc::new(Notify::new());
        let mut folders = vec![options.plugin_dir.clone()];
        if let Some(path) = &options.config.path {
            folders.push(path.parent().filter(|p| !p.as_os_str().is_empty()).map_or(".".into(), PathBuf::from));
        }
        let settings = std::mem::take(&mut options.config.settings);
        Ok(Self {
            resources: PluginResources::open(backend.clone()).await?,
            components: ComponentStore::new(options.component_dir.clone()),
            config: crate::settings::ConfigWatch::new(options.config.path.as_deref()),
            watcher: Watcher::new(folders, kick.clone()),
            plugins: BTreeMap::new(),
            files: BTreeMap::new(),
            health: Arc::new(Notify::new()),
            starting: true,
            options,
            sandbox,
            backend,
            service,
            registry,
            swapped,
            commands,
            settings,
            kick,
        })
    }

    /// Runs until it is aborted, or until nobody can give orders any more.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let kick = self.kick.clone();
        let health = self.health.clone();
        self.watcher.ensure();
        // What changed between the first look and the watch.
        let mut next_look = Instant::now();
        let mut rescan = Instant::now() + self.options.rescan;
        loop {
            let due = next_look.min(rescan);
            let rescanning = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => { self.handle(command).await; false }
                    None => return,
                },
                () = kick.notified() => false,
                () = health.notified() => { self.reflect_health().await; continue }
                () = tokio::time::sleep_until(due.into()) => Instant::now() >= rescan,
            };
            if rescanning {
                rescan = Instant::now() + self.options.rescan;
                self.watcher.ensure();
                self.collect_garbage().await;
            }
            let wait = self.look().await;
            next_look = wait.map_or(rescan, |wait| Instant::now() + wait);
        }
    }

    /// Puts another registry in place of the one that serves.
    pub(crate) fn swap(&self, next: Registry) {
        self.registry.store(Arc::new(next));
        self.swapped.notify_one();
    }

    /// Looks at the folder and at the configuration, and deals with what has changed and settled. Answers when to look
    /// again, if sooner than usual.
    async fn look(&mut self) -> Option<Duration> {
        let config = self.look_at_config().await;
        let found = match folder::scan(&self.options.plugin_dir) {
            Ok(found) => found,
            Err(e) => {
                let dir = self.options.plugin_dir.display();
                tracing::error!("plugin_dir {dir}: {e}; the plugins stay as they are until it can be read");
                return config;
            }
        };
        let mut names: BTreeSet<String> = found.keys().cloned().collect();
        names.extend(self.files.keys().cloned());
        let (mut next, mut gone) = (config, Vec::new());
        let mut sooner = |wait: Duration| next = Some(next.map_or(wait, |known| known.min(wait)));
        for name in names {
            let now = found.get(&name).copied();
            let settle = self.options.settle;
            let known = self.files.entry(name.clone()).or_default();
            if known.acted == now && !known.again {
                known.pending = None;
                if now.is_none() {
                    self.files.remove(&name);
                }
                continue;
            }
            let since = match known.pending {
                Some((pending, since)) if pending == now => since,
                _ => {
                    known.pending = Some((now, Instant::now()));
                    if settle.is_zero() || known.again { Instant::now() - settle } else { Instant::now() }
                }
            };
            let stable = since.elapsed();
            if stable < settle && !known.again {
                sooner(settle - stable);
                continue;
            }
            match now {
                None => gone.push(name),
                Some(stamp) => {
                    if let Some(wait) = self.handle_file(&name, stamp, stable).await {
                        sooner(wait);
                    }
                }
            }
        }
        // Last, so that a file that was renamed is not a plugin that was removed.
        for name in gone {
            let Some(known) = self.files.remove(&name) else { continue };
            if let Some(shown) = known.shown {
                self.forget(&shown).await;
            }
            if let Some(plugin) = known.provides {
                tracing::info!(plugin, file = name, "the file is gone");
                self.remove_from_service(&plugin).await;
            }
        }
        next
    }

    /// Deals with a file that looks as it has looked for a while. Answers when to look again if it is not whole.
    async fn handle_file(&mut self, file: &str, stamp: Stamp, stable: Duration) -> Option<Duration> {
        let known = self.files.entry(file.to_owned()).or_default();
        let plugin = known.provides.as_ref().and_then(|plugin| self.plugins.get(plugin));
        if plugin.is_some_and(|managed| managed.page.data.disabled) {
            // It is looked at when the plugin is switched on.
            (known.acted, known.pending, known.again) = (Some(stamp), None, false);
            return None;
        }
        let path = self.options.plugin_dir.join(file);
        let limit = self.sandbox.limits().component_bytes;
        let read = tokio::task::spawn_blocking(move || folder::read(&path, limit)).await;
        let (bytes, digest) = match read {
            Ok(Ok((bytes, after))) if after == stamp => {
                let digest = folder::digest(&bytes);
                (Ok(bytes), digest)
            }
            // It changed while it was read, or is another file by now: it has not settled.
            Ok(Ok(_)) => {
                self.known(file).pending = None;
                return Some(self.options.settle);
            }
            Ok(Err(e)) => (Err(Failure::from(e)), String::new()),
            Err(_) => (Err(Failure::new(Stage::Waiting, "HostFault", "reading it was given up")), String::new()),
        };
        let known = self.known(file);
        // What was refused is looked at again when its file is touched: what stood in its way may be gone.
        let same = !digest.is_empty() && digest == known.digest && !known.again && !known.failed;
        if same {
            (known.acted, known.pending) = (Some(stamp), None);
            return None;
        }
        let bytes = match bytes {
            Ok(bytes) if truncation::shape(&bytes) == Shape::Truncated => {
                let left = self.options.unfinished.saturating_sub(stable);
                if !left.is_zero() {
                    if let Some(plugin) = self.known(file).provides.clone() {
                        let text = format!("{file} ends within a section: waiting for the rest of it");
                        self.set_loaded(&plugin, State::Unknown, Stage::Waiting.reason(), text).await;
                    }
                    return Some(left);
                }
                Err(truncated(bytes.len()))
            }
            other => other,
        };
        let known = self.known(file);
        (known.acted, known.pending, known.again) = (Some(stamp), None, false);
        known.digest.clone_from(&digest);
        let plugin_before = known.provides.clone();
        match bytes {
            Ok(bytes) => self.load_file(file, bytes, digest, plugin_before).await,
            Err(failure) => self.refuse_file(file, LoadRefusal { failure, name: None }).await,
        }
        None
    }

    /// Offers a file's content, and remembers what came of it.
    pub(crate) async fn load_file(
        &mut self,
        file: &str,
        bytes: Vec<u8>,
        digest: String,
        plugin_before: Option<String>,
    ) {
        let request = LoadRequest { source: file.to_owned(), bytes, digest, reason: LoadReason::Source, plugin_before };
        match self.load(request).await {
            Err(refusal) => self.refuse_file(file, refusal).await,
            Ok(loaded) => {
                let known = self.known(file);
                known.failed = false;
                known.provides = Some(loaded.name.clone());
                if let Some(shown) = known.shown.take()
                    && shown != loaded.name
                {
                    self.forget(&shown).await;
                }
            }
        }
    }

    /// Says that a file's content is refused: in the log, and in the page of the plugin that it concerns, or in one of
    /// its own.
    pub(crate) async fn refuse_file(&mut self, file: &str, refusal: LoadRefusal) {
        let LoadRefusal { failure, name } = refusal;
        let path = self.options.plugin_dir.join(file);
        tracing::error!(
            reason = failure.reason,
            stage = failure.stage.reason(),
            "plugin {} is not loaded: {}",
            path.display(),
            failure.message
        );
        let known = self.known(file);
        known.failed = true;
        let digest = known.digest.clone();
        let (provides, before) = (known.provides.clone(), known.shown.clone());
        let about = match (provides, name) {
            (Some(plugin), _) => plugin,
            (None, named) => {
                let concerned = |name: &String| {
                    let known = self.plugins.get(name);
                    known.is_none_or(|m| m.removed || m.only_file && m.page.data.source == file)
                };
                let about = named.filter(concerned).unwrap_or_else(|| self.name_for(file));
                if let Some(before) = before.filter(|before| *before != about) {
                    self.forget(&before).await;
                }
                let removed = self.managed(&about).removed;
                // The page of a plugin that was there does not go with this file.
                self.known(file).shown = (!removed).then(|| about.clone());
                if !removed {
                    let managed = self.managed(&about);
                    managed.only_file = true;
                    file.clone_into(&mut managed.page.data.source);
                    managed.page.data.digest.clone_from(&digest);
                }
                about
            }
        };
        self.failed(&about, failure, digest).await;
    }

    pub(crate) fn known(&mut self, file: &str) -> &mut Known {
        self.files.entry(file.to_owned()).or_default()
    }

    /// Files that were refused are tried again: what stood in their way may be gone.
    pub(crate) fn retry_refused(&mut self) {
        for known in self.files.values_mut().filter(|known| known.failed) {
            known.again = true;
        }
        self.kick.notify_one();
    }
}

pub(crate) fn truncated(len: usize) -> Failure {
    let place = match len {
        0..8 => "it does not begin as WebAssembly does; the file is truncated or something else: it ends",
        _ => "the file is truncated: it ends within a section,",
    };
    let what = format!("not a WebAssembly component: {place} after {len} bytes; copy it again, whole");
    Failure::new(Stage::Waiting, "Truncated", what)
}

/// Enough of a digest for people.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
