//! The request to a reconciler, and its outcomes.

use std::time::Duration;

use mortise_resource::pb;

use crate::key::Key;

/// A request to reconcile one resource of the managed type. The resource may be gone: the reconciler finds out by
/// reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The resource.
    pub key: Key,
    /// The uid of the newest known incarnation. `None` when only the name is known (a mapper's result, a resync): then
    /// any incarnation is meant.
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
    /// There is nothing to do until something changes. A resource that exists is reconciled again after the resync
    /// interval at the latest.
    Done,
    /// Reconcile again, behind everything that waits. A reconciler that always returns this keeps a worker busy for
    /// ever, which nothing here prevents: [`crate::Status::requeues`] shows it.
    Now,
    /// Reconcile again after this time at the latest; an earlier timer stays.
    After(Duration),
    /// As [`Outcome::After`], with a reason that is shown in [`crate::Status::deferred`] until the next outcome.
    Deferred(Duration, String),
}

/// The error of a reconciler, a mapper or an initializer. The message is for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReconcileError {
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ReconcileError {
    /// Makes an error of a message that names the thing and the fault.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// Makes an error with its cause.
    pub fn because(message: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }

    /// Makes the error of a panic, in Consul's words.
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
