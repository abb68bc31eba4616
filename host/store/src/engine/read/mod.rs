//! The ways to read: a point, an exact scan, a watch, and a snapshot of everything; and where commits become visible.

pub(crate) mod changes;
pub(crate) mod filter;
pub(crate) mod hub;
pub(crate) mod point;
pub(crate) mod publisher;
pub(crate) mod replay;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod type_hubs;
pub(crate) mod walk;
pub(crate) mod watch;
