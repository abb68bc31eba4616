//! A loaded plugin: compiled, its manifest checked, ready to be instantiated.
//!
//! Loading prepares the component (`prepare`), sets it to its settings and lets it judge them, and makes its controllers
//! ready, if it has some. Nothing of it touches plugins that serve already.

use std::{io, path::Path, sync::Arc, time::Duration};

use mortise_resource::types::Gvk;
use tokio::sync::Semaphore;
use wasmtime::component::{Component, InstancePre};

use crate::{
    bindings::{
        authorizes::AuthorizesIndices, mutates::MutatesIndices, upgrades::UpgradesIndices, validates::ValidatesIndices,
    },
    call::decision_cache::DecisionCache,
    engine::{
        controller_engine::ControllerComponent,
        low_priority::{LowPriority, LowPriorityThreads},
    },
    error::{HookError, HookFault, LoadError},
    grants::{Grants, Permit},
    health::{
        backtrace,
        breaker::HealthState,
        metrics::{PluginMetrics, count_load},
        plugin_health::{Health, HookHealth},
        throttle::Throttle,
    },
    hook::Hook,
    host::state::State,
    limits::Limits,
    load::{
        component::{CheckedComponent, prepare},
        contract::{self, Exports},
        settings::PluginSettings,
        settings_check,
    },
    manifest::{controllers::ControllerDecl, document::Manifest},
    sandbox::{Inner, Sandbox},
};

/// A plugin that can be called.
pub struct Plugin {
    manifest: Manifest,
    digest: String,
    size: usize,
    pub(crate) limits: Arc<Limits>,
    /// The settings it was loaded with, as JSON; they never change.
    pub(crate) settings: Arc<str>,
    pub(crate) sandbox: Arc<Inner>,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Indices,
    /// Bounds the requests of this plugin, so that it cannot take every slot of the pool.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) decision_cache: DecisionCache,
    health: Health,
    pub(crate) metrics: Arc<PluginMetrics>,
    /// What it was granted when it was loaded.
    grants: Grants,
    /// Its controllers, in an engine of their own; none when it has no controllers.
    pub(crate) controllers: Option<Arc<ControllerComponent>>,
    backtraces: Throttle,
    aside: LowPriority,
    /// Of its controllers: heavy ones do not make its hooks slow.
    controllers_priority: LowPriority,
}

/// Where the hooks are in the component.
pub(crate) struct Indices {
    pub(crate) mutating: Option<MutatesIndices>,
    pub(crate) validating: Option<ValidatesIndices>,
    pub(crate) authorizing: Option<AuthorizesIndices>,
    pub(crate) upgrading: Option<UpgradesIndices>,
}

impl Plugin {
    /// Reads and loads a component from a file.
    ///
    /// # Errors
    /// Whatever [`Plugin::load`] finds, and a file that cannot be read.
    pub async fn load_file(sandbox: &Sandbox, path: &Path, settings: &PluginSettings) -> Result<Arc<Self>, LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
        let limit = sandbox.inner().limits.component_bytes;
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            let what = "not a file; a plugin is one .wasm file";
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        if size > limit {
            return Err(LoadError::TooLarge { size, limit });
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let called = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::load(sandbox, &called, &bytes, settings).await
    }

    /// Loads a component. `called` names it in errors until its manifest is known. Of `settings` it gets those of its
    /// name; when it has a check for them, that runs now, under limits, in an instance of its own.
    ///
    /// Compiling takes tens of milliseconds and happens off the calling thread; a component in the cache takes about
    /// one.
    ///
    /// # Errors
    /// What is wrong with the component, and what to do about it.
    pub async fn load(
        sandbox: &Sandbox,
        called: &str,
        bytes: &[u8],
        settings: &PluginSettings,
    ) -> Result<Arc<Self>, LoadError> {
        let inner = sandbox.inner().clone();
        let CheckedComponent { digest, component, pre, exports, described, manifest, compiling } =
            prepare(&inner, called, bytes).await?;
        let indices = Indices::find(&pre, exports)?;

        let grants = settings.grants_of(&manifest.name).clone();
        let controllers =
            fit(&inner, (&digest, bytes, &component, &described), exports, &manifest, grants.clone()).await?;
        let limits = Arc::new(inner.limits.lowered_to(&manifest.limits));
        let settings = settings.text(&manifest.name, limits.settings_bytes)?;
        if exports.configuring {
            settings_check::check(&inner, &manifest, &limits, &settings, &pre).await?;
        }
        let metrics = Arc::new(PluginMetrics::new(inner.names.label(&manifest.name)));
        if let Some(compiling) = compiling {
            metrics.compiled(compiling);
        }
        Ok(Arc::new(Self {
            digest,
            size: bytes.len(),
            turns: Arc::new(Semaphore::new(limits.concurrency.clamp(1, Semaphore::MAX_PERMITS))),
            decision_cache: DecisionCache::new(limits.remembered_decisions),
            health: health(&inner, &manifest, metrics.clone()),
            metrics,
            manifest,
            limits,
            settings,
            sandbox: inner,
            pre,
            exports: indices,
            grants,
            controllers: controllers.map(Arc::new),
            backtraces: Throttle::default(),
            aside: LowPriority::default(),
            controllers_priority: LowPriority::default(),
        }))
    }

    /// What a component says about itself, after the checks that come before its grants and settings matter.
    ///
    /// # Errors
    /// Those of [`Plugin::load`] up to there.
    pub async fn describe(sandbox: &Sandbox, called: &str, bytes: &[u8]) -> Result<Manifest, LoadError> {
        Ok(prepare(sandbox.inner(), called, bytes).await?.manifest)
    }

    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.manifest.version
    }

    /// Whether it can bring data of older schema versions to its own.
    #[must_use]
    pub fn upgrades(&self) -> bool {
        self.exports.upgrading.is_some()
    }

    /// SHA-256 of the component, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Size of the component, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether these are the settings and the grants that it was loaded with.
    #[must_use]
    pub fn is_set_to(&self, settings: &PluginSettings) -> bool {
        let now = settings.of(self.name()).to_string();
        *self.settings == *now && self.grants == *settings.grants_of(self.name())
    }

    /// Its controllers that are to run with the settings that it was loaded with.
    pub fn controllers(&self) -> impl Iterator<Item = &ControllerDecl> {
        let settings: serde_json::Value = serde_json::from_str(&self.settings).unwrap_or_default();
        let runs = move |decl: &&ControllerDecl| {
            decl.only_if.is_empty() || settings.get(&decl.only_if) == Some(&serde_json::Value::Bool(true))
        };
        self.manifest.controllers.iter().filter(runs)
    }

    /// What it is granted beyond its own types.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// The limits that hold for it.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How its hooks are doing, and which of them are quarantined.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Tells the metrics that this component serves from now on: for whoever keeps the registry, since one that is only
    /// looked at must not show. `replaced` says that another one of its name did until now.
    pub fn now_serves(&self, replaced: bool) {
        count_load(&self.metrics.label(), if replaced { "replaced" } else { "new" });
        for hook in self.health.report().hooks {
            if let Some(of) = Hook::named(hook.hook) {
                self.metrics.hook(of).is(hook.state);
            }
        }
    }

    /// Tells the metrics that nothing of its name serves any more.
    pub fn no_longer_serves(&self) {
        Hook::ALL.into_iter().for_each(|hook| self.metrics.hook(hook).is(HealthState::Healthy));
    }

    /// Whether a type (`demo.v2.Artist`) is written without its `mutate` while that is broken, as the setting
    /// `quarantine.skip_mutate` says.
    #[must_use]
    pub fn skips_broken_mutate(&self, gvk: &Gvk) -> bool {
        let skipped = &self.sandbox.quarantine.skip_mutate;
        !skipped.is_empty() && skipped.contains(&gvk.to_string())
    }

    /// Whether its hooks, or its controllers, run at low priority now, since a call took more than its share or faulted.
    #[must_use]
    pub fn has_low_priority(&self) -> bool {
        self.aside.is_set(self.sandbox.made) || self.controllers_priority.is_set(self.sandbox.made)
    }

    /// The threads that its calls of this kind belong on while they are set aside; none while they are not.
    pub(crate) fn aside(&self, hook: Hook) -> Option<&LowPriorityThreads> {
        let aside = if hook.is_of_controllers() { &self.controllers_priority } else { &self.aside };
        aside.is_set(self.sandbox.made).then_some(&self.sandbox.aside)
    }

    /// Sets its hooks aside, or its controllers if they gave the cause, from now until a while after the last one.
    pub(crate) fn lower_priority(&self, hook: &'static str, why: impl FnOnce() -> String) {
        let length = Duration::from_millis(self.limits.low_priority_ms);
        let (aside, what) = match Hook::named(hook) {
            Some(hook) if hook.is_of_controllers() => (&self.controllers_priority, "controllers"),
            _ => (&self.aside, "hooks"),
        };
        if aside.set(self.sandbox.made, length) {
            let text = format!(
                "set aside: its {what} run at low priority until {length:?} have passed without cause; {}",
                why()
            );
            self.sandbox.logs.host(self.name(), hook, 2, text);
        }
    }

    /// Blames this plugin for an answer that breaks a rule of the contract, which only its caller can see.
    #[must_use]
    pub fn unusable(&self, hook: &'static str, what: String) -> HookError {
        let error = self.fault(hook, HookFault::Answer(what), None);
        if let Some(hook) = Hook::named(hook) {
            self.health.blame(hook, &error.fault);
            self.lower_priority(hook.name(), || error.fault.to_string());
        }
        error
    }

    /// Makes an error of this plugin, and writes what is known about it to the log, at most one backtrace a second.
    pub(crate) fn fault(&self, hook: &'static str, fault: HookFault, cause: Option<&wasmtime::Error>) -> HookError {
        let counts = fault.is_of_the_plugin();
        let error =
            HookError { plugin: self.name().to_owned(), version: self.version().to_owned(), hook, fault, counts };
        self.metrics.fault(hook, error.fault.kind());
        // What is quarantined was said when it was.
        let is_news = !matches!(error.fault, HookFault::Quarantined { .. });
        if let Some(missed) = is_news.then(|| self.backtraces.admit()).flatten() {
            let backtrace = cause.map(backtrace::render).unwrap_or_default();
            let more =
                if missed > 0 { format!(" ({missed} more faults since the last one said)") } else { String::new() };
            let text = format!("{error}{more}\n{backtrace}");
            self.sandbox.logs.host(self.name(), hook, 1, text.trim_end().to_owned());
        }
        error
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({} {} {})", self.name(), self.version(), self.digest)
    }
}

impl Indices {
    fn find(pre: &InstancePre<State>, exports: Exports) -> Result<Self, LoadError> {
        let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
        Ok(Self {
            mutating: exports.mutating.then(|| MutatesIndices::new(pre)).transpose().map_err(contract)?,
            validating: exports.validating.then(|| ValidatesIndices::new(pre)).transpose().map_err(contract)?,
            authorizing: exports.authorizing.then(|| AuthorizesIndices::new(pre)).transpose().map_err(contract)?,
            upgrading: exports.upgrading.then(|| UpgradesIndices::new(pre)).transpose().map_err(contract)?,
        })
    }
}

/// The plugin's controllers in their own engine, if it has any and they have what they need.
async fn fit(
    sandbox: &Inner,
    file: (&str, &[u8], &Component, &[u8]),
    exports: Exports,
    manifest: &Manifest,
    grants: Grants,
) -> Result<Option<ControllerComponent>, LoadError> {
    if manifest.controllers.is_empty() {
        return Ok(None);
    }
    let permit = Permit::new(manifest, grants);
    permit.check(manifest).map_err(LoadError::NotGranted)?;
    let limits = sandbox.controller_limits(&manifest.limits);
    sandbox.controller_engine()?.fit(sandbox, file, exports, limits, permit).await.map(Some)
}

/// A health that says in log and metrics what becomes of the hooks.
fn health(sandbox: &Inner, manifest: &Manifest, metrics: Arc<PluginMetrics>) -> Health {
    let used = Hook::ALL.into_iter().filter(|hook| hook.is_used(manifest)).collect();
    let (plugin, logs) = (manifest.name.clone(), sandbox.logs.clone());
    let listener = move |hook: Hook, before: HealthState, now: &HookHealth| {
        metrics.hook(hook).is(now.state);
        let (name, faults) = (hook.name(), now.faults);
        let (level, text) = match (before, now.state) {
            (_, HealthState::Quarantined) => {
                let wait = now.retry_in.unwrap_or_default();
                (1, format!("hook {name} is quarantined: {faults} faults so far; tried again in {wait:?}"))
            }
            (HealthState::Quarantined, HealthState::Probation) => {
                (2, format!("hook {name} is back from quarantine, on probation"))
            }
            (_, HealthState::Probation) => (2, format!("hook {name} is on probation: {faults} faults so far")),
            (_, HealthState::Healthy) => (3, format!("hook {name} is healthy again")),
        };
        logs.host(&plugin, name, level, text);
    };
    Health::new(sandbox.quarantine.clone(), used, Box::new(listener))
}
