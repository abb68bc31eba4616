//! The data of an instance's store: the limits as wasmtime asks for them, the log's budget, and the call that runs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::{authorizer::Authorizer, redaction::Secrets};
use parking_lot::Mutex;
use wasmtime::ResourceLimiter;

use crate::{
    error::HookFault,
    health::logs::Logs,
    host::{
        abort_reason::AbortReason,
        call_context::CallContext,
        lookup_host::Lookup,
        wasi::{http::Http, sandboxed::Wasi},
    },
    limits::Limits,
};

/// The data of one instance's store.
pub(crate) struct State {
    pub(crate) plugin: Arc<str>,
    /// What `config` answers.
    pub(crate) settings: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    /// When the guest must be done.
    pub(crate) deadline: Instant,
    /// Set while an authorize hook runs.
    pub(crate) caller: Option<Arc<dyn Authorizer>>,
    /// The last question that `authorizer` answered with no: permission, name.
    pub(crate) refused: Option<(String, String)>,
    /// The call of a controller that runs; none in an instance for hooks.
    pub(crate) call_context: Option<CallContext>,
    /// What hooks search with; none where the component has no use for it, and in an instance for controllers.
    pub(crate) lookup: Option<Lookup>,
    /// Processor time that went into searches of the current hook: it is not the guest's.
    pub(crate) host_work: Duration,
    /// What growth of a memory or a table was refused for, in the current call.
    pub(crate) growth_refused: Option<HookFault>,
    pub(crate) host_calls: u32,
    pub(crate) logs: Arc<Logs>,
    /// What its log is not to hold: of the resources that this request, or this call of a controller, has seen.
    pub(crate) secrets: Arc<Mutex<Secrets>>,
    /// The hook that runs, for the log.
    pub(crate) hook: &'static str,
    pub(crate) logged_bytes: usize,
    pub(crate) dropped_logs: u32,
    pub(crate) wasi: Wasi,
    /// What is sent from controllers; only where the component imports it.
    pub(crate) http: Option<Box<Http>>,
    /// Linear memory of the instance, bytes. It never shrinks.
    pub(crate) memory: usize,
}

impl State {
    pub(crate) fn new(
        plugin: Arc<str>,
        settings: Arc<str>,
        limits: Arc<Limits>,
        logs: Arc<Logs>,
        within: Duration,
    ) -> Self {
        Self {
            plugin,
            settings,
            limits,
            deadline: Instant::now() + within,
            caller: None,
            refused: None,
            call_context: None,
            lookup: None,
            host_work: Duration::ZERO,
            growth_refused: None,
            host_calls: 0,
            logs,
            secrets: Arc::default(),
            hook: "",
            logged_bytes: 0,
            dropped_logs: 0,
            wasi: Wasi::default(),
            http: None,
            memory: 0,
        }
    }

    /// Ends the log of a request: unfinished lines are written, and what was dropped is said. `label` is what the
    /// plugin is called in metrics.
    pub(crate) fn end_log(&mut self, label: impl FnOnce() -> String) {
        self.end_lines();
        self.logged_bytes = 0;
        let dropped = std::mem::take(&mut self.dropped_logs);
        if dropped > 0 {
            metrics::counter!("mortise_plugin_logs_dropped_total", "plugin" => label()).increment(u64::from(dropped));
            let fields = vec![("dropped".to_owned(), dropped.to_string())];
            self.logs.write(&self.plugin, "", 2, "log lines dropped (limit sandbox.log_bytes)".into(), fields);
        }
    }

    /// Counts a call of the guest into the host.
    pub(crate) fn count_host_call(&mut self) -> Result<(), wasmtime::Error> {
        self.host_calls += 1;
        if self.host_calls > self.limits.host_calls {
            return Err(AbortReason::HostCalls.into());
        }
        Ok(())
    }
}

/// Growth beyond a limit is refused, which a guest may cope with. One that cannot will trap, and the limit is named
/// then.
impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, wasmtime::Error> {
        let limit = self.limits.memory_bytes;
        if desired > limit {
            self.growth_refused = Some(HookFault::Memory { limit, setting: self.limits.memory_setting() });
        } else {
            self.memory += desired.saturating_sub(current);
        }
        Ok(desired <= limit)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, wasmtime::Error> {
        let limit = self.limits.table_elements;
        if desired > limit {
            self.growth_refused = Some(HookFault::Table { limit });
        }
        Ok(desired <= limit)
    }

    fn instances(&self) -> usize {
        self.limits.core_instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}
