//! Failures of calls into the host, and of reconciles.

use std::fmt;

/// Error of a reconcile, a mapper or an initializer: a [`Failure`] of the host, a text, or any other error, all by `?`.
/// It is logged and shown to operators, and the call is repeated after growing delays.
pub type Error = Box<dyn std::error::Error>;

/// A failed call into the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Code of gRPC, as the API answers it; the constants of this type name the codes that a reconciler may need to
    /// distinguish.
    pub code: u32,
    /// Fault, and the next step.
    pub message: String,
}

impl Failure {
    /// The request is at fault: a hook refused it, or a name is invalid.
    pub const INVALID: u32 = 3;
    /// The call took too long.
    pub const LATE: u32 = 4;
    /// The resource or another thing does not exist.
    pub const NOT_FOUND: u32 = 5;
    /// The operator did not grant it.
    pub const DENIED: u32 = 7;
    /// A limit was reached.
    pub const EXHAUSTED: u32 = 8;
    /// The current state forbids it.
    pub const PRECONDITION: u32 = 9;
    /// Another writer was faster: read again, and decide again.
    pub const CONFLICT: u32 = 10;
    /// A fault of the host, or data that cannot be read.
    pub const INTERNAL: u32 = 13;
    /// The call may succeed later.
    pub const UNAVAILABLE: u32 = 14;

    /// Makes a failure with that code.
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Whether the requested thing does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == Self::NOT_FOUND
    }

    /// Whether another writer was faster. A reconciler should pass this on with `?`, and is then called again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code == Self::CONFLICT
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
