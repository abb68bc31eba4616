//! Which resources refer to one, as a set that two moments can be compared by.
//!
//! What deletes a resource looks at what refers to it, and decides. That is right only as long as nothing else has come to
//! refer to it by the commit; so the batch says what was seen ([`ExpectedReferrers`]), and the store compares.

use mortise_resource::{IdRef, data::OnDelete};

use crate::{
    ExpectedId,
    set_hash::{SetHash, Step},
};

/// Behaviours that are carried out in the commit of the deletion.
pub const IN_ONE_COMMIT: [OnDelete; 3] = [OnDelete::Block, OnDelete::Unset, OnDelete::Cascade];
/// Behaviours that are carried out while the resource is marked.
pub const LATER: [OnDelete; 2] = [OnDelete::AsyncUnset, OnDelete::AsyncCascade];

/// What refers to a resource, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedReferrers {
    /// The resource; its uid does not matter.
    pub id: ExpectedId,
    /// Everything that refers to it with a behaviour of [`IN_ONE_COMMIT`].
    pub in_one_commit: ReferrerSet,
    /// The same with a behaviour of [`LATER`]; `None`: it does not matter what.
    pub later: Option<ReferrerSet>,
}

/// References to one resource: which resources have them, and with which behaviour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReferrerSet(SetHash);

impl ReferrerSet {
    /// Takes in that a resource refers to it; once for each behaviour.
    pub fn add(&mut self, on_delete: OnDelete, IdRef { group, kind, partition, namespace, name, .. }: IdRef<'_>) {
        let referrer = [group, kind, partition, namespace, name, ""].join("\0");
        self.step(Step::Add, on_delete, referrer.as_bytes());
    }

    /// Takes a reference in, or away; `referrer` is the id of who has it as it stands in keys.
    pub(crate) fn step(&mut self, step: Step, on_delete: OnDelete, referrer: &[u8]) {
        // The number stands where others have a version.
        self.0.step(step, referrer, on_delete as u64);
    }
}
