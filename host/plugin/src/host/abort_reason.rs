//! Why the host itself ends a call of a guest.

/// A limit that the host itself enforces; found again by type when a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AbortReason {
    #[error("the deadline passed")]
    Deadline,
    #[error("the limit on host calls was reached")]
    HostCalls,
    #[error("the guest called exit with status {status}")]
    Exit { status: u8 },
    #[error("more than {limit} random bytes at once")]
    Random { limit: u64 },
    #[error("only a reconciler may call {what}")]
    OnlyReconcilers { what: &'static str },
}
