//! Regions: where a resource is at home, where copies of it may be, and who may change it (docs/regions.md).
//!
//! # Contract
//! A server without a region of its own enforces nothing, and computes nothing. One with a region refuses to create,
//! change or delete what belongs to another region; what it has of those are copies, which [`copies`] alone writes. A
//! resource belongs to the region in its type's region field, else to the default region of its partition's policy. In
//! a partition without a policy it belongs to none: it stays where it is, and anyone may write it.
//!
//! # Cost
//! One read of the partition `default` for each write into it, where the server has a region; of other partitions it is
//! read in any case. Partitions without a policy are not decoded.

pub(crate) mod incoming;
pub(crate) mod peers;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod refresh;
pub(crate) mod replicas;
pub(crate) mod restarts;
