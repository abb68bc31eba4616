//! The failure of a host call.

use mortise_resource::{Code, Error};

/// Failure of a host call, as the guest gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Code of gRPC; `wit/v0.1.0/failures.wit` lists the codes in use.
    pub code: u32,
    /// Fault, and the next step.
    pub message: String,
}

impl Failure {
    /// Makes a failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: (code as i32).unsigned_abs(), message: message.into() }
    }

    /// Whether the failure has this code.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.code == (code as i32).unsigned_abs()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.code, error.message)
    }
}
