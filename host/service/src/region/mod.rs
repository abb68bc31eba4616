//! Replicas of resources that other regions own (docs/regions.md): their writes, their progress, and the refresh of
//! resources' regions.
//!
//! # Contract
//! [`apply`] alone writes replicas, in one commit with their progress. The rules for this server's own writes are in
//! [`crate::rules::region`].
//!
//! | file | work |
//! |---|---|
//! | `incoming`, `decide`, `apply` | checks changes from a peer, decides their effect, and commits them |
//! | `progress`, `restarts`, `replicated_type` | the position in a peer's changes and the deferred resources (`HeldBack` on the wire) |
//! | `peers`, `replicas` | the stored state of each peer; the state in memory |
//! | `held_replicas` | questions about the stored replicas of a peer |
//! | `held_unit` | namespaces that outlive their owner's deletion |
//! | `adopt`, `refresh` | the take-over from a lost region; the pass after a change of a policy |
//! | `record` | the lines of the audit log |
//!
//! # Cost and limits
//! The changes of a message are one commit, or one each if the store refuses one of them. A refresh reads every
//! resource of a partition, in about half of a thread's time. [`progress`] has the limits of deferred resources.

mod adopt;
mod apply;
mod decide;
mod held_replicas;
pub(crate) mod held_unit;
mod incoming;
mod peers;
mod progress;
mod record;
mod refresh;
mod replicas;
mod replicated_type;
mod restarts;

pub use apply::{ApplySummary, ReplicatedChange};
pub use held_replicas::HeldReplicas;
pub use incoming::{may_be_in, uid_number};
pub use peers::AcceptedStore;
pub use progress::{MAX_DEFERRED, OwnerStore, ReplicationProgress};
pub use replicas::Replicas;
pub(crate) use replicated_type::ReplicatedType;
