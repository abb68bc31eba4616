//! Reasons of the host itself for ending a guest's call.

use crate::health::call_time::Bound;

/// Reason of the host for ending a call; found again by type when the call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AbortReason {
    #[error("the call took too long ({0:?})")]
    Late(Bound),
    #[error("the limit on host calls was reached")]
    HostCalls,
    #[error("the guest called exit with status {status}")]
    Exit { status: u8 },
    #[error("the guest asked for more than {limit} random bytes at once")]
    Random { limit: u64 },
    #[error("only a reconciler may call {what}")]
    OnlyReconcilers { what: &'static str },
}
