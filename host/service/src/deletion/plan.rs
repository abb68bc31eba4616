//! The plan of a deletion: its effect on the referrers of the resource, and on every resource that goes with it.
//!
//! # Rules
//! - What refers to a resource that goes, and cascades, goes too; each resource once, so cycles end.
//! - One that blocks refuses the whole, unless it goes itself; so does `meta.lifecycle.block_deletion` of any that goes. What
//!   is refused changes nothing.
//! - A resource that finalizers hold, or that something refers to which is worked off later, is marked and goes later; so
//!   is what such a resource still refers to. Nothing refers to a resource that is not there any more.
//! - Copies of other regions have no say: the region that owns them follows what happens here.
//! - Fields are cleared of references to what goes in this commit.
//!
//! # Limits
//! A deletion reaches [`MAX_REACHED`] resources and [`MAX_BYTES`] of them, besides the resource itself; so a cycle of
//! asynchronous cascades of more cannot end. Of those that reach more than [`SMALL`] one is planned and carried out at a
//! time, so that they hold no more memory together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mortise_resource::{Code, EncodedResource, Error, data::OnDelete, meta, pb};
use mortise_store::{ExpectedReferrers, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    call::store_fault::store_fault,
    references::{ResourceKey, field_of, finalizer::FINALIZER},
    rules::deletion_rules,
};

/// Resources that one deletion may delete, mark or change.
pub(super) const MAX_REACHED: usize = 10_000;
/// Their bytes.
const MAX_BYTES: usize = 32 << 20;
/// Of those that are worked off later, as many as are shown to who asks.
const SHOWN: usize = 1_000;
/// As far as many deletions may reach at once.
pub(super) const SMALL: DeletionSize = DeletionSize { resources: 256, bytes: 1 << 20 };
/// As far as one may.
pub(super) const WHOLE: DeletionSize = DeletionSize { resources: MAX_REACHED, bytes: MAX_BYTES };

/// The size of what a deletion reaches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeletionSize {
    resources: usize,
    bytes: usize,
}

/// For whom a deletion is planned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'p> {
    /// A request, or the host.
    Delete,
    /// Somebody who asks what a deletion would do.
    Show,
    /// A tenancy unit that is being emptied: what blocks from within it goes.
    Empty(&'p pb::Tenancy),
    /// A resource that was marked, of which what was to be worked off is: its own finalizers of clients are gone
    /// (`true`), or are looked at. What refers to it and is marked itself goes with it, if it cascades later or blocks:
    /// neither would go before the other.
    Finish { ignores_finalizers: bool },
}

/// What becomes of a resource that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlannedAction {
    /// It goes in this commit.
    Remove,
    /// It is marked, and goes later.
    Mark,
}

/// A resource that goes.
pub(crate) struct PlannedDeletion {
    pub(crate) stored: EncodedResource,
    pub(super) action: PlannedAction,
    /// What it refers to, and by which field; `None` for the resource that is to be deleted.
    pub(super) because: Option<(ResourceKey, String)>,
}

/// A resource that refers to one that goes.
pub(super) struct Link {
    pub(super) referrer: EncodedResource,
    pub(super) target: ResourceKey,
    pub(crate) field: String,
    pub(crate) on_delete: OnDelete,
}

/// What a deletion does.
pub(crate) struct DeletionPlan {
    /// The resource itself first.
    pub(crate) deletions: Vec<PlannedDeletion>,
    /// Those of which fields are cleared, and of references to what.
    pub(crate) unset: BTreeMap<ResourceKey, (EncodedResource, BTreeSet<ResourceKey>)>,
    /// What refuses it.
    pub(super) blocks: Vec<Link>,
    /// What of it must not be deleted, by `meta.lifecycle`.
    pub(super) protected: Vec<EncodedResource>,
    /// What is worked off afterwards, some of it, for who asks.
    pub(super) later: Vec<Link>,
    /// Whether there is more of it.
    pub(super) is_later_cut: bool,
    /// What was seen.
    pub(crate) referrers: Vec<ExpectedReferrers>,
    /// The place of a large one.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not known what refers to it.
    #[error("{0}")]
    Records(Error),
    /// It reaches too many.
    #[error(
        "the deletion reaches more than {MAX_REACHED} resources or {} MiB of them, which is the most for one commit; delete \
         what refers to the resource first, or declare these references asynchronous",
        MAX_BYTES >> 20
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

/// The resources that a deletion reaches, and what refers to them, while its plan is made.
pub(super) struct ReferenceGraph<'p> {
    pub(super) plan: DeletionPlan,
    purpose: Purpose<'p>,
    /// Where in the plan each resource that goes is.
    at: HashMap<ResourceKey, usize>,
    /// Those that finalizers hold, or something that is worked off later.
    pub(super) held: BTreeSet<usize>,
    /// What refers to what goes, and is to be cleared.
    unset: Vec<(ResourceKey, ResourceKey)>,
    /// Every resource that was reached besides the first, once.
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
            later: Vec::new(),
            is_later_cut: false,
            referrers: Vec::new(),
            place: None,
        };
        let (at, held, known) = (HashMap::new(), BTreeSet::new(), HashMap::new());
        Self { plan, purpose, at, held, unset: Vec::new(), known, reached: DeletionSize::default(), limit }
    }

    /// Takes in a resource that goes, if it was not.
    pub(super) fn join(
        &mut self,
        stored: EncodedResource,
        because: Option<(ResourceKey, String)>,
    ) -> Result<(), PlanError> {
        let key = ResourceKey::from(stored.id());
        if self.at.contains_key(&key) {
            return Ok(());
        }
        let index = self.plan.deletions.len();
        let stored = if index == 0 { stored } else { self.reach(stored)? };
        let whole = stored.decode()?;
        let is_finished = index == 0 && matches!(self.purpose, Purpose::Finish { ignores_finalizers: true });
        if !is_finished && meta::finalizers(&whole.metadata).iter().any(|finalizer| *finalizer != FINALIZER) {
            self.held.insert(index);
        }
        if deletion_rules::is_protected(&whole) {
            self.plan.protected.push(stored.clone());
        }
        self.at.insert(key, index);
        self.plan.deletions.push(PlannedDeletion { stored, action: PlannedAction::Remove, because });
        Ok(())
    }

    /// Counts a resource, once, and gives it as it was seen first.
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

    /// Takes in what refers to a resource that goes.
    pub(super) fn refer(
        &mut self,
        referrer: EncodedResource,
        target: &ResourceKey,
        on_delete: OnDelete,
    ) -> Result<(), PlanError> {
        let field = field_of(&referrer, target, on_delete)?;
        let goes = match (on_delete, self.purpose) {
            (OnDelete::Cascade, _) => true,
            (OnDelete::Block, Purpose::Empty(tenancy)) => is_within(&referrer, tenancy),
            (OnDelete::Block, Purpose::Finish { .. }) => referrer.deletion_mark().is_some(),
            _ => false,
        };
        if goes {
            return self.join(referrer, Some((target.clone(), field)));
        }
        let referrer = self.reach(referrer)?;
        match on_delete {
            OnDelete::Block => self.plan.blocks.push(Link { referrer, target: target.clone(), field, on_delete }),
            _ => self.unset.push((ResourceKey::from(referrer.id()), target.clone())),
        }
        Ok(())
    }

    /// Takes in what is to be worked off later and goes with what it refers to: in a cycle neither would go before the
    /// other. Returns whether it does.
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

    /// Notes what is worked off later. Returns whether more of what refers to the same is wanted.
    pub(super) fn show_later(
        &mut self,
        referrer: EncodedResource,
        target: &ResourceKey,
        on_delete: OnDelete,
    ) -> Result<bool, PlanError> {
        let shows = matches!(self.purpose, Purpose::Show);
        let bytes = self.reached.bytes + referrer.bytes().len();
        if shows && (self.plan.later.len() >= SHOWN || bytes > MAX_BYTES) {
            self.plan.is_later_cut = true;
            return Ok(false);
        }
        if shows {
            self.reached.bytes = bytes;
            let field = field_of(&referrer, target, on_delete)?;
            self.plan.later.push(Link { referrer, target: target.clone(), field, on_delete });
        }
        Ok(shows)
    }

    /// Decides what can go now.
    pub(super) fn finish(mut self) -> Result<DeletionPlan, PlanError> {
        // Whatever is held holds what it refers to.
        let mut open: Vec<usize> = self.held.iter().copied().collect();
        while let Some(index) = open.pop() {
            let Some(planned) = self.plan.deletions.get_mut(index) else { continue };
            planned.action = PlannedAction::Mark;
            for record in planned.stored.references()? {
                if matches!(record.on_delete(), OnDelete::Unspecified | OnDelete::AllowDangling) {
                    continue;
                }
                if let Some(target) = self.at.get(&ResourceKey::from(&record))
                    && self.held.insert(*target)
                {
                    open.push(*target);
                }
            }
        }
        let at = &self.at;
        self.plan.blocks.retain(|link| !at.contains_key(&ResourceKey::from(link.referrer.id())));
        for (key, target) in self.unset {
            let Some(referrer) = self.known.get(&key).cloned() else { continue };
            let goes = |key: &ResourceKey| self.at.get(key).and_then(|index| self.plan.deletions.get(*index));
            if goes(&key).is_none() && goes(&target).is_some_and(|planned| planned.action == PlannedAction::Remove) {
                self.plan.unset.entry(key).or_insert_with(|| (referrer, BTreeSet::new())).1.insert(target);
            }
        }
        Ok(self.plan)
    }
}

impl DeletionPlan {
    /// Whether it is refused.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.blocks.is_empty() || !self.protected.is_empty()
    }

    /// What becomes of the resource itself.
    pub(crate) fn action(&self) -> PlannedAction {
        self.deletions.first().map_or(PlannedAction::Remove, |root| root.action)
    }
}

fn is_within(resource: &EncodedResource, tenancy: &pb::Tenancy) -> bool {
    use mortise_resource::tenancy::WILDCARD;
    resource.partition() == tenancy.partition
        && (tenancy.namespace == WILDCARD || resource.namespace() == tenancy.namespace)
}
