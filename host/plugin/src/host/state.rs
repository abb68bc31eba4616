//! Data of an instance's store: the limits as wasmtime asks for them, the log's budget, and the running call.

use std::{sync::Arc, time::Duration};

use mortise_resource::{authorizer::Authorizer, redaction::Secrets};
use parking_lot::Mutex;
use wasmtime::ResourceLimiter;

use crate::{
    error::HookFault,
    health::{call_time::CallTime, log_level::LogLevel, logs::Logs},
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
    /// Answer of `config`: the settings, as JSON.
    pub(crate) settings: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    /// Time of the running call.
    pub(crate) time: CallTime,
    /// Set while an authorize hook runs.
    pub(crate) caller: Option<Arc<dyn Authorizer>>,
    /// The last permission and name that `authorizer` refused.
    pub(crate) refused: Option<(String, String)>,
    /// The running call of a controller; `None` in an instance for hooks.
    pub(crate) call_context: Option<CallContext>,
    /// Search access of hooks; `None` if the component does not import it, and in an instance for controllers.
    pub(crate) lookup: Option<Lookup>,
    /// Processor time of searches in the current hook, which is not the guest's.
    pub(crate) host_work: Duration,
    /// Limit that refused growth of a memory or a table in the current call.
    pub(crate) growth_refused: Option<HookFault>,
    pub(crate) host_calls: u32,
    pub(crate) logs: Arc<Logs>,
    /// Secrets to remove from the log: of the resources that this request, or this controller's call, has seen.
    pub(crate) secrets: Arc<Mutex<Secrets>>,
    /// Name of the running hook, for the log.
    pub(crate) hook: &'static str,
    pub(crate) logged_bytes: usize,
    /// Beginning of the last error that the guest logged in the current call, without secrets.
    pub(crate) last_error: String,
    pub(crate) dropped_logs: u32,
    pub(crate) wasi: Wasi,
    /// State of `wasi:http`; only in an instance for controllers whose component imports it.
    pub(crate) http: Option<Box<Http>>,
    /// Linear memory of the instance, bytes. It never shrinks.
    pub(crate) memory: usize,
    /// Elements of its tables.
    pub(crate) table_elements: usize,
}

impl State {
    pub(crate) fn new(
        plugin: Arc<str>,
        settings: Arc<str>,
        limits: Arc<Limits>,
        logs: Arc<Logs>,
        time: CallTime,
    ) -> Self {
        Self {
            plugin,
            settings,
            limits,
            time,
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
            last_error: String::new(),
            dropped_logs: 0,
            wasi: Wasi::default(),
            http: None,
            memory: 0,
            table_elements: 0,
        }
    }

    /// Ends the log of a request: writes unfinished lines, and reports the number of dropped ones. `label` is the
    /// plugin's name in metrics.
    pub(crate) fn end_log(&mut self, label: impl FnOnce() -> String) {
        self.end_lines();
        self.logged_bytes = 0;
        self.last_error.clear();
        let dropped = std::mem::take(&mut self.dropped_logs);
        if dropped > 0 {
            metrics::counter!("mortise_plugin_logs_dropped_total", "plugin" => label()).increment(u64::from(dropped));
            let fields = vec![("dropped".to_owned(), dropped.to_string())];
            self.logs.write(
                &self.plugin,
                "",
                LogLevel::Warn,
                "log lines dropped (more than one request may log)".into(),
                fields,
            );
        }
    }

    /// Counts a host call of the guest.
    pub(crate) fn count_host_call(&mut self) -> Result<(), wasmtime::Error> {
        self.host_calls += 1;
        if self.host_calls > self.limits.host_calls {
            return Err(AbortReason::HostCalls.into());
        }
        Ok(())
    }
}

/// Refuses growth beyond a limit, which a guest may handle. If it traps instead, the fault names the limit.
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
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, wasmtime::Error> {
        let limit = self.limits.table_elements;
        if desired > limit {
            self.growth_refused = Some(HookFault::Table { limit });
        } else {
            self.table_elements += desired.saturating_sub(current);
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
