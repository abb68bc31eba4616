//! Servers that share a store.

use std::time::SystemTime;

/// The running servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// Each server, in the order of the names.
    pub members: Vec<Member>,
    /// Newest version in the shared store.
    pub newest_version: u64,
}

/// Facts that a server tells the others about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberInfo {
    /// Release.
    pub version: String,
    /// Address of its gRPC port.
    pub grpc_address: String,
    /// Address of its HTTP port.
    pub http_address: String,
    /// Start of the process.
    pub started_at: SystemTime,
}

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name, made once for the server's copy of the content.
    pub name: String,
    /// Facts about it; `None` until its ports are open.
    pub info: Option<MemberInfo>,
    /// Newest version that its copy had at its last report.
    pub newest_version: u64,
    /// Commits that its copy lacked then.
    pub lag: u64,
    /// Work that only one server does at a time, and that this one does; sorted.
    pub holds: Vec<String>,
    /// True for the server that is asked.
    pub is_this: bool,
}
