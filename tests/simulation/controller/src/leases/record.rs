//! The record of a course.

/// A step of a controller's code, or of its lease, in the order in which they happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) server: usize,
    pub(super) step: Step,
}

/// A step; numbers of definitions count their replacements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The server gets the lease.
    Granted,
    /// The lease ends; the server will notice.
    Revoked,
    /// The server gave the lease back, and is paused.
    Returned,
    /// The controllers of the server have ended.
    Ended,
    /// A replacement by this definition has returned.
    Replaced(usize),
    /// Code of a definition: the initializer begins.
    Initializes(usize),
    /// A run has its cache.
    Starts(usize),
    /// A reconcile begins.
    Reconciles(usize, &'static str),
    /// A reconcile ends, or is dropped.
    Reconciled(usize, &'static str),
    /// The last call of a run.
    Stops(usize),
}

impl Step {
    /// Returns the definition whose code runs.
    pub(super) const fn definition(self) -> Option<usize> {
        match self {
            Self::Initializes(definition)
            | Self::Starts(definition)
            | Self::Reconciles(definition, _)
            | Self::Reconciled(definition, _)
            | Self::Stops(definition) => Some(definition),
            Self::Granted | Self::Revoked | Self::Returned | Self::Ended | Self::Replaced(_) => None,
        }
    }
}
