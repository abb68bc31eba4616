//! The error that callers of the API see: a code, a sentence, and where in the request the fault lies.

use crate::Diagnostic;

/// What kind of failure it is. The numbers are gRPC's status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// The request is at fault, whatever the state of the system.
    InvalidArgument = 3,
    /// A deadline passed, the caller's or a plugin's.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A limit was hit.
    ResourceExhausted = 8,
    /// The system is not in a state that allows this; trying again without a change is useless.
    FailedPrecondition = 9,
    /// Somebody else was faster; read again and retry.
    Aborted = 10,
    /// A fault that is not the caller's.
    Internal = 13,
    /// The server is shutting down or not ready.
    Unavailable = 14,
}

/// A failure as a caller sees it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of failure it is.
    pub code: Code,
    /// Names the thing, the fault and, where there is one, the remedy.
    pub message: String,
    /// Faults by field, for machines; empty for most errors.
    pub violations: Vec<Diagnostic>,
    /// Set when a plugin is to blame: who, in which hook, and which limit.
    pub plugin: Option<Box<PluginFault>>,
}

/// Blames a plugin, in terms that a machine can act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFault {
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// The export that was called, such as `validate`.
    pub hook: String,
    /// What ended the call: `trap`, `fuel`, `deadline`, `memory`, `busy`, `reply`, `quarantined` …
    pub kind: String,
    /// When it may be worth trying again, where that is known.
    pub retry_after: Option<std::time::Duration>,
}

impl Error {
    /// An error with nothing but a code and a sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violations: Vec::new(), plugin: None }
    }

    /// The request is at fault.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// Not the caller's fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Nothing there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// Not allowed.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    /// Says what was being done: `context: message`.
    #[must_use]
    pub fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}
