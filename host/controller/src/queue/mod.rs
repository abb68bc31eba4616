//! Waiting work: the queue of a reconciler and those of its mappers.
//!
//! [`state`] has the rules, without clock and locks; [`shared`] puts a queue behind a lock, for tasks that wait on it;
//! [`item`] has the content of the two kinds of queues.

mod item;
mod shared;
pub(crate) mod state;

pub(crate) use item::{ChangedResource, FormerVersion, MappingItem, ReconcileItem};
pub(crate) use shared::SharedQueue;
pub(crate) use state::{Job, Next};
