//! The request to a reconciler, and its outcomes.

use std::time::Duration;

use mortise_resource::pb;

use crate::key::Key;

/// A request to reconcile one resource of the managed type. The resource may be gone: the reconciler has to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The resource.
    pub key: Key,
    /// The uid of the newest known incarnation. `None` when only the name is known (a mapper's result, a resync); the
    /// request is then about any incarnation.
    pub uid: Option<Box<str>>,
}

impl Request {
    /// The request as an id of the managed type.
    #[must_use]
    pub fn id(&self, managed: &pb::Type) -> pb::Id {
        self.key.id(managed, self.uid.as_deref())
    }
}

/// The outcome of a reconcile that did not fail. It resets the count of failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Wait until something changes. A resource that exists is reconciled again after the resync interval at the
    /// latest.
    Done,
    /// Reconcile again, behind everything that waits. Like a write, this is a link of a chain: a chain that is too long
    /// is slowed down, to one reconcile a second in the end.
    Now,
    /// Reconcile again after this time at the latest; an earlier timer stays. Less than a second counts as
    /// [`Outcome::Now`] does.
    After(Duration),
    /// The same as [`Outcome::After`], with a reason that [`crate::Status::deferred`] shows until the next outcome.
    Deferred(Duration, String),
}

/// An error of a reconciler, a mapper or an initializer. The message is for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReconcileError {
    message: String,
    kind: ErrorKind,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Next step after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The key is tried again after a wait, or as soon as it changes.
    Failed,
    /// The code broke down: the key is quarantined, and not tried before the wait is over, even after changes.
    Fault,
    /// The code was not called: the key is tried again after this time, and no counter changes.
    Refused(Duration),
}

impl ReconcileError {
    /// Makes an error of a message that names subject and fault.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: ErrorKind::Failed, source: None }
    }

    /// Makes an error with its cause; the message includes the cause's text.
    pub fn because(message: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(message).caused_by(source)
    }

    /// Keeps the cause of an error.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Makes the error of code that broke down (a trap, a limit) instead of answering. The resource is quarantined: it
    /// is not tried again before a wait is over ([`crate::Definition::quarantine_backoff`]), even if it changes.
    pub fn fault(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Fault, ..Self::new(message) }
    }

    /// Makes the error of a call that was refused before it began, and can be tried again after `wait`. It counts
    /// neither as a reconcile nor as a failure.
    pub fn refused(message: impl Into<String>, wait: Duration) -> Self {
        Self { kind: ErrorKind::Refused(wait), ..Self::new(message) }
    }

    /// Puts the subject of the error before its message.
    pub(crate) fn with_subject(self, subject: impl std::fmt::Display) -> Self {
        Self { message: format!("{subject}: {}", self.message), ..self }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Makes the error of a panic, in Consul's words.
    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Self {
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::new(format!("panic [recovered]: {}", text.unwrap_or("(a value that is not text)")))
    }
}

impl From<String> for ReconcileError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for ReconcileError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}
