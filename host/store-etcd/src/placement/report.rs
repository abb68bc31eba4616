//! Facts that a server tells the others about itself.

use std::time::{Duration, UNIX_EPOCH};

use mortise_store::MemberInfo;
use prost::Message;

/// Least time between two reports that only tell a newer revision: each is a write.
pub(super) const REPORT_PAUSE: Duration = Duration::from_secs(2);

/// Value of a member's key.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MemberRecord {
    /// Names of the work that the server could do.
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
    /// Release; empty until the ports are open.
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    grpc_address: String,
    #[prost(string, tag = "4")]
    http_address: String,
    /// Start of the process, milliseconds since 1970.
    #[prost(uint64, tag = "5")]
    started_ms: u64,
    /// Revision of the copy at the report.
    #[prost(int64, tag = "6")]
    pub(super) applied: i64,
}

impl MemberRecord {
    pub(super) fn new(names: Vec<String>, info: Option<MemberInfo>, applied: i64) -> Self {
        let Some(MemberInfo { version, grpc_address, http_address, started_at }) = info else {
            return Self { names, applied, ..Self::default() };
        };
        let started = started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_ms = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        Self { names, version, grpc_address, http_address, started_ms, applied }
    }

    /// Returns whether the records differ in more than the revision.
    pub(super) fn tells_more_than(&self, other: &Self) -> bool {
        Self { applied: 0, ..self.clone() } != Self { applied: 0, ..other.clone() }
    }

    /// Returns the facts; `None` until the ports are open.
    pub(super) fn info(self) -> Option<MemberInfo> {
        let Self { version, grpc_address, http_address, started_ms, .. } = self;
        let started_at = UNIX_EPOCH.checked_add(Duration::from_millis(started_ms))?;
        (!version.is_empty()).then_some(MemberInfo { version, grpc_address, http_address, started_at })
    }
}
