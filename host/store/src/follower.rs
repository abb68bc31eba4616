//! Following another store: a [`SledBackend`](crate::SledBackend) as the local copy of one that several servers share.
//!
//! The shared store decides. A server *drafts* a batch on its copy: the copy checks the batch as a commit does, and
//! returns the changes with everything that they depend on, but stores nothing. The server proposes the draft to the
//! shared store. An accepted proposal comes back as a [`FollowedCommit`], in the order of all servers' commits, and the
//! copy applies it. So the copy never changes by itself, and everything that reads it is the code of a single server.
//!
//! # Contract
//! - Sequences are those of the shared store. They grow, with gaps, and are the same in every copy.
//! - A commit that was applied already changes nothing: after a restart, a copy may get its last commits once more.
//! - A copy acknowledges nothing, so it need not sync its disk: a loss of power costs commits that come once more.
//!
//! # Quotas
//! The copy lacks what the server has stored and not got back yet. So a draft comes with its [growth](DraftedGrowth), and
//! the next one counts the growth of the drafts before it.
//!
//! # Cost
//! A draft costs what a commit costs without the disk. Each is done by the commit thread, between two commits.

use std::collections::BTreeMap;

use mortise_resource::{EncodedResource, pb};

use crate::{ExpectedId, StoreError};

/// Bounds of a draft, for what one transaction of the shared store can hold. The first batch is drafted in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftLimits {
    /// Sequence before that of the first event, as far as it can be told: the size of a resource depends on the number
    /// of its digits.
    pub base: u64,
    /// Most changes, and most resources and references that they depend on, each.
    pub operations: usize,
    /// Size of the changed resources at which the draft ends, bytes.
    pub bytes: usize,
}

/// Several batches, checked one after another on the newest state of the copy.
#[derive(Debug)]
pub struct Draft {
    /// Results of the first batches, at least one; the rest needs another draft.
    pub results: Vec<Result<DraftedBatch, StoreError>>,
    /// Changes of all accepted batches, with the places 0, 1, … in order. No resource changes in two of the batches.
    pub changes: Vec<DraftedChange>,
    /// Resources on whose state the accepted batches depend, each once.
    pub reads: Vec<DraftedRead>,
    /// Resources of which the accepted batches expect that nothing new refers to them.
    pub referrers: Vec<ExpectedId>,
    /// Growth of tenancies by the accepted batches.
    pub growth: DraftedGrowth,
}

/// Upper bound of what drafts add to tenancies: resources and bytes, by the key of the usage record. Room that a draft
/// makes does not count, since the copy may have it already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftedGrowth(pub(crate) BTreeMap<Vec<u8>, (i64, i64)>);

impl DraftedGrowth {
    /// Adds the growth of another draft.
    pub fn extend(&mut self, other: &Self) {
        for (key, (resources, bytes)) in &other.0 {
            let sum = self.0.entry(key.clone()).or_default();
            *sum = (sum.0.saturating_add(*resources), sum.1.saturating_add(*bytes));
        }
    }
}

/// An accepted batch of a draft.
#[derive(Debug, Default)]
pub struct DraftedBatch {
    /// Result of each mutation.
    pub results: Vec<DraftedResult>,
    /// Whether the batch changes anything.
    pub has_changes: bool,
}

/// Result of a mutation.
#[derive(Debug, Clone, PartialEq)]
pub enum DraftedResult {
    /// A deletion, or a mutation without effect.
    Nothing,
    /// The resource of a put, still with a version of the copy's making: the shared store makes the version.
    Put {
        /// Place of the put.
        place: u32,
        /// The resource.
        resource: EncodedResource,
    },
    /// The resource of an effective rewrite, as it will be.
    Rewritten(EncodedResource),
}

/// A change of one resource.
#[derive(Debug, Clone)]
pub struct DraftedChange {
    /// Resource; the uid is empty.
    pub id: ExpectedId,
    /// State before the batch; `None` for a creation.
    pub before: Option<EncodedResource>,
    /// Effect of the batch.
    pub effect: DraftedEffect,
}

/// Effect of a batch on a resource.
#[derive(Debug, Clone)]
pub enum DraftedEffect {
    /// Creation or replacement.
    Put {
        /// Place of the event.
        place: u32,
        /// Place of the deletion of an earlier incarnation in the same batch.
        deletion: Option<u32>,
        /// The resource, with a version of the copy's making.
        resource: EncodedResource,
    },
    /// Replacement of the stored form. No event.
    Rewrite {
        /// Sequence that the resource keeps.
        sequence: u64,
        /// The resource.
        resource: EncodedResource,
    },
    /// Deletion.
    Delete {
        /// Place of the event.
        place: u32,
    },
}

/// A resource whose state decided about a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftedRead {
    /// Resource; the uid is empty.
    pub id: ExpectedId,
    /// Sequence of the stored state; `None` for an absent resource.
    pub sequence: Option<u64>,
}

/// Changes of one commit of the shared store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FollowedCommit {
    /// Changes in the order of their sequences.
    pub changes: Vec<FollowedChange>,
}

/// A change that the shared store decided.
#[derive(Debug, Clone, PartialEq)]
pub enum FollowedChange {
    /// Creation or replacement.
    Put {
        /// Sequence of the event, which is the version.
        sequence: u64,
        /// Sequence of the deletion of an earlier incarnation in the same commit.
        deletion: Option<u64>,
        /// The resource; its versions are set here.
        resource: Box<pb::Resource>,
    },
    /// Replacement of the stored form of the resource with this sequence.
    Rewrite {
        /// Sequence that the resource keeps.
        sequence: u64,
        /// The resource; its versions are set here.
        resource: Box<pb::Resource>,
    },
    /// Deletion; nothing if the resource is absent.
    Delete {
        /// Sequence of the event.
        sequence: u64,
        /// Resource; its uid does not matter.
        id: ExpectedId,
    },
}

/// A resource of the content that a new copy is filled with.
#[derive(Debug, Clone, PartialEq)]
pub struct FilledResource {
    /// Sequence of its last change.
    pub sequence: u64,
    /// The resource; its versions are set here.
    pub resource: pb::Resource,
}

/// Returns the resource with the version of a sequence, also in its metadata.
#[must_use]
pub fn with_version(mut resource: pb::Resource, sequence: u64) -> pb::Resource {
    resource.version = sequence.to_string();
    if let Some(meta) = &mut resource.meta {
        meta.resource_version.clone_from(&resource.version);
    }
    resource
}
