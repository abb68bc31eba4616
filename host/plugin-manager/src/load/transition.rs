//! One load: a component becomes the plugin that serves, or does not.
//!
//! ```text
//!   without the lock:  compile ──▶ ┌──────────▶ compare with what is stored, keep a copy
//!                                  │                       │
//!   under the lock:      names and types fit? ◀────────────┘
//!                                  └──▶ what it was compared with still holds: look at what was
//!                                       written since, swap the registry, write the record
//! ```
//!
//! Other plugins may come and go while this one is compiled and compared. So everything that depends on them is
//! computed anew under the lock ([`ManagerState::plan`]); when that asks for another comparison, or the settings have
//! changed, what was done is discarded and done again. Nothing is changed before the swap but the record's condition,
//! and, by an install, the file of the folder, which is put back when the last look refuses.

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

/// What is to be done once the component fits what is stored.
struct Plan {
    /// The table that serves now.
    current: Arc<Registry>,
    /// The table with the plugin.
    next: Registry,
    /// The types as they were served last, by this plugin or by one that is gone.
    before: Vec<data::PluginType>,
    /// What is stored was compared with this component before the server stopped.
    compared: bool,
}

impl Plan {
    /// What the comparison with what is stored depends on. The tables are given up: they hold the versions of all
    /// plugins.
    fn assumptions(self) -> (Vec<data::PluginType>, bool) {
        (self.before, self.compared)
    }
}

/// Runs a stage. A panic refuses the component: it is a fault of ours that this component brings to light.
async fn catch_panic<T>(stage: Stage, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let panic = text.unwrap_or("without a text");
        let what = format!(
            "the load panicked ({panic}); this is a fault of Mortise, please report it with the log and the component"
        );
        Err(Failure::new(stage, "HostFault", what))
    })
}

impl Core {
    /// Takes a component through every stage. What is refused changes nothing but what the caller says about it. Takes
    /// the plugin's turn when its name is known, unless the caller has it.
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
                // Its settings are others by now.
                Ok(None) => {}
                Err(failure) => return Err(LoadRefusal { failure, name: Some(name) }),
            }
        }
    }

    /// From a component that described itself to a plugin that serves. Answers nothing when the settings it was loaded
    /// with are not those of the plugin any more.
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
            // Most of what was written meanwhile is looked at before the lock is taken.
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
    /// Whether the source holds what serves already, which may have been hidden by something broken meanwhile.
    async fn already_serving(&mut self, request: &LoadRequest, decision: &TrustDecision) -> Option<Loaded> {
        let name = request.plugin_before.clone()?;
        let same = |plugin: &&Arc<Plugin>| plugin.digest() == request.digest && plugin.has_settings(&self.settings);
        let serving = self.registry.load().plugin(&name).filter(same).cloned()?;
        if matches!(request.reason, LoadReason::Rollback { .. }) || !self.is_wanted(request) {
            return None;
        }
        // Another source may hold the same and be one too many. What fails here is said by the long way.
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

    /// Whether the source still holds what is loaded. What a caller sent or wants back is wanted in any case.
    fn is_wanted(&self, request: &LoadRequest) -> bool {
        request.reason != LoadReason::Source
            || request.source == BUNDLED
            || self.files.get(&request.source).is_some_and(|file| file.is_loading(&request.digest))
    }

    /// A plugin that is switched off stays off, wherever it comes from. What its source holds is looked at when it is
    /// switched on.
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

    /// The registry as it is at this moment, with the plugin added.
    fn plan(&mut self, plugin: &Arc<Plugin>, request: &LoadRequest) -> Result<Plan, Failure> {
        let name = plugin.name();
        if !self.plugins.contains_key(name) {
            self.managed(name).record.data.source.clone_from(&request.source);
        }
        let current = self.registry.load_full();
        crate::controllers::check(&current, plugin).map_err(|circle| {
            Failure::new(Stage::Checking, "CircularWatch", format!("{circle}; leave one of the watches out"))
        })?;
        let (adopted, cleared) = take_over_types(&current.without(name), plugin);
        let next = cleared.with(plugin)?;
        let data = &self.managed(name).record.data;
        // Of a plugin that did not serve at the stop, more may have been stored by another that had its types.
        let served = request.plugin_before.is_some() && data.digest == request.digest;
        let before = data.types.iter().cloned().chain(adopted).collect();
        Ok(Plan { current, next, before, compared: self.starting && served })
    }

    /// The last steps that can fail. Answers whether the swap may follow at once; if not, so much was written meanwhile
    /// that everything has to be compared again. Unless it may, the folder is as it was.
    async fn prepare_swap(
        &mut self,
        plugin: &Plugin,
        request: &LoadRequest,
        decision: &TrustDecision,
        canary: &mut StoredComparison,
    ) -> Result<bool, Failure> {
        let name = plugin.name();
        if !self.components.has(name, &request.digest) {
            // It was dropped with a plugin of that name of which nothing was left.
            self.components.clone().keep_in_background(name, request, decision).await?;
        }
        let mut replaced = None;
        if let LoadReason::Install(_) = &request.reason {
            // What is known by now refuses it before the folder is changed.
            if !canary.settle().await? {
                return Ok(false);
            }
            replaced = Some(self.install_into_folder(name, request, decision).await?);
        }
        let text = stage_text(plugin, request);
        self.set_loaded(name, State::Unknown, Stage::Swapping.reason(), text).await;
        let settled = match replaced.is_some() && failpoint::fails(&format!("Installing {}", request.source)) {
            true => Err(Failure::new(Stage::Swapping, "HostFault", "it was told to fail")),
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
            next =
                next.with_missing_plugin(&manifest, MissingReason::Dropped, |decl| canary.lost().contains(&decl.gvk));
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
        // Ends with the plugin, which it does not keep.
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
