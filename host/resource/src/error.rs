//! The error that callers of the API see: a code, a sentence, and where in the request the fault lies.

use crate::{Diagnostic, EncodingError};

/// The kind of a failure. The numbers are gRPC's status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// The request is at fault, whatever the state of the system.
    InvalidArgument = 3,
    /// A deadline passed, the caller's or a plugin's.
    DeadlineExceeded = 4,
    /// The resource, or the place named, does not exist.
    NotFound = 5,
    /// What was to be made is there.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A limit was hit.
    ResourceExhausted = 8,
    /// The system is not in a state that allows this; trying again without a change is useless.
    FailedPrecondition = 9,
    /// A concurrent change came first; read again and retry.
    Aborted = 10,
    /// What was asked for is known and not there.
    Unimplemented = 12,
    /// A fault of the server or of a plugin.
    Internal = 13,
    /// The server is shutting down or not ready.
    Unavailable = 14,
    /// The caller's token is unknown or has expired.
    Unauthenticated = 16,
}

impl Code {
    /// The name, as gRPC has it.
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
    /// Names the thing, the fault and, where there is one, the remedy.
    pub message: String,
    /// Faults by field, for machines; empty for most errors.
    pub violations: Vec<Diagnostic>,
    /// Set when a plugin caused the failure: its name, the hook and the limit.
    pub plugin: Option<Box<PluginFault>>,
    /// Time after which the same request may be answered, where that is known and no plugin is to blame.
    pub retry_after: Option<std::time::Duration>,
    /// The one of many resources that could not be read, where the others can: as partition/namespace/name.
    pub resource: Option<String>,
}

/// A failure that a plugin caused, in terms that a machine can act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFault {
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// The export that was called, such as `validate`.
    pub hook: String,
    /// What ended the call: `trap`, `fuel`, `deadline`, `memory`, `busy`, `reply`, `quarantined` …
    pub kind: String,
    /// Time after which another attempt may succeed; `None` where that is not known.
    pub retry_after: Option<std::time::Duration>,
}

impl From<EncodingError> for Error {
    /// What is stored was looked through before, so it is a fault of ours.
    fn from(fault: EncodingError) -> Self {
        Self::internal(format!("a stored resource: {fault}"))
    }
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

    /// Names the one of many resources that could not be read.
    #[must_use]
    pub fn with_resource(self, partition: &str, namespace: &str, name: &str) -> Self {
        Self { resource: Some(format!("{partition}/{namespace}/{name}")), ..self }
    }

    /// Puts a context before the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}
