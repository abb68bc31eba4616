//! Replicas of resources that other regions own (docs/regions.md): how they are stored, how far they are, and
//! how the regions of resources are brought up to date.
//!
//! [`replicas`] alone writes replicas. The rules for this server's own writes are in [`crate::rules::region`].

mod incoming;
mod peers;
mod progress;
mod record;
mod refresh;
mod regions;
mod replicas;
mod replicated_type;
mod restarts;

pub use incoming::{may_be_in, uid_number};
pub use progress::{MAX_DEFERRED, ReplicationProgress};
pub use regions::Regions;
pub use replicas::{ApplySummary, ReplicatedChange};
pub(crate) use replicated_type::ReplicatedType;
