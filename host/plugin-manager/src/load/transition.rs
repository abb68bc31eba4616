//! A load: a component becomes the serving plugin, or is rejected.
//!
//! ```text
//!   without the lock:  compile ──▶ ┌──────────▶ compare with stored resources, keep a copy
//!                                  │                       │
//!   under the lock:      names and types fit? ◀────────────┘
//!                                  └──▶ the compared types are unchanged: compare the writes
//!                                       since then, swap the registry, write the record
//! ```
//!
//! Other plugins may come and go while this one is compiled and compared. So all results that depend on them are
//! computed again under the lock ([`ManagerState::plan`]); if another comparison is needed, or the settings have
//! changed, the work is discarded and repeated. Before the swap only the record's condition changes, and, in an
//! install, the file of the folder, which is restored if the last check fails.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::FutureExt as _;
use mortise_plugin_host::Plugin;
use mortise_resource::{data, pb::condition::State};
use mortise_service::registry::{MissingReason, Registry};

use crate::{
    core::Core,
    failpoint,
    load::{
        canary::{MAX_SCANS, StoredComparison, store_busy},
        request::{LoadEffect, LoadReason, LoadRefusal, LoadRequest, Loaded},
        stage::{Failure, Stage},
        types::{manifests_of, same_comparison, take_over_types},
    },
    state::{BUNDLED, ManagerState, short},
    trust::TrustDecision,
    turns::Turn,
    work::LoadPermit,
};

/// The plan of a swap, once the component fits the stored resources.
pub(super) struct Plan {
    /// The table that serves now.
    current: Arc<Registry>,
    /// The table with the plugin.
    pub(super) next: Registry,
    /// The types as last served, by this plugin or by one that is gone.
    pub(super) before: Vec<data::PluginType>,
    /// Whether stored resources were compared with this component before the server stopped.
    compared: bool,
}

impl Plan {
    /// The parts that the comparison with stored resources depends on. Gives up the tables, since they hold the
    /// versions of all plugins.
    fn assumptions(self) -> (Vec<data::PluginType>, bool) {
        (self.before, self.compared)
    }
}

/// Runs a stage. A panic is a fault of Mortise; it rejects the component, and the server goes on.
pub(super) async fn catch_panic<T>(stage: Stage, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let panic = text.unwrap_or("without a message");
        let what = format!(
            "the load panicked ({panic}); this is a fault of Mortise, please report it with the log and the component"
        );
        Err(Failure::new(stage, "HostFault", what))
    })
}

impl Core {
    /// Takes a component through every stage. A rejected component changes nothing but the texts that the caller writes
    /// about it. Takes the plugin's turn when its name is known, unless the caller has it.
    pub(crate) async fn load(
        &self,
        request: &LoadRequest,
        turn: &mut Option<Turn>,
        mut place: LoadPermit,
    ) -> Result<Loaded, LoadRefusal> {
        let begun = Instant::now();
        let called = match request.source.as_str() {
            BUNDLED => request.plugin_before.clone().unwrap_or_default(),
            file => file.to_owned(),
        };
        let decision = self.verify(request).await?;
        loop {
            let settings = {
                let mut state = self.lock().await;
                if let Some(loaded) = state.already_serving(request, &decision).await {
                    return Ok(loaded);
                }
                if let Some(plugin) = &request.plugin_before {
                    let text = format!("{} of {}", short(&request.digest), request.source);
                    state.set_loaded(plugin, State::Unknown, Stage::Compiling.reason(), text).await;
                }
                state.settings.clone()
            };
            let loading = async {
                failpoint::reached(&format!("Compiling {}", request.source));
                Plugin::load(&self.sandbox, &called, &request.bytes, &settings).await.map_err(Failure::from)
            };
            let plugin = catch_panic(Stage::Compiling, loading).await?;
            let name = plugin.name().to_owned();
            if turn.is_none() {
                *turn = Some(place.leave_while(self.turns.take(&name)).await);
            }
            match catch_panic(Stage::Checking, self.admit(plugin, request, &decision, begun)).await {
                Ok(Some(change)) => return Ok(Loaded { name, change }),
                // Its settings have changed meanwhile.
                Ok(None) => {}
                Err(failure) => return Err(LoadRefusal { failure, name: Some(name) }),
            }
        }
    }

    /// Takes a component that described itself into service. Returns `None` if the plugin's settings have changed since
    /// the component was loaded with them.
    async fn admit(
        &self,
        plugin: Arc<Plugin>,
        request: &LoadRequest,
        decision: &TrustDecision,
        begun: Instant,
    ) -> Result<Option<LoadEffect>, Failure> {
        let name = plugin.name().to_owned();
        let mut compared: Option<(Vec<data::PluginType>, StoredComparison)> = None;
        let mut attempts = 0;
        loop {
            let mut state = self.lock().await;
            if !state.is_wanted(request) {
                return Ok(Some(LoadEffect::Superseded));
            }
            if !plugin.has_settings(&state.settings) {
                return Ok(None);
            }
            state.check_name(&plugin, request)?;
            if state.stays_disabled(&name, request).await {
                return Ok(Some(LoadEffect::Nothing));
            }
            if !state.plugins.contains_key(&name) {
                state.managed(&name).record.data.source.clone_from(&request.source);
            }
            let plan = state.plan(&plugin, request)?;
            let mut canary = match compared.take().filter(|(before, _)| same_comparison(before, &plan.before)) {
                Some((_, mut canary)) => {
                    if state.prepare_swap(&plugin, request, decision, &mut canary).await? {
                        state.put_into_service(plugin, request, decision, plan, canary, begun).await;
                        return Ok(Some(LoadEffect::Serves));
                    }
                    canary
                }
                None => {
                    let text = stage_text(&plugin, request);
                    state.set_loaded(&name, State::Unknown, Stage::Checking.reason(), text).await;
                    StoredComparison::new(state.backend.clone(), plugin.clone(), &plan.before)
                }
            };
            drop(state);
            failpoint::reached(&format!("Checking {}", request.source));
            let (before, known_to_fit) = plan.assumptions();
            attempts += 1;
            if attempts > MAX_SCANS {
                return Err(store_busy("too much changed meanwhile"));
            }
            canary.compare(&before)?;
            if !known_to_fit {
                canary.scan().await?;
            }
            self.keep(&name, request, decision).await?;
            // Most of the writes meanwhile are checked before the lock is taken.
            if canary.settle().await? {
                compared = Some((before, canary));
            }
        }
    }

    /// Keeps the component for restarts and rollbacks.
    async fn keep(&self, name: &str, request: &LoadRequest, decision: &TrustDecision) -> Result<(), Failure> {
        let components = self.lock().await.components.clone();
        components.keep_in_background(name, request, decision).await
    }
}

impl ManagerState {
    /// The result if the source holds the component that already serves; a broken file may have hidden it meanwhile.
    async fn already_serving(&mut self, request: &LoadRequest, decision: &TrustDecision) -> Option<Loaded> {
        let name = request.plugin_before.clone()?;
        let same = |plugin: &&Arc<Plugin>| plugin.digest() == request.digest && plugin.has_settings(&self.settings);
        let serving = self.registry.load().plugin(&name).filter(same).cloned()?;
        if matches!(request.reason, LoadReason::Rollback { .. }) || !self.is_wanted(request) {
            return None;
        }
        // Another source may hold the same plugin, which is an error. The full load reports failures of these steps.
        self.check_name(&serving, request).ok()?;
        if let LoadReason::Install(_) = &request.reason {
            self.components.clone().keep_in_background(&name, request, decision).await.ok()?;
            self.install_into_folder(&name, request, decision).await.ok()?;
        }
        self.set_source(&name, &request.source);
        if request.reason != LoadReason::Reload {
            self.managed(&name).follow_source();
        }
        self.serving(&name).await;
        Some(Loaded { name, change: LoadEffect::Nothing })
    }

    /// Whether the source still holds the loaded content. Installs and rollbacks are always wanted.
    fn is_wanted(&self, request: &LoadRequest) -> bool {
        request.reason != LoadReason::Source
            || request.source == BUNDLED
            || self.files.get(&request.source).is_some_and(|file| file.is_loading(&request.digest))
    }

    /// Keeps a disabled plugin disabled, from any source. The content of its source is loaded when it is enabled.
    async fn stays_disabled(&mut self, name: &str, request: &LoadRequest) -> bool {
        let disabled = self.plugins.get(name).is_some_and(|managed| managed.is_disabled());
        if !disabled || request.reason == LoadReason::Reload {
            return false;
        }
        self.set_source(name, &request.source);
        if self.managed(name).is_removed() {
            self.managed(name).disable();
            self.take_out(name, MissingReason::Disabled);
        }
        self.disabled(name, "").await;
        true
    }

    /// Plans the swap: the current registry with the plugin added.
    pub(super) fn plan(&self, plugin: &Arc<Plugin>, request: &LoadRequest) -> Result<Plan, Failure> {
        let name = plugin.name();
        let current = self.registry.load_full();
        crate::controllers::check(&current, plugin).map_err(|circle| {
            Failure::new(Stage::Checking, "CircularWatch", format!("{circle}; remove one of the watches"))
        })?;
        let (adopted, cleared) = take_over_types(&current.without(name), plugin);
        let next = cleared.with(plugin)?;
        let data = self.plugins.get(name).map(|managed| &managed.record.data);
        // If the plugin did not serve when the server stopped, another plugin with its types may have stored more.
        let served = request.plugin_before.is_some() && data.is_some_and(|data| data.digest == request.digest);
        let before = data.into_iter().flat_map(|data| data.types.iter().cloned()).chain(adopted).collect();
        Ok(Plan { current, next, before, compared: self.starting && served })
    }

    /// Performs the last steps that can fail. Returns whether the swap may follow at once; if not, there were so many
    /// writes that all resources have to be compared again. Without a swap, the folder is restored.
    async fn prepare_swap(
        &mut self,
        plugin: &Plugin,
        request: &LoadRequest,
        decision: &TrustDecision,
        canary: &mut StoredComparison,
    ) -> Result<bool, Failure> {
        let name = plugin.name();
        if !self.components.has(name, &request.digest) {
            // The copy was removed with an earlier plugin of that name.
            self.components.clone().keep_in_background(name, request, decision).await?;
        }
        let mut replaced = None;
        if let LoadReason::Install(_) = &request.reason {
            // Rejects it for known faults before the folder is changed.
            if !canary.settle().await? {
                return Ok(false);
            }
            replaced = Some(self.install_into_folder(name, request, decision).await?);
        }
        let text = stage_text(plugin, request);
        self.set_loaded(name, State::Unknown, Stage::Swapping.reason(), text).await;
        let settled = match replaced.is_some() && failpoint::fails(&format!("Installing {}", request.source)) {
            true => Err(Failure::new(Stage::Swapping, "HostFault", "a test asked for this failure")),
            false => canary.settle().await,
        };
        if let Some(replaced) = replaced
            && !matches!(settled, Ok(true))
        {
            self.put_back(&request.source, replaced).await;
        }
        settled
    }

    async fn put_into_service(
        &mut self,
        plugin: Arc<Plugin>,
        request: &LoadRequest,
        decision: &TrustDecision,
        plan: Plan,
        canary: StoredComparison,
        begun: Instant,
    ) {
        let Plan { current, mut next, before, .. } = plan;
        let name = plugin.name().to_owned();
        for manifest in manifests_of(&current, &name) {
            next = next
                .with_missing_plugin(&manifest, MissingReason::Dropped, |decl| canary.lost_types().contains(&decl.gvk));
        }
        drop(canary);
        let old = current.plugin(&name).cloned();
        drop(current);
        self.swap(next);
        failpoint::reached(&format!("Swapping {}", request.source));

        self.record_loaded(&plugin, request, decision, &before);
        plugin.record_serving(old.is_some());
        self.watch_health(&plugin);
        let version = plugin.version().to_owned();
        let types = plugin.manifest().types.len();
        drop(plugin);
        self.serving(&name).await;
        let took_ms = begun.elapsed().as_millis() as u64;
        let source = match request.source.as_str() {
            BUNDLED => format!("bundled {name}"),
            file => self.path(file).display().to_string(),
        };
        tracing::info!(plugin = name, version, types, took_ms, "loaded plugin from {source}");
        self.migrate(&name, old.as_ref().map(Arc::downgrade));
        if let Some(old) = old {
            self.drain_old(&name, old);
        }
        let data = &self.managed(&name).record.data;
        let (digest, previous) = (data.digest.clone(), data.previous_digest.clone());
        self.components.prune(&name, &[&digest, &previous]);
    }

    fn watch_health(&self, plugin: &Plugin) {
        let (mut changes, health) = (plugin.health().subscribe(), self.health.clone());
        // Ends with the plugin; it does not keep the plugin alive.
        self.work.spawn(async move {
            while changes.changed().await.is_ok() {
                health.notify_one();
            }
        });
    }
}

fn stage_text(plugin: &Plugin, request: &LoadRequest) -> String {
    format!("version {} ({}) of {}", plugin.version(), short(&request.digest), request.source)
}
