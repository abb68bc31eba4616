//! The plan of a deletion: its effect on the referrers of the resource, and on every resource that goes with it.
//!
//! # Rules
//! - A referrer with a cascading reference to a deleted resource is deleted too. Each resource counts once, so cycles
//!   end.
//! - A referrer with a blocking reference refuses the whole plan, unless it is deleted itself; so does
//!   `meta.lifecycle.block_deletion` of any deleted resource. A refused plan changes nothing.
//! - A resource held by finalizers, or by referrers with deferred work, is marked and deleted later; so is everything
//!   that such a resource still refers to. So no reference names a missing resource, unless its field allows that
//!   (`ALLOW_DANGLING`).
//! - Replicas of other regions do not count: their own region follows the deletions here.
//! - Clearing references are removed from their referrers in this commit.
//!
//! # Limits
//! A deletion reaches at most [`MAX_REACHED_RESOURCES`] resources and [`MAX_REACHED_BYTES`] of them, besides the
//! resource itself; so a larger cycle of asynchronous cascades cannot end. Deletions that reach more than
//! [`SMALL_DELETION`] are planned and carried out one at a time, which bounds their memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mortise_resource::{Code, EncodedResource, Error, data::OnDelete, meta, pb, tenancy::WILDCARD, types};
use mortise_store::{Expectation, ExpectedId, ExpectedReferrers, StoreError, TypeKey};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    call::store_fault::store_fault,
    planted::{self, Fault},
    references::{ResourceKey, field_of, finalizer::REFERENCES_FINALIZER},
    rules::deletion_rules,
};

/// Resources that one deletion may delete, mark or change.
pub(super) const MAX_REACHED_RESOURCES: usize = 10_000;
/// Bytes of these resources.
pub(super) const MAX_REACHED_BYTES: usize = 32 << 20;
/// Largest deletion that runs beside others.
pub(super) const SMALL_DELETION: DeletionSize = DeletionSize { resources: 256, bytes: 1 << 20 };
/// Largest deletion.
pub(super) const LARGEST_DELETION: DeletionSize =
    DeletionSize { resources: MAX_REACHED_RESOURCES, bytes: MAX_REACHED_BYTES };

/// Number and bytes of the reached resources.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeletionSize {
    pub(super) resources: usize,
    pub(super) bytes: usize,
}

/// The purpose of a planned deletion.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'p> {
    /// A request, or the host.
    Delete,
    /// A part of the deletion of the resource with this uid.
    Follow(&'p str),
    /// The emptying of a tenancy unit: blocking resources inside the unit are deleted. The uid is the unit's.
    Empty(&'p pb::Tenancy, &'p str),
    /// The end of a marked resource, whose deferred work is done. `ignores_finalizers` is true if the client's
    /// finalizers on it are gone; otherwise they count. A referrer that is marked itself, and cascades later or blocks,
    /// is deleted with it: each would wait for the other. `deletion` as in `Follow`; empty for the resource itself.
    Finish { ignores_finalizers: bool, deletion: &'p str },
}

impl<'p> Purpose<'p> {
    /// Returns the uid of the resource whose deletion this is a part of; empty for the planned resource itself.
    pub(super) fn deletion(self) -> &'p str {
        match self {
            Self::Delete => "",
            Self::Follow(deletion) | Self::Empty(_, deletion) | Self::Finish { deletion, .. } => deletion,
        }
    }

    /// Returns the condition of the commit: the emptied unit still exists. Another server may have emptied and removed it
    /// meanwhile, and what is in a new unit of that name must stay.
    pub(super) fn expectations(self) -> Vec<Expectation> {
        let Self::Empty(tenancy, uid) = self else { return Vec::new() };
        let (kind, partition, name) = match tenancy.namespace == WILDCARD {
            true => (types::partition(), "", &tenancy.partition),
            false => (types::namespace(), tenancy.partition.as_str(), &tenancy.namespace),
        };
        let id = ExpectedId {
            type_key: TypeKey::from(&kind.to_pb()),
            partition: partition.to_owned(),
            namespace: String::new(),
            name: name.clone(),
            uid: uid.to_owned(),
        };
        vec![Expectation { id, generation: None, is_unmarked: false }]
    }
}

/// The planned action for a reached resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlannedAction {
    /// Deletes the resource in this commit.
    Remove,
    /// Marks the resource; it is deleted later.
    Mark,
}

/// A resource to be deleted.
pub(crate) struct PlannedDeletion {
    pub(crate) stored: EncodedResource,
    pub(super) action: PlannedAction,
    /// Target and field of the reference that leads here; `None` for the resource of the request.
    pub(super) because: Option<(ResourceKey, String)>,
}

/// A blocking reference to a resource to be deleted.
pub(super) struct Link {
    pub(super) referrer: EncodedResource,
    pub(super) target: ResourceKey,
    pub(super) field: String,
}

/// The effect of a deletion.
pub(crate) struct DeletionPlan {
    /// Resources to be deleted; that of the request is first.
    pub(crate) deletions: Vec<PlannedDeletion>,
    /// Referrers with fields to be cleared, and the targets that are removed from them.
    pub(crate) unset: BTreeMap<ResourceKey, (EncodedResource, BTreeSet<ResourceKey>)>,
    /// Blocking references.
    pub(super) blocks: Vec<Link>,
    /// Reached resources with `meta.lifecycle.block_deletion`.
    pub(super) protected: Vec<EncodedResource>,
    /// Referrers with deferred work that hold a resource, one for each.
    pub(super) holders: Vec<ResourceKey>,
    /// Referrers that the commit expects, and no others.
    pub(crate) referrers: Vec<ExpectedReferrers>,
    /// Conditions of the commit.
    pub(super) expect: Vec<Expectation>,
    /// Uid of the resource whose deletion this is a part of; empty for the resource of the request.
    pub(super) deletion: String,
    /// Place of a large deletion.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// The reason why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The references to the resource cannot be determined.
    #[error(transparent)]
    Records(Error),
    /// The deletion exceeds the limits.
    #[error(
        "the deletion reaches more than {MAX_REACHED_RESOURCES} resources or {} MiB of them, the limit of one commit; delete \
         what refers to the resource first, or declare these references asynchronous",
        MAX_REACHED_BYTES >> 20
    )]
    TooFar,
}

impl From<mortise_resource::EncodingError> for PlanError {
    fn from(fault: mortise_resource::EncodingError) -> Self {
        Self::Store(fault.into())
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Store(error) => store_fault("failed to look for references", &error),
            PlanError::Records(error) => error,
            PlanError::TooFar => Self::new(Code::FailedPrecondition, error.to_string()),
        }
    }
}

/// The resources that a deletion reaches, and the references between them, while its plan is made.
pub(super) struct ReferenceGraph<'p> {
    pub(super) plan: DeletionPlan,
    purpose: Purpose<'p>,
    /// Index of each resource in the plan.
    positions: HashMap<ResourceKey, usize>,
    /// Indices of the resources held by finalizers or deferred work.
    pub(super) held: BTreeSet<usize>,
    /// References to be cleared: referrer and target.
    unset: Vec<(ResourceKey, ResourceKey)>,
    /// Every reached resource besides the first, once.
    known: HashMap<ResourceKey, EncodedResource>,
    reached: DeletionSize,
    limit: DeletionSize,
}

impl<'p> ReferenceGraph<'p> {
    pub(super) fn new(limit: DeletionSize, purpose: Purpose<'p>) -> Self {
        let plan = DeletionPlan {
            deletions: Vec::new(),
            unset: BTreeMap::new(),
            blocks: Vec::new(),
            protected: Vec::new(),
            holders: Vec::new(),
            referrers: Vec::new(),
            expect: purpose.expectations(),
            deletion: purpose.deletion().to_owned(),
            place: None,
        };
        let (positions, held, known) = (HashMap::new(), BTreeSet::new(), HashMap::new());
        Self { plan, purpose, positions, held, unset: Vec::new(), known, reached: DeletionSize::default(), limit }
    }

    /// Adds a resource to be deleted, unless it is already there.
    pub(super) fn join(
        &mut self,
        stored: EncodedResource,
        because: Option<(ResourceKey, String)>,
    ) -> Result<(), PlanError> {
        let key = ResourceKey::from(stored.id());
        if self.positions.contains_key(&key) {
            return Ok(());
        }
        let index = self.plan.deletions.len();
        let stored = if index == 0 { stored } else { self.reach(stored)? };
        let whole = stored.decode()?;
        let is_finished = index == 0 && matches!(self.purpose, Purpose::Finish { ignores_finalizers: true, .. });
        if !is_finished && meta::finalizers(&whole.metadata).iter().any(|finalizer| *finalizer != REFERENCES_FINALIZER)
        {
            self.held.insert(index);
        }
        if deletion_rules::is_protected(&whole) {
            self.plan.protected.push(stored.clone());
        }
        self.positions.insert(key, index);
        self.plan.deletions.push(PlannedDeletion { stored, action: PlannedAction::Remove, because });
        Ok(())
    }

    /// Counts a resource, once, and returns it as it was first seen.
    fn reach(&mut self, stored: EncodedResource) -> Result<EncodedResource, PlanError> {
        let key = ResourceKey::from(stored.id());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let Self { reached, limit, .. } = self;
        reached.resources += 1;
        reached.bytes += stored.bytes().len();
        if reached.resources > limit.resources || reached.bytes > limit.bytes {
            return Err(PlanError::TooFar);
        }
        self.known.insert(key, stored.clone());
        Ok(stored)
    }

    /// Adds a reference to a resource to be deleted.
    pub(super) fn refer(
        &mut self,
        referrer: EncodedResource,
        target: &ResourceKey,
        on_delete: OnDelete,
    ) -> Result<(), PlanError> {
        let field = field_of(&referrer, target, on_delete)?;
        let goes = match (on_delete, self.purpose) {
            (OnDelete::Cascade, _) => true,
            (OnDelete::Block, Purpose::Empty(tenancy, _)) => is_within(&referrer, tenancy),
            (OnDelete::Block, Purpose::Finish { .. }) => referrer.deletion_mark().is_some(),
            _ => false,
        };
        if goes {
            return self.join(referrer, Some((target.clone(), field)));
        }
        let referrer = self.reach(referrer)?;
        match on_delete {
            OnDelete::Block => self.plan.blocks.push(Link { referrer, target: target.clone(), field }),
            _ => self.unset.push((ResourceKey::from(referrer.id()), target.clone())),
        }
        Ok(())
    }

    /// Adds a referrer with deferred work that is deleted together with its target, since in a cycle each would wait
    /// for the other. Returns whether it was added.
    pub(super) fn joins_later(
        &mut self,
        referrer: &EncodedResource,
        target: &ResourceKey,
        on_delete: OnDelete,
    ) -> Result<bool, PlanError> {
        let joins = matches!(self.purpose, Purpose::Finish { .. })
            && on_delete == OnDelete::AsyncCascade
            && referrer.deletion_mark().is_some();
        if joins {
            let field = field_of(referrer, target, on_delete)?;
            self.join(referrer.clone(), Some((target.clone(), field)))?;
        }
        Ok(joins)
    }

    /// Decides which resources can be deleted now.
    pub(super) fn finish(mut self) -> Result<DeletionPlan, PlanError> {
        // A held resource holds everything that it refers to.
        let mut open: Vec<usize> = self.held.iter().copied().collect();
        while let Some(index) = open.pop() {
            let Some(planned) = self.plan.deletions.get_mut(index) else { continue };
            planned.action = PlannedAction::Mark;
            for record in planned.stored.references()? {
                if matches!(record.on_delete(), OnDelete::Unspecified | OnDelete::AllowDangling) {
                    continue;
                }
                if let Some(target) = self.positions.get(&ResourceKey::from(&record))
                    && self.held.insert(*target)
                {
                    open.push(*target);
                }
            }
        }
        let positions = &self.positions;
        self.plan.blocks.retain(|link| !positions.contains_key(&ResourceKey::from(link.referrer.id())));
        for (key, target) in self.unset {
            let Some(referrer) = self.known.get(&key).cloned() else { continue };
            let goes = |key: &ResourceKey| positions.get(key).and_then(|index| self.plan.deletions.get(*index));
            if goes(&key).is_none() && goes(&target).is_some_and(|planned| planned.action == PlannedAction::Remove) {
                self.plan.unset.entry(key).or_insert_with(|| (referrer, BTreeSet::new())).1.insert(target);
            }
        }
        Ok(self.plan)
    }
}

impl DeletionPlan {
    /// Whether the deletion is refused.
    pub(crate) fn is_blocked(&self) -> bool {
        (!self.blocks.is_empty() && !planted::happens(Fault::BlockIgnored)) || !self.protected.is_empty()
    }

    /// Returns the number of resources in the plan.
    pub(super) fn reached(&self) -> usize {
        self.deletions.len() + self.unset.len() + self.blocks.len()
    }

    /// Returns the planned action for the resource of the request.
    pub(crate) fn action(&self) -> PlannedAction {
        self.deletions.first().map_or(PlannedAction::Remove, |root| root.action)
    }
}

fn is_within(resource: &EncodedResource, tenancy: &pb::Tenancy) -> bool {
    use mortise_resource::tenancy::WILDCARD;
    resource.partition() == tenancy.partition
        && (tenancy.namespace == WILDCARD || resource.namespace() == tenancy.namespace)
}
