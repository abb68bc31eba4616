//! The way of a batch to durability: the commit thread, its group, the history, and the scrub of stored data.

pub(crate) mod checkpoint_thread;
pub(crate) mod commit_group;
pub(crate) mod commit_thread;
mod draft;
mod follow;
pub(crate) mod history;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod scrub;
pub(crate) mod shared;
