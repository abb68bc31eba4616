//! How calls into the host fail, and how a reconcile does.

use std::fmt;

/// What a reconcile, a mapper or an initializer fails with: a [`Failure`] of the host, a text, or any other error, all
/// by `?`. It is logged and shown to operators, and the call is made again, later each time.
pub type Error = Box<dyn std::error::Error>;

/// A call into the host that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A code of gRPC, as the API answers it; the constants of this type name those that a reconciler may want to tell
    /// apart.
    pub code: u32,
    /// What failed, and what to do about it.
    pub message: String,
}

impl Failure {
    /// The request is at fault: a hook refused it, or a name is no name.
    pub const INVALID: u32 = 3;
    /// It took too long.
    pub const LATE: u32 = 4;
    /// It is not there.
    pub const NOT_FOUND: u32 = 5;
    /// The operator did not grant it.
    pub const DENIED: u32 = 7;
    /// A limit was hit.
    pub const EXHAUSTED: u32 = 8;
    /// The state of something forbids it.
    pub const PRECONDITION: u32 = 9;
    /// Somebody else was faster: read again, and decide anew.
    pub const CONFLICT: u32 = 10;
    /// A fault of the host, or data that cannot be read.
    pub const INTERNAL: u32 = 13;
    /// May work later.
    pub const UNAVAILABLE: u32 = 14;

    /// A failure of that code.
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Whether what was asked for is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == Self::NOT_FOUND
    }

    /// Whether somebody else was faster. Reconciling anew is the answer, which is what happens when a reconciler hands
    /// this on with `?`.
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
