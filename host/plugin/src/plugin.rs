//! A loaded plugin: compiled, its manifest checked, ready to be instantiated.
//!
//! Loading parses the whole file, compiles it (or takes it from the cache), compares imports and exports with the
//! contract, and calls `describe` once for each digest, under limits. Nothing of it touches plugins that serve already.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::types::Gvk;
use tokio::sync::Semaphore;
use wasmtime::{
    Engine,
    component::{Component, InstancePre},
};

use crate::{
    aside::{Aside, Threads},
    backtrace,
    bindings::{
        authorizes::AuthorizesIndices, described::DescribedIndices, mutates::MutatesIndices, upgrades::UpgradesIndices,
        validates::ValidatesIndices,
    },
    cache, configure,
    contract::{self, Exports},
    controllers::ControllerDecl,
    engine::{Inner, Sandbox},
    error::{HookError, HookFault, LoadError},
    grants::{Grants, Permit},
    health::{Health, HealthState, HookHealth},
    hook::Hook,
    host::wasi,
    limits::Limits,
    manifest::Manifest,
    memo::Memo,
    meter::{self, Meter},
    session,
    settings::{self, PluginSettings},
    state::State,
    throttle::Throttle,
    workshop::Fitted,
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
    pub(crate) memo: Memo,
    health: Health,
    pub(crate) meter: Arc<Meter>,
    /// What it was granted when it was loaded.
    grants: Grants,
    /// Its controllers, in an engine of their own; none when it has no controllers.
    pub(crate) fitted: Option<Arc<Fitted>>,
    backtraces: Throttle,
    aside: Aside,
    /// Of its controllers: heavy ones do not make its hooks slow.
    controllers_aside: Aside,
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
        let Prepared { digest, component, pre, exports, described, manifest, compiling } =
            prepare(&inner, called, bytes).await?;
        let indices = Indices::find(&pre, exports)?;

        let grants = settings.grants_of(&manifest.name).clone();
        let fitted = fit(&inner, (&digest, bytes, &component, &described), exports, &manifest, grants.clone()).await?;
        let limits = Arc::new(inner.limits.lowered_to(&manifest.limits));
        let settings = settings.text(&manifest.name, limits.settings_bytes)?;
        if exports.configuring {
            configure::check(&inner, &manifest, &limits, &settings, &pre).await?;
        }
        let meter = Arc::new(Meter::new(inner.names.label(&manifest.name)));
        if let Some(compiling) = compiling {
            meter.compiled(compiling);
        }
        Ok(Arc::new(Self {
            digest,
            size: bytes.len(),
            turns: Arc::new(Semaphore::new(limits.concurrency.max(1))),
            memo: Memo::new(limits.remembered_decisions),
            health: health(&inner, &manifest, meter.clone()),
            meter,
            manifest,
            limits,
            settings,
            sandbox: inner,
            pre,
            exports: indices,
            grants,
            fitted: fitted.map(Arc::new),
            backtraces: Throttle::default(),
            aside: Aside::default(),
            controllers_aside: Aside::default(),
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
        meter::loaded(&self.meter.label(), if replaced { "replaced" } else { "new" });
        for hook in self.health.report().hooks {
            if let Some(of) = Hook::named(hook.hook) {
                self.meter.hook(of).is(hook.state);
            }
        }
    }

    /// Tells the metrics that nothing of its name serves any more.
    pub fn no_longer_serves(&self) {
        Hook::ALL.into_iter().for_each(|hook| self.meter.hook(hook).is(HealthState::Healthy));
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
    pub fn is_set_aside(&self) -> bool {
        self.aside.is_set(self.sandbox.made) || self.controllers_aside.is_set(self.sandbox.made)
    }

    /// The threads that its calls of this kind belong on while they are set aside; none while they are not.
    pub(crate) fn aside(&self, hook: Hook) -> Option<&Threads> {
        let aside = if hook.is_of_controllers() { &self.controllers_aside } else { &self.aside };
        aside.is_set(self.sandbox.made).then_some(&self.sandbox.aside)
    }

    /// Sets its hooks aside, or its controllers if they gave the cause, from now until a while after the last one.
    pub(crate) fn set_aside(&self, hook: &'static str, why: impl FnOnce() -> String) {
        let length = Duration::from_millis(self.limits.aside_ms);
        let (aside, what) = match Hook::named(hook) {
            Some(hook) if hook.is_of_controllers() => (&self.controllers_aside, "controllers"),
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
            self.set_aside(hook.name(), || error.fault.to_string());
        }
        error
    }

    /// Makes an error of this plugin, and writes what is known about it to the log, at most one backtrace a second.
    pub(crate) fn fault(&self, hook: &'static str, fault: HookFault, cause: Option<&wasmtime::Error>) -> HookError {
        let counts = fault.is_of_the_plugin();
        let error =
            HookError { plugin: self.name().to_owned(), version: self.version().to_owned(), hook, fault, counts };
        self.meter.fault(hook, error.fault.kind());
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

/// A component that fits the contract, and what it says about itself.
struct Prepared {
    digest: String,
    component: Component,
    pre: InstancePre<State>,
    exports: Exports,
    described: Vec<u8>,
    manifest: Manifest,
    /// How long compiling took; none for one that was in the cache.
    compiling: Option<Duration>,
}

/// The first part of loading: what depends on the component alone.
async fn prepare(inner: &Arc<Inner>, called: &str, bytes: &[u8]) -> Result<Prepared, LoadError> {
    let limit = inner.limits.component_bytes;
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let digest = cache::digest(bytes);
    let cached = inner.cache.get(&inner.engine, &digest);
    let from_cache = cached.is_some();
    let begun = Instant::now();
    let (component, known) = match cached {
        Some(entry) => (entry.component, Some(entry.manifest)),
        None => (compile(&inner.engine, inner, bytes).await?, None),
    };
    let compiling = (!from_cache).then(|| begun.elapsed());

    let exports = contract::check(&inner.engine, &component)?;
    check_appetite(&component, &inner.limits)?;
    let mut linker = inner.linker.clone();
    let pre = wasi::link(&mut linker, &inner.engine, &component, false)
        .and_then(|()| linker.instantiate_pre(&component))
        .map_err(|e| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") })?;
    component
        .initialize_copy_on_write_image()
        .map_err(|source| LoadError::Host { what: "mapping the component's memory image", source })?;

    let described = match known {
        Some(bytes) => bytes,
        None => describe(inner, called, &pre).await?,
    };
    let manifest = Manifest::read(&described, exports)?;
    if !from_cache {
        inner.cache.put(&digest, &component, &described);
    }
    Ok(Prepared { digest, component, pre, exports, described, manifest, compiling })
}

/// The plugin's controllers in their own engine, if it has any and they have what they need.
async fn fit(
    sandbox: &Inner,
    file: (&str, &[u8], &Component, &[u8]),
    exports: Exports,
    manifest: &Manifest,
    grants: Grants,
) -> Result<Option<Fitted>, LoadError> {
    if manifest.controllers.is_empty() {
        return Ok(None);
    }
    let permit = Permit::new(manifest, grants);
    permit.check(manifest).map_err(LoadError::NotGranted)?;
    let limits = sandbox.controller_limits(&manifest.limits);
    sandbox.workshop()?.fit(sandbox, file, exports, limits, permit).await.map(Some)
}

/// A health that says in log and metrics what becomes of the hooks.
fn health(sandbox: &Inner, manifest: &Manifest, meter: Arc<Meter>) -> Health {
    let used = Hook::ALL.into_iter().filter(|hook| hook.is_used(manifest)).collect();
    let (plugin, logs) = (manifest.name.clone(), sandbox.logs.clone());
    let listener = move |hook: Hook, before: HealthState, now: &HookHealth| {
        meter.hook(hook).is(now.state);
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

pub(crate) async fn compile(engine: &Engine, sandbox: &Inner, bytes: &[u8]) -> Result<Component, LoadError> {
    let not = |what: String| LoadError::NotAComponent { what };
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(not("it is precompiled machine code, which is never taken from users; give the .wasm file".into()));
    }
    match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            return Err(not(
                "it is a core module; turn it into a component, as guest-build and wit-component do".into()
            ));
        }
        [0, b'a', b's', b'm', ..] => {}
        _ => return Err(not("it does not begin as WebAssembly does; the file is truncated or something else".into())),
    }
    let (engine, bytes, threads) = (engine.clone(), bytes.to_vec(), sandbox.compile_threads());
    // Threads of its own, a few and gone afterwards: calls that are being served keep the other cores.
    let compiled = tokio::task::spawn_blocking(move || {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("mortise-compiler-{n}"))
            .build()
            .map_err(wasmtime::Error::new)?;
        pool.install(|| Component::from_binary(&engine, &bytes))
    })
    .await;
    match compiled {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(e)) => Err(not(format!("{e:#}"))),
        Err(_) => Err(not("the compiler gave up on it".into())),
    }
}

/// What the largest memory of a component begins with, bytes. Wasmtime says it in pages.
pub(crate) fn least_memory(component: &Component) -> u64 {
    let pages = component.resources_required().and_then(|needs| needs.max_initial_memory_size).unwrap_or(0);
    pages.saturating_mul(64 << 10)
}

/// Refuses what could not be instantiated anyway, with a better message.
fn check_appetite(component: &Component, limits: &Limits) -> Result<(), LoadError> {
    let Some(needs) = component.resources_required() else {
        return Err(LoadError::NotAComponent {
            what: "it instantiates modules that it imports; a plugin must be complete in itself".into(),
        });
    };
    let hungry = |what, limit, setting| Err(LoadError::TooHungry { what, limit, setting });
    let memory = least_memory(component);
    if memory > limits.memory_bytes as u64 {
        return hungry(format!("{memory} bytes of memory"), limits.memory_bytes, "sandbox.memory_bytes");
    }
    if needs.num_memories as usize > limits.memories {
        return hungry(format!("{} memories", needs.num_memories), limits.memories, "sandbox.memories");
    }
    if needs.num_tables as usize > limits.tables {
        return hungry(format!("{} tables", needs.num_tables), limits.tables, "sandbox.tables");
    }
    let table = needs.max_initial_table_size.unwrap_or(0);
    if table > limits.table_elements as u64 {
        return hungry(format!("a table of {table} elements"), limits.table_elements, "sandbox.table_elements");
    }
    Ok(())
}

/// Calls `describe` in an instance of its own.
async fn describe(sandbox: &Arc<Inner>, called: &str, pre: &InstancePre<State>) -> Result<Vec<u8>, LoadError> {
    const HOOK: &str = "describe";
    let limits = &sandbox.limits;
    let fault = |fault| {
        LoadError::Describe(HookError {
            plugin: called.to_owned(),
            version: "(unknown)".into(),
            hook: HOOK,
            fault,
            counts: false,
        })
    };
    let _tick = sandbox.tick();
    let within = limits.describe_deadline();
    let late = HookFault::Deadline { limit_ms: limits.describe_deadline_ms, setting: "sandbox.describe_deadline_ms" };
    let slot = tokio::time::timeout(within, sandbox.slots.clone().acquire_owned()).await;
    let Ok(Ok(_slot)) = slot else {
        return Err(fault(HookFault::Busy { limit: sandbox.slot_count, setting: "sandbox.instances" }));
    };
    let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
    let indices = DescribedIndices::new(pre).map_err(contract)?;
    let mut store = session::store(sandbox, called.into(), settings::NONE.into(), limits.clone(), within)
        .map_err(|source| LoadError::Host { what: "setting up a store", source })?;
    let call = async {
        store.data_mut().hook = HOOK;
        let instance = pre.instantiate_async(&mut store).await?;
        let described = indices.load(&mut store, &instance)?;
        described.mortise_plugin_plugin().call_describe(&mut store).await
    };
    match tokio::time::timeout(within + session::GRACE, call).await {
        Ok(Ok(bytes)) if bytes.len() > limits.reply_bytes => Err(fault(HookFault::Reply { limit: limits.reply_bytes })),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(e)) => {
            let kind = session::classify(&e, store.data());
            let text = format!("hook {HOOK} {kind}\n{}", backtrace::render(&e));
            sandbox.logs.host(called, HOOK, 1, text.trim_end().to_owned());
            Err(fault(if matches!(kind, HookFault::Deadline { .. }) { late } else { kind }))
        }
        Err(_) => Err(fault(late)),
    }
}
