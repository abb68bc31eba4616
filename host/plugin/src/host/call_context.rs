//! The running call of a controller in an instance: which host answers its calls, what they may ask for, and how long
//! they may take.
//!
//! # Contract
//! Each host call counts towards `controllers.host_calls`. Those that may wait have `controllers.host_call_ms`, and
//! never more than what is left of the whole call's deadline; what they hand over either way is bounded by
//! `sandbox.reply_bytes`. Too much of either is a failure that the guest hears, the end of the whole call's time is
//! not. In an instance for hooks nothing is under way: questions are answered with a failure, and what has no way to
//! fail ends the hook, so that hooks depend on their input alone; but for [searches](crate::host::lookup_host).

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
    grants::Permit,
    health::metrics::PluginMetrics,
    host::{
        granted_dir::DirQuota,
        reconciler_host::{Failure, ReconcilerHost},
    },
};

/// Tells a controller's call that it should come to an end soon. Clones are one flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What an instance has while a controller's call runs in it.
pub(crate) struct CallContext {
    pub(crate) host: Arc<dyn ReconcilerHost>,
    pub(crate) permit: Arc<Permit>,
    pub(crate) cancel: Cancel,
    /// Since when `clock.elapsed` counts.
    pub(crate) made: Instant,
    /// The longest that one host call may take.
    pub(crate) host_call: Duration,
    /// Bounds the threads that wait for files.
    pub(crate) file_turns: Arc<Semaphore>,
    /// Bounds the connects of all controllers.
    pub(crate) connect_turns: Arc<Semaphore>,
    /// What decrypts the files of secrets.
    pub(crate) identities: Option<Arc<Identities>>,
    pub(crate) metrics: Arc<PluginMetrics>,
    /// What a granted directory may hold.
    pub(crate) quota: DirQuota,
    /// What the texts of this call are not to hold.
    pub(crate) secrets: Arc<Mutex<Secrets>>,
    /// Processor time that went into host calls: it is not the guest's.
    pub(crate) host_work: Duration,
}

/// What a host call needs to be answered.
pub(crate) struct Question {
    pub(crate) host: Arc<dyn ReconcilerHost>,
    pub(crate) permit: Arc<Permit>,
    /// Bytes that it may hand over, either way.
    pub(crate) limit: usize,
    /// When the answer is of no use any more.
    pub(crate) until: Instant,
    pub(crate) file_turns: Arc<Semaphore>,
    pub(crate) connect_turns: Arc<Semaphore>,
    pub(crate) identities: Option<Arc<Identities>>,
    pub(crate) quota: DirQuota,
    pub(crate) secrets: Arc<Mutex<Secrets>>,
}

/// What a host call that may fail answers: the outer error ends the guest.
pub(crate) type Answer<T> = wasmtime::Result<Result<T, bindings::Failure>>;

impl Question {
    /// Takes notice of what a resource holds that is redacted, before the guest has it or after it made it.
    pub(crate) fn note(&self, resource: &pb::Resource) {
        self.host.note_secrets(resource, &mut self.secrets.lock());
    }

    /// Whether so many bytes may be handed over, in answer or in argument.
    pub(crate) fn bounded(&self, what: &str, size: usize) -> Result<(), Failure> {
        check_bytes(what, size, self.limit)
    }
}

/// Whether so many bytes may be handed over.
pub(crate) fn check_bytes(what: &str, size: usize, limit: usize) -> Result<(), Failure> {
    if size <= limit {
        return Ok(());
    }
    let text =
        format!("{what}: {size} bytes are more than the limit of {limit} (sandbox.reply_bytes); ask for less at once");
    Err(Failure::new(Code::ResourceExhausted, text))
}
