//! What a reconciler is asked, and what it may answer.

use std::time::Duration;

use mortise_resource::pb;

use crate::key::Key;

/// Asks for one resource of the managed type to be brought in order. It may be gone: the reconciler finds out by reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which resource.
    pub key: Key,
    /// The newest incarnation that was heard of. `None` when nothing was heard but the name (a mapper's result, a forced
    /// reconcile); then any incarnation is meant.
    pub uid: Option<Box<str>>,
}

impl Request {
    /// As an id of the managed type.
    #[must_use]
    pub fn id(&self, managed: &pb::Type) -> pb::Id {
        self.key.id(managed, self.uid.as_deref())
    }
}

/// How a reconcile ended that did not fail. Each forgets the failures that went before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes. If the resource exists, it is reconciled again after the resync
    /// interval at the latest.
    Done,
    /// Again, behind everything that is waiting. One that always answers this keeps a worker busy for ever, which
    /// nothing here prevents: it shows in [`crate::Status::requeues`].
    Now,
    /// Again after this long at the latest; an earlier date that was set before stays.
    After(Duration),
    /// As [`Outcome::After`], with a reason that is shown in [`crate::Status::deferred`] until the next outcome.
    Deferred(Duration, String),
}

/// Why a reconcile, a mapper or an initializer failed. The message is for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReconcileError {
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ReconcileError {
    /// With a message that names the thing and the fault.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// With what caused it.
    pub fn because(message: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }

    /// What user code said when it panicked, in Consul's words.
    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Self {
        let said =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::new(format!("panic [recovered]: {}", said.unwrap_or("(a value that is no text)")))
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
