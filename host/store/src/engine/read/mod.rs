//! Reads: a point read, an exact scan, a watch, a snapshot of the whole store; and the publication of commits.

pub(crate) mod changes;
pub(crate) mod copy;
pub(crate) mod cursor;
pub(crate) mod filter;
pub(crate) mod form;
pub(crate) mod hub;
pub(crate) mod point;
pub(crate) mod published_head;
pub(crate) mod publisher;
pub(crate) mod replay;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod type_hubs;
pub(crate) mod walk;
pub(crate) mod watch;
