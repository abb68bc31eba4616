//! A loaded plugin: compiled, its manifest checked, ready to be instantiated.
//!
//! Loading parses the whole file, compiles it (or takes it from the cache), compares imports and exports with the
//! contract, and calls `describe` once for each digest, under limits. Nothing of it touches plugins that serve already.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;
use wasmtime::{
    Engine,
    component::{Component, InstancePre},
};

use crate::{
    bindings::{
        authorizes::AuthorizesIndices, described::DescribedIndices, mutates::MutatesIndices, upgrades::UpgradesIndices,
        validates::ValidatesIndices,
    },
    cache, configure,
    contract::{self, Exports},
    engine::{Inner, Sandbox},
    error::{HookError, HookFault, LoadError},
    health::Health,
    host::wasi,
    limits::Limits,
    manifest::Manifest,
    memo::Memo,
    session,
    settings::{self, PluginSettings},
    state::State,
};

/// A plugin that can be called.
pub struct Plugin {
    manifest: Manifest,
    digest: String,
    size: usize,
    health: Health,
    pub(crate) limits: Arc<Limits>,
    /// The settings it was loaded with, as JSON; they never change.
    pub(crate) settings: Arc<str>,
    pub(crate) sandbox: Arc<Inner>,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Indices,
    /// Bounds the requests of this plugin, so that it cannot take every slot of the pool.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) memo: Memo,
    backtraces: Throttle,
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
        let limit = inner.limits.component_bytes;
        if bytes.len() > limit {
            return Err(LoadError::TooLarge { size: bytes.len(), limit });
        }
        let digest = cache::digest(bytes);
        let cached = inner.cache.get(&inner.engine, &digest);
        let from_cache = cached.is_some();
        let (component, known) = match cached {
            Some(entry) => (entry.component, Some(entry.manifest)),
            None => (compile(&inner, bytes).await?, None),
        };

        let exports = contract::check(&inner.engine, &component)?;
        check_appetite(&component, &inner.limits)?;
        let mut linker = inner.linker.clone();
        let pre = wasi::link(&mut linker, &inner.engine, &component)
            .and_then(|()| linker.instantiate_pre(&component))
            .map_err(|e| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") })?;
        component
            .initialize_copy_on_write_image()
            .map_err(|source| LoadError::Host { what: "mapping the component's memory image", source })?;

        let described = match known {
            Some(bytes) => bytes,
            None => describe(&inner, called, &pre).await?,
        };
        let manifest = Manifest::read(&described, exports)?;
        let indices = Indices::find(&pre, exports)?;
        if !from_cache {
            inner.cache.put(&digest, &component, &described);
        }

        let limits = Arc::new(inner.limits.lowered_to(&manifest.limits));
        let settings = settings.text(&manifest.name, limits.settings_bytes)?;
        if exports.configuring {
            configure::check(&inner, &manifest, &limits, &settings, &pre).await?;
        }
        Ok(Arc::new(Self {
            health: Health::default(),
            digest,
            size: bytes.len(),
            turns: Arc::new(Semaphore::new(limits.concurrency.max(1))),
            memo: Memo::new(limits.remembered_decisions),
            manifest,
            limits,
            settings,
            sandbox: inner,
            pre,
            exports: indices,
            backtraces: Throttle::default(),
        }))
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

    /// The settings that it was loaded with: an object, as JSON.
    #[must_use]
    pub fn settings(&self) -> &str {
        &self.settings
    }

    /// How its hooks have been doing.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The limits that hold for it.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Blames this plugin for an answer that breaks a rule of the contract, which only its caller can see.
    #[must_use]
    pub fn unusable(&self, hook: &'static str, what: String) -> HookError {
        self.fault(hook, HookFault::Answer(what), None)
    }

    /// Makes an error of this plugin, and writes what is known about it to the log, at most one backtrace a second.
    pub(crate) fn fault(&self, hook: &'static str, fault: HookFault, cause: Option<&wasmtime::Error>) -> HookError {
        let error = HookError { plugin: self.name().to_owned(), version: self.version().to_owned(), hook, fault };
        metrics::counter!(
            "mortise_plugin_faults_total",
            "plugin" => error.plugin.clone(), "hook" => hook, "kind" => error.fault.kind()
        )
        .increment(1);
        if let Some(missed) = self.backtraces.admit() {
            let backtrace = cause.map(|e| format!("{e:?}")).unwrap_or_default();
            tracing::error!(target: "plugin", plugin = self.name(), missed, "{error}\n{backtrace}");
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

async fn compile(sandbox: &Inner, bytes: &[u8]) -> Result<Component, LoadError> {
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
    let (engine, bytes, threads) = (sandbox.engine.clone(), bytes.to_vec(), sandbox.compile_threads());
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

/// Refuses what could not be instantiated anyway, with a better message.
fn check_appetite(component: &Component, limits: &Limits) -> Result<(), LoadError> {
    let Some(needs) = component.resources_required() else {
        return Err(LoadError::NotAComponent {
            what: "it instantiates modules that it imports; a plugin must be complete in itself".into(),
        });
    };
    let hungry = |what, limit, setting| Err(LoadError::TooHungry { what, limit, setting });
    let memory = needs.max_initial_memory_size.unwrap_or(0);
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
        LoadError::Describe(HookError { plugin: called.to_owned(), version: "(unknown)".into(), hook: HOOK, fault })
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
        let instance = pre.instantiate_async(&mut store).await?;
        let described = indices.load(&mut store, &instance)?;
        described.mortise_plugin_plugin().call_describe(&mut store).await
    };
    match tokio::time::timeout(within + session::GRACE, call).await {
        Ok(Ok(bytes)) if bytes.len() > limits.reply_bytes => Err(fault(HookFault::Reply { limit: limits.reply_bytes })),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(e)) => {
            let kind = session::classify(&e, store.data());
            tracing::error!(target: "plugin", plugin = called, "hook {HOOK} {kind}\n{e:?}");
            Err(fault(if matches!(kind, HookFault::Deadline { .. }) { late } else { kind }))
        }
        Err(_) => Err(fault(late)),
    }
}

/// Lets one event a second through, and counts the rest.
#[derive(Default)]
struct Throttle {
    /// Milliseconds since [`epoch`], plus one, of the last event that was let through.
    last: AtomicU64,
    missed: AtomicU64,
}

impl Throttle {
    /// How many were held back since the last one that was let through; none when this one is held back too.
    fn admit(&self) -> Option<u64> {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let now = START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1;
        let last = self.last.load(Ordering::Relaxed);
        let due = last == 0 || now.saturating_sub(last) >= Duration::from_secs(1).as_millis() as u64;
        if due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            Some(self.missed.swap(0, Ordering::Relaxed))
        } else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}
