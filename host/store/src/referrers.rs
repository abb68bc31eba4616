//! Sets of references to a resource, comparable between two moments.
//!
//! A deletion looks at the references to its resource, and decides. The decision holds only if the references are the
//! same at the commit; so the batch carries the set that the deletion saw ([`ExpectedReferrers`]), and the store
//! compares.

use mortise_resource::{IdRef, data::OnDelete};

use crate::{
    ExpectedId,
    set_hash::{SetHash, Step},
};

/// Behaviours that act in the commit of the deletion.
pub const COMMIT_BEHAVIOURS: [OnDelete; 3] = [OnDelete::Block, OnDelete::Unset, OnDelete::Cascade];
/// Behaviours that act later, while the resource has the deletion mark.
pub const DEFERRED_BEHAVIOURS: [OnDelete; 2] = [OnDelete::AsyncUnset, OnDelete::AsyncCascade];

/// References to a resource, as the caller saw them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedReferrers {
    /// Resource; its uid does not matter.
    pub id: ExpectedId,
    /// References with a behaviour of [`COMMIT_BEHAVIOURS`].
    pub at_commit: ReferrerSet,
    /// References with a behaviour of [`DEFERRED_BEHAVIOURS`]; `None` to leave them unchecked.
    pub deferred: Option<ReferrerSet>,
}

/// A set of references to one resource: the referring resources and their behaviours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReferrerSet(SetHash);

impl ReferrerSet {
    /// Adds a reference of a resource, once for each behaviour.
    pub fn add(&mut self, on_delete: OnDelete, IdRef { group, kind, partition, namespace, name, .. }: IdRef<'_>) {
        let referrer = [group, kind, partition, namespace, name, ""].join("\0");
        self.step(Step::Add, on_delete, referrer.as_bytes());
    }

    /// Adds or removes a reference; `referrer` is the id of the referring resource, as in keys.
    pub(crate) fn step(&mut self, step: Step, on_delete: OnDelete, referrer: &[u8]) {
        // The behaviour's number takes the place of a version.
        self.0.step(step, referrer, on_delete as u64);
    }
}
