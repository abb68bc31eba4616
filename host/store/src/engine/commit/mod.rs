//! From a batch to what is durable: the commit thread, its group, and what it counts.

pub(crate) mod checkpoint_thread;
pub(crate) mod commit_group;
pub(crate) mod commit_thread;
pub(crate) mod history;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod scrub;
pub(crate) mod shared;
