//! The error that callers of the API see: a code, a sentence, and the place of the fault in the request.

use std::fmt::Display;

use crate::{Diagnostic, Severity};

/// Beginning of the message of each failure, with [`Code::Unavailable`], whose cause is the end of the server.
pub const SERVER_STOPPING: &str = "the server is stopping";

/// The kind of a failure. The numbers are gRPC's status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// The request is invalid, independent of the system's state.
    InvalidArgument = 3,
    /// A deadline of the caller or of a plugin passed.
    DeadlineExceeded = 4,
    /// The resource, partition or namespace does not exist.
    NotFound = 5,
    /// The resource to create exists already.
    AlreadyExists = 6,
    /// The caller lacks a permission.
    PermissionDenied = 7,
    /// A limit was reached.
    ResourceExhausted = 8,
    /// The system's state does not allow the request; it has to change before a retry can succeed.
    FailedPrecondition = 9,
    /// A concurrent change came first; read again and retry.
    Aborted = 10,
    /// The server knows the request but does not support it.
    Unimplemented = 12,
    /// An internal fault of the server or of a plugin.
    Internal = 13,
    /// The server is shutting down or not ready.
    Unavailable = 14,
    /// The caller's token is unknown or has expired.
    Unauthenticated = 16,
}

impl Code {
    /// The name of the gRPC code, such as `NotFound`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::Unauthenticated => "Unauthenticated",
        }
    }
}

/// A failure as a caller sees it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of the failure.
    pub code: Code,
    /// Sentence with subject, fault and, where possible, the next step.
    pub message: String,
    /// Faults by field, for programs; empty for most errors.
    pub violations: Vec<Diagnostic>,
    /// Plugin, hook and limit, when a plugin caused the failure.
    pub plugin: Option<Box<PluginFault>>,
    /// Time after which a retry may succeed; `None` if it is unknown. For a failure that a plugin caused, see
    /// [`PluginFault::retry_after`].
    pub retry_after: Option<std::time::Duration>,
    /// The unreadable resource, as partition/namespace/name, when other resources of the answer can be read.
    pub resource: Option<String>,
}

/// A failure caused by a plugin, for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFault {
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// The called export, such as `validate`.
    pub hook: String,
    /// Cause of the call's end: `trap`, `fuel`, `deadline`, `memory`, `busy`, `reply`, `quarantined` …
    pub kind: String,
    /// Time after which a retry may succeed; `None` if it is unknown.
    pub retry_after: Option<std::time::Duration>,
}

/// Whether another call may succeed after a plugin's fault of this kind: the hook had too little time, or no place.
pub fn is_passing_fault(kind: &str) -> bool {
    matches!(kind, "busy" | "crowded" | "deadline" | "starved")
}

impl Error {
    /// Makes an error of a code and a sentence, without violations and without a plugin.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violations: Vec::new(), plugin: None, retry_after: None, resource: None }
    }

    /// Makes an `InvalidArgument`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// Makes an `Internal`.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Makes a `NotFound`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// Makes a `PermissionDenied`.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    /// Adds the fault of a field, for programs.
    #[must_use]
    pub fn with_violation(mut self, path: impl Display, fault: impl Display) -> Self {
        self.violations.push(Diagnostic {
            severity: Severity::Error.into(),
            path: path.to_string(),
            summary: fault.to_string(),
            detail: String::new(),
        });
        self
    }

    /// Adds the unreadable resource to the error.
    #[must_use]
    pub fn with_resource(self, partition: &str, namespace: &str, name: &str) -> Self {
        Self { resource: Some(format!("{partition}/{namespace}/{name}")), ..self }
    }

    /// Puts a context in front of the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}
