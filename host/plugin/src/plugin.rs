//! A loaded plugin: compiled, its manifest checked, ready to be instantiated.
//!
//! Loading checks and compiles the component (`load`), lets it check its settings, and compiles it a second time for
//! the engine of controllers, if it has controllers or the hook `import`. Plugins that serve already are not touched.

use std::{sync::Arc, time::Duration};

use mortise_resource::types::Gvk;
use tokio::sync::Semaphore;

use crate::{
    call::{
        decision_cache::DecisionCache,
        export::HookExports,
        hook_instance::{HookComponent, HookInstance},
        hook_slots::{CallerClass, SlotKey},
        warm_instance::ControllerComponent,
    },
    engine::low_priority::LowPriorityThreads,
    error::{HookError, LoadError},
    grants::{Grants, Instances},
    health::{
        breaker::{CallerId, HealthState},
        metrics::{PluginMetrics, count_load},
        plugin_health::Health,
        reporter::Reporter,
    },
    hook::Hook,
    host::lookup_host::Lookup,
    limits::Limits,
    load::{
        compile::Compiled,
        component::{CheckedComponent, check_component},
        contract::{self, imports_lookup},
        controller_engine::ControllerEngine,
        grants_check::{permit, running_controllers},
        settings::PluginSettings,
        settings_check,
        without_imports::without_imports,
    },
    manifest::{controllers::ControllerDecl, document::Manifest, exports::Exports},
    opaque::{Owned, Shared, share},
    sandbox::{Inner, Sandbox},
};

/// A plugin that can be called.
pub struct Plugin {
    manifest: Manifest,
    digest: String,
    size: usize,
    pub(crate) sandbox: Shared<Inner>,
    pub(crate) hooks: Shared<HookComponent>,
    /// The same component without imports, for its functions; `None` if it has no functions.
    functions: Option<Shared<HookComponent>>,
    pub(crate) decision_cache: DecisionCache,
    /// Grants that the plugin was loaded with.
    grants: Grants,
    /// Whether an instance may serve several requests.
    reuses: bool,
    /// Controllers and `import` of the plugin, in an engine of their own; `None` if it has neither.
    pub(crate) controllers: Option<(Shared<ControllerEngine>, Shared<ControllerComponent>)>,
}

impl Plugin {
    /// Loads a component. `called` names it in errors until its manifest is known. The plugin gets its own part of
    /// `settings`, by its name; its check of them, if any, runs now, under limits, in an instance of its own.
    ///
    /// Compiling takes tens of milliseconds and happens off the calling thread; a component in the cache takes about
    /// one.
    ///
    /// # Errors
    /// The fault of the component, and the next step.
    pub async fn load(
        sandbox: &Sandbox,
        called: &str,
        bytes: &[u8],
        settings: &PluginSettings,
    ) -> Result<Arc<Self>, LoadError> {
        let inner = sandbox.inner().clone();
        let CheckedComponent { digest, compiled, pre, exports, described, manifest, compiling } =
            check_component(&inner, called, bytes).await?;
        let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
        let hook_exports = HookExports::find(&pre, exports).map_err(contract)?;

        let grants = settings.grants_of(&manifest.name).clone();
        let component = &compiled.component;
        let file = (digest.as_str(), bytes, &compiled, described.as_slice());
        let own = settings.for_plugin(&manifest.name).to_string();
        let controllers = compile_for_controllers(&inner, file, exports, &manifest, grants.clone(), &own).await?;
        let searches = imports_lookup(&inner.engine, component)
            .then(|| permit(&manifest, grants.clone(), &own).map(Arc::new))
            .transpose()?;
        let limits = inner.limits.for_plugin(&manifest.limits, &grants.limits, inner.pool.reservation);
        let limits = Arc::new(limits.map_err(|most| LoadError::Settings {
            key: format!("plugin.{}.grants.limits.memory_bytes", manifest.name),
            what: format!("a memory has at most {most} bytes here; grant less, or raise sandbox.memory_bytes"),
        })?);
        let settings = settings.text(&manifest.name, limits.settings_bytes)?;
        if exports.configuring {
            settings_check::check(&inner, &manifest, &limits, &settings, &pre).await?;
        }
        let metrics = PluginMetrics::new(inner.names.label(&manifest.name));
        if let Some(compiling) = compiling {
            metrics.record_compilation(compiling);
        }
        let used = Hook::ALL.into_iter().filter(|hook| hook.is_used(&manifest)).collect();
        let reporter = Reporter::new(
            (manifest.name.clone(), manifest.version.clone()),
            inner.logs.clone(),
            metrics,
            (inner.quarantine.clone(), used),
            (Duration::from_millis(limits.low_priority_ms), inner.made),
        );
        let hooks = HookComponent {
            engine: inner.engine.clone(),
            pre,
            exports: Arc::new(hook_exports),
            turns: Arc::new(Semaphore::new(limits.concurrency.clamp(1, Semaphore::MAX_PERMITS))),
            slots: inner.slots.clone(),
            key: SlotKey { plugin: inner.slots.plugin(), functions: false },
            ticker: inner.ticker.clone(),
            reporter: Arc::new(reporter),
            searches,
            settings,
            limits,
        };
        let functions = match manifest.functions.is_empty() {
            true => None,
            false => Some(share(HookComponent {
                pre: without_imports(component).map_err(contract)?,
                key: SlotKey { functions: true, ..hooks.key },
                ..hooks.clone()
            })),
        };
        let asks = manifest.reuses_instances && grants.instances == Instances::Reuse;
        Ok(Arc::new(Self {
            functions,
            reuses: asks || inner.reuses_all,
            digest,
            size: bytes.len(),
            decision_cache: DecisionCache::new(hooks.limits.remembered_decisions),
            manifest,
            sandbox: inner,
            hooks: share(hooks),
            grants,
            controllers,
        }))
    }

    /// Reads the manifest of a component, after the checks that do not depend on grants and settings.
    ///
    /// # Errors
    /// Those of [`Plugin::load`] up to there.
    pub async fn describe(sandbox: &Sandbox, called: &str, bytes: &[u8]) -> Result<Manifest, LoadError> {
        Ok(check_component(sandbox.inner(), called, bytes).await?.manifest)
    }

    /// Manifest of the plugin.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Name of the plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Version of the plugin.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.manifest.version
    }

    /// Whether the plugin can upgrade data of older schema versions.
    #[must_use]
    pub fn upgrades(&self) -> bool {
        self.hooks.exports.upgrading.is_some()
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

    /// Whether the plugin was loaded with these settings and grants.
    #[must_use]
    pub fn has_settings(&self, settings: &PluginSettings) -> bool {
        let now = settings.for_plugin(self.name()).to_string();
        *self.hooks.settings == *now && self.grants == *settings.grants_of(self.name())
    }

    /// Controllers that run with the plugin's settings.
    pub fn controllers(&self) -> impl Iterator<Item = &ControllerDecl> {
        running_controllers(&self.manifest, &self.hooks.settings)
    }

    /// Whether an instance may serve several requests: the manifest asks for it, and the operator grants it.
    #[must_use]
    pub fn reuses_instances(&self) -> bool {
        self.reuses
    }

    /// Grants of the plugin beyond its own types.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Effective limits of the plugin.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.hooks.limits
    }

    /// Limits that the plugin asks for beyond those that it has, such as `limits.fuel 100000000`.
    #[must_use]
    pub fn missing_limits(&self) -> Vec<String> {
        self.hooks.limits.missing(&self.manifest.limits).collect()
    }

    /// Health of its hooks, and their quarantines.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.hooks.reporter.health
    }

    /// Shows in the metrics that this component serves from now on. Called by the manager of plugins, since a component
    /// that is only inspected must not show. `replaced`: whether another one of its name served until now.
    pub fn record_serving(&self, replaced: bool) {
        count_load(&self.hooks.reporter.metrics.label(), if replaced { "replaced" } else { "new" });
        for hook in self.health().report().hooks {
            if let Some(known) = Hook::named(hook.hook) {
                self.hooks.reporter.metrics.hook(known).set_state(hook.state);
            }
        }
    }

    /// Shows in the metrics that no plugin of this name serves any more.
    pub fn record_stopped_serving(&self) {
        Hook::ALL.into_iter().for_each(|hook| self.hooks.reporter.metrics.hook(hook).set_state(HealthState::Healthy));
    }

    /// Whether a type (`demo.v2.Artist`) is written without its `mutate` while that hook is quarantined, by the setting
    /// `quarantine.bypass_mutate_types`.
    #[must_use]
    pub fn bypasses_mutate(&self, gvk: &Gvk) -> bool {
        let skipped = &self.sandbox.quarantine.bypass_mutate_types;
        !skipped.is_empty() && skipped.contains(&gvk.to_string())
    }

    /// Whether its hooks, or its controllers, run at low priority now, because a call took more than its share or
    /// faulted.
    #[must_use]
    pub fn has_low_priority(&self) -> bool {
        [Hook::Mutate, Hook::Reconcile].into_iter().any(|hook| self.hooks.reporter.has_low_priority(hook))
    }

    /// Makes an instance for a hook and those after it, or takes an idle one of the class; it can search if the
    /// component imports that. Functions have no imports.
    ///
    /// # Errors
    /// No instance was free in time, or at once if `waits` is false; faults of the plugin's start.
    pub(crate) async fn hook_instance(
        &self,
        hook: Hook,
        waits: bool,
        class: Option<CallerClass>,
    ) -> Result<Owned<HookInstance>, HookError> {
        let component = self.component(hook);
        let permit = component.searches.as_ref().filter(|_| !matches!(hook, Hook::Function));
        let lookup =
            permit.and_then(|permit| Some(Lookup { host: self.sandbox.lookup_host()?, permit: permit.clone() }));
        HookInstance::open(component, hook.name(), lookup, waits, class).await
    }

    /// Keeps an instance that has served a request for the next one of its class. Returns the instances to drop.
    pub(crate) fn keep(&self, hook: Hook, mut instance: Owned<HookInstance>) -> Vec<Owned<HookInstance>> {
        let component = self.component(hook);
        match instance.end_request() {
            Some(class) => component.slots.keep(component.key, class, instance, &component.limits),
            None => vec![instance],
        }
    }

    fn component(&self, hook: Hook) -> &Shared<HookComponent> {
        match (hook, &self.functions) {
            (Hook::Function, Some(functions)) => functions,
            _ => &self.hooks,
        }
    }

    /// Threads for calls of this hook while they have low priority; `None` while they do not.
    pub(crate) fn low_priority_threads(&self, hook: Hook) -> Option<&LowPriorityThreads> {
        self.hooks.reporter.has_low_priority(hook).then_some(&self.sandbox.low_priority)
    }

    /// Blames this plugin for an answer to `caller` that breaks the contract in a way only the asker can see.
    #[must_use]
    pub fn blame_answer(&self, hook: &'static str, caller: CallerId, what: String) -> HookError {
        self.hooks.reporter.blame_answer(hook, caller, what)
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        drop(self.hooks.slots.remove(self.hooks.key.plugin));
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({} {} {})", self.name(), self.version(), self.digest)
    }
}

/// Makes the plugin's controllers and its `import` ready in their own engine, if it has any and their types are
/// granted.
async fn compile_for_controllers(
    sandbox: &Inner,
    file: (&str, &[u8], &Compiled, &[u8]),
    exports: Exports,
    manifest: &Manifest,
    grants: Grants,
    settings: &str,
) -> Result<Option<(Shared<ControllerEngine>, Shared<ControllerComponent>)>, LoadError> {
    if manifest.controllers.is_empty() && !manifest.types.iter().any(|decl| decl.hooks.import) {
        return Ok(None);
    }
    let permit = permit(manifest, grants, settings)?;
    let limits = sandbox.controller_limits(&manifest.limits);
    let engine = sandbox.controller_engine()?;
    let compiler = (&*sandbox.limits, sandbox.program.as_ref());
    let component = engine.compile_for_controllers(compiler, file, exports, limits, permit).await?;
    Ok(Some((engine, share(component))))
}
