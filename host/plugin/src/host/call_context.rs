//! The running call of a controller in an instance: the host that answers its host calls, their permissions, and their
//! time limits.
//!
//! # Contract
//! Each host call counts towards `controllers.host_calls`. Calls that may wait have `controllers.host_call_ms`, and
//! never more than the remaining time of the whole call; their arguments and answers are bounded by
//! `sandbox.reply_bytes`. A host call that exceeds its time or size fails, and the guest may handle the failure; a call
//! that exceeds its own deadline is ended. In an instance for hooks no controller's call is running. There, host
//! calls with a result that can be an error fail, and all others end the hook, so that hooks depend on their input
//! alone; except for [searches](crate::host::lookup_host).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mortise_keys::age::Identities;
use mortise_resource::{Code, pb, redaction::Secrets};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    bindings,
    failure::Failure,
    grants::Permit,
    health::metrics::PluginMetrics,
    host::{granted_dir::DirQuota, reconciler_host::ReconcilerHost},
    probes::Probes,
};

/// Signal that a controller's call should end soon. Clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes a signal that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Data of an instance while a controller's call runs in it.
pub(crate) struct CallContext {
    pub(crate) host: Arc<dyn ReconcilerHost>,
    pub(crate) permit: Arc<Permit>,
    pub(crate) cancel: Cancel,
    /// Time limit of one host call.
    pub(crate) host_call: Duration,
    /// Permits that bound the threads that wait for files.
    pub(crate) file_turns: Arc<Semaphore>,
    /// Permits that bound the connects of all controllers.
    pub(crate) connect_turns: Arc<Semaphore>,
    /// Keys that decrypt the files of secrets.
    pub(crate) identities: Option<Arc<Identities>>,
    pub(crate) metrics: Arc<PluginMetrics>,
    /// Checks that the host performs for the plugin.
    pub(crate) probes: Arc<Probes>,
    /// Limits of a granted directory.
    pub(crate) quota: DirQuota,
    /// Secrets to remove from the texts of this call.
    pub(crate) secrets: Arc<Mutex<Secrets>>,
    /// Processor time of host calls, which is not the guest's.
    pub(crate) host_work: Duration,
}

/// Data that a host call needs for its answer.
pub(crate) struct HostCall {
    pub(crate) host: Arc<dyn ReconcilerHost>,
    pub(crate) permit: Arc<Permit>,
    /// Most bytes of arguments, and of the answer.
    pub(crate) limit: usize,
    /// Deadline of the answer.
    pub(crate) until: Instant,
    pub(crate) file_turns: Arc<Semaphore>,
    pub(crate) connect_turns: Arc<Semaphore>,
    pub(crate) identities: Option<Arc<Identities>>,
    pub(crate) quota: DirQuota,
    pub(crate) secrets: Arc<Mutex<Secrets>>,
}

/// Result of a host call that may fail: the outer error ends the guest.
pub(crate) type HostCallResult<T> = wasmtime::Result<Result<T, bindings::Failure>>;

impl HostCall {
    /// Records the redacted fields of a resource, before the guest gets the resource or after it made it.
    pub(crate) fn record_secrets(&self, resource: &pb::Resource) {
        self.host.note_secrets(resource, &mut self.secrets.lock());
    }

    /// Fails if an answer or an argument of `size` bytes is over the limit.
    pub(crate) fn check_size(&self, what: &str, size: usize) -> Result<(), Failure> {
        check_bytes(what, size, self.limit)
    }
}

/// Fails if `size` bytes are over `limit`.
pub(crate) fn check_bytes(what: &str, size: usize, limit: usize) -> Result<(), Failure> {
    if size <= limit {
        return Ok(());
    }
    let text =
        format!("{what}: {size} bytes are more than the limit of {limit} (sandbox.reply_bytes); ask for less at once");
    Err(Failure::new(Code::ResourceExhausted, text))
}
