//! What a deletion does to everything that refers to the resource, and to what goes with it.
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
use mortise_store::{COMMIT_BEHAVIOURS, DEFERRED_BEHAVIOURS, ExpectedReferrers, ReferrerSet, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use super::{FINALIZER, ResourceKey};
use crate::{registry::Registry, removal, service::ResourceService};

/// Resources that one deletion may delete, mark or change.
pub(crate) const MAX_REACHED: usize = 10_000;
/// Their bytes.
const MAX_BYTES: usize = 32 << 20;
/// Of those that are worked off later, as many as are shown to who asks.
const SHOWN: usize = 1_000;
/// As far as many deletions may reach at once.
const SMALL: Reach = Reach { resources: 256, bytes: 1 << 20 };
/// As far as one may.
const WHOLE: Reach = Reach { resources: MAX_REACHED, bytes: MAX_BYTES };

/// How far a deletion reaches.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
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
pub(crate) enum Fate {
    /// It goes in this commit.
    Remove,
    /// It is marked, and goes later.
    Mark,
}

/// A resource that goes.
pub(crate) struct Doomed {
    pub(crate) stored: EncodedResource,
    pub(crate) fate: Fate,
    /// What it refers to, and by which field; `None` for the resource that is to be deleted.
    pub(crate) because: Option<(ResourceKey, String)>,
}

/// A resource that refers to one that goes.
pub(crate) struct Link {
    pub(crate) referrer: EncodedResource,
    pub(crate) target: ResourceKey,
    pub(crate) field: String,
    pub(crate) on_delete: OnDelete,
}

/// What a deletion does.
pub(crate) struct DeletionPlan {
    /// The resource itself first.
    pub(crate) doomed: Vec<Doomed>,
    /// Those of which fields are cleared, and of references to what.
    pub(crate) unset: BTreeMap<ResourceKey, (EncodedResource, BTreeSet<ResourceKey>)>,
    /// What refuses it.
    pub(crate) blocks: Vec<Link>,
    /// What of it must not be deleted, by `meta.lifecycle`.
    pub(crate) protected: Vec<EncodedResource>,
    /// What is worked off afterwards, some of it, for who asks.
    pub(crate) later: Vec<Link>,
    /// Whether there is more of it.
    pub(crate) is_later_cut: bool,
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
            PlanError::Store(error) => crate::store_fault::store_fault("failed to look for references", &error),
            PlanError::Records(error) => error,
            PlanError::TooFar => Self::new(Code::FailedPrecondition, error.to_string()),
        }
    }
}

/// A plan that is being made.
struct Planning<'p> {
    plan: DeletionPlan,
    purpose: Purpose<'p>,
    /// Where in the plan each resource that goes is.
    at: HashMap<ResourceKey, usize>,
    /// Those that finalizers hold, or something that is worked off later.
    held: BTreeSet<usize>,
    /// What refers to what goes, and is to be cleared.
    unset: Vec<(ResourceKey, ResourceKey)>,
    /// Every resource that was reached besides the first, once.
    known: HashMap<ResourceKey, EncodedResource>,
    reached: Reach,
    limit: Reach,
}

impl ResourceService {
    /// Plans the deletion of a resource.
    pub(crate) async fn plan_deletion(
        &self,
        registry: &Registry,
        root: EncodedResource,
        purpose: Purpose<'_>,
    ) -> Result<DeletionPlan, PlanError> {
        match self.plan_within(SMALL, registry, root.clone(), purpose).await {
            Err(PlanError::TooFar) => {}
            planned => return planned,
        }
        // Who asks has a place of its own, so that deletions do not wait for readers.
        let places = if matches!(purpose, Purpose::Show) { &self.large_shows } else { &self.large_deletions };
        let place = places.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let plan = self.plan_within(WHOLE, registry, root, purpose).await?;
        Ok(DeletionPlan { place: Some(place), ..plan })
    }

    async fn plan_within(
        &self,
        limit: Reach,
        registry: &Registry,
        root: EncodedResource,
        purpose: Purpose<'_>,
    ) -> Result<DeletionPlan, PlanError> {
        let mut planning = Planning::new(limit, purpose);
        planning.join(root, None)?;
        let (mut next, mut read) = (0, BTreeSet::new());
        while let Some(target) = planning.plan.doomed.get(next).map(|doomed| ResourceKey::from(doomed.stored.id())) {
            if registry.is_referenced(&target.group, &target.kind) {
                if read.insert((target.group.clone(), target.kind.clone())) {
                    let known = self.records_of_referrers(registry, &target.group, &target.kind).await;
                    known.map_err(PlanError::Records)?;
                }
                self.look_at_referrers(&mut planning, next, target).await?;
            }
            next += 1;
        }
        planning.finish()
    }

    async fn look_at_referrers(
        &self,
        planning: &mut Planning<'_>,
        index: usize,
        target: ResourceKey,
    ) -> Result<(), PlanError> {
        let id = target.expected();
        let mut at_commit = ReferrerSet::default();
        for on_delete in COMMIT_BEHAVIOURS {
            let mut referrers = self.backend.scan_referrers(&id, on_delete).await?;
            while let Some(page) = referrers.next().await? {
                for referrer in page {
                    at_commit.add(on_delete, referrer.id());
                    if !target.is(&referrer) && !self.is_foreign(&referrer) {
                        planning.refer(referrer, &target, on_delete)?;
                    }
                }
            }
        }
        let later = self.look_at_later(planning, index, &target).await?;
        planning.plan.referrers.push(ExpectedReferrers { id, at_commit, deferred: later });
        Ok(())
    }

    /// Looks at what is worked off later. The result is what refers to it and does not hold it; `None` if something does.
    async fn look_at_later(
        &self,
        planning: &mut Planning<'_>,
        index: usize,
        target: &ResourceKey,
    ) -> Result<Option<ReferrerSet>, PlanError> {
        let mut seen = ReferrerSet::default();
        for on_delete in DEFERRED_BEHAVIOURS {
            let mut referrers = self.backend.scan_referrers(&target.expected(), on_delete).await?;
            while let Some(page) = referrers.next().await? {
                for referrer in page {
                    seen.add(on_delete, referrer.id());
                    if target.is(&referrer)
                        || self.is_foreign(&referrer)
                        || planning.joins_later(&referrer, target, on_delete)?
                    {
                        continue;
                    }
                    planning.held.insert(index);
                    if !planning.show_later(referrer, target, on_delete)? {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(seen).filter(|_| !planning.held.contains(&index)))
    }
}

impl<'p> Planning<'p> {
    fn new(limit: Reach, purpose: Purpose<'p>) -> Self {
        let plan = DeletionPlan {
            doomed: Vec::new(),
            unset: BTreeMap::new(),
            blocks: Vec::new(),
            protected: Vec::new(),
            later: Vec::new(),
            is_later_cut: false,
            referrers: Vec::new(),
            place: None,
        };
        let (at, held, known) = (HashMap::new(), BTreeSet::new(), HashMap::new());
        Self { plan, purpose, at, held, unset: Vec::new(), known, reached: Reach::default(), limit }
    }

    /// Takes in a resource that goes, if it was not.
    fn join(&mut self, stored: EncodedResource, because: Option<(ResourceKey, String)>) -> Result<(), PlanError> {
        let key = ResourceKey::from(stored.id());
        if self.at.contains_key(&key) {
            return Ok(());
        }
        let index = self.plan.doomed.len();
        let stored = if index == 0 { stored } else { self.reach(stored)? };
        let whole = stored.decode()?;
        let is_finished = index == 0 && matches!(self.purpose, Purpose::Finish { ignores_finalizers: true });
        if !is_finished && meta::finalizers(&whole.metadata).iter().any(|finalizer| *finalizer != FINALIZER) {
            self.held.insert(index);
        }
        if removal::is_protected(&whole) {
            self.plan.protected.push(stored.clone());
        }
        self.at.insert(key, index);
        self.plan.doomed.push(Doomed { stored, fate: Fate::Remove, because });
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
    fn refer(&mut self, referrer: EncodedResource, target: &ResourceKey, on_delete: OnDelete) -> Result<(), PlanError> {
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
    fn joins_later(
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
    fn show_later(
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
    fn finish(mut self) -> Result<DeletionPlan, PlanError> {
        // Whatever is held holds what it refers to.
        let mut open: Vec<usize> = self.held.iter().copied().collect();
        while let Some(index) = open.pop() {
            let Some(doomed) = self.plan.doomed.get_mut(index) else { continue };
            doomed.fate = Fate::Mark;
            for record in doomed.stored.references()? {
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
            let goes = |key: &ResourceKey| self.at.get(key).and_then(|index| self.plan.doomed.get(*index));
            if goes(&key).is_none() && goes(&target).is_some_and(|doomed| doomed.fate == Fate::Remove) {
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
    pub(crate) fn fate(&self) -> Fate {
        self.doomed.first().map_or(Fate::Remove, |root| root.fate)
    }
}

/// The first field by which a resource refers to another in this way.
fn field_of(referrer: &EncodedResource, target: &ResourceKey, on_delete: OnDelete) -> Result<String, PlanError> {
    let records = referrer.references()?;
    let record = records.into_iter().find(|of| of.on_delete() == on_delete && ResourceKey::from(of) == *target);
    Ok(record.map(|record| record.field).unwrap_or_default())
}

fn is_within(resource: &EncodedResource, tenancy: &pb::Tenancy) -> bool {
    use mortise_resource::tenancy::WILDCARD;
    resource.partition() == tenancy.partition
        && (tenancy.namespace == WILDCARD || resource.namespace() == tenancy.namespace)
}
