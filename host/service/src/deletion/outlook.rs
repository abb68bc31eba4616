//! The outlook of a deletion: the effect of its commit, and of the garbage collector's work up to its end, worked out
//! without a change of the store.
//!
//! The steps are those of [`crate::deletion::reaper`], [`crate::deletion::release`] and [`crate::deletion::owners`],
//! with the same plans and the same rule for owners, over an [`Overlay`]. Work that is held is tried again after every
//! change, so the order of the work has no effect on the end.
//!
//! # Limits
//! [`MAX_REACHED_RESOURCES`] changed resources and [`MAX_REACHED_BYTES`] of them, [`MAX_WORK`] pieces of work,
//! [`MAX_PLANS`] plans, and [`MAX_READ_RESOURCES`] resources read by scans and plans; beyond these the outlook is cut,
//! and names the bound. The content of a unit of tenancy is scanned once; later rounds look at what is left of it. A
//! large outlook has the place of large plans that are only shown, so that readers do not delay deletions. Concurrent
//! changes, and work of earlier deletions that does not touch the resource, are not foreseen.

mod holds;
mod work;

use std::{collections::HashMap, sync::Arc};

use mortise_resource::{
    Code, EncodedResource, Error,
    data::{OnDelete, delete_step::Action},
    meta, pb,
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    deletions::Deletions,
    overlay::Overlay,
    owners::DeletedOwner,
    plan::{
        DeletionPlan, LARGEST_DELETION, MAX_REACHED_BYTES, MAX_REACHED_RESOURCES, PlanError, PlannedAction, Purpose,
        SMALL_DELETION,
    },
};
use crate::{
    references::{ResourceKey, field_of},
    registry::Registry,
};
pub(super) use holds::Holds;

/// Most pieces of work of one outlook.
const MAX_WORK: usize = 20_000;
/// Most plans of one outlook.
const MAX_PLANS: usize = 20_000;
/// Most resources that the scans and the plans of one outlook read.
const MAX_READ_RESOURCES: usize = 200_000;

/// The target and the field of the reference that leads to a step; `None` for the resource of the request.
type Cause = Option<(ResourceKey, String)>;

/// A step of the outlook.
pub(super) struct OutlookStep {
    pub(super) action: Action,
    /// The resource as stored.
    pub(super) resource: EncodedResource,
    pub(super) because: Cause,
    pub(super) holds: Holds,
}

/// The end of an outlook.
pub(super) struct Foreseen {
    pub(super) steps: Vec<OutlookStep>,
    pub(super) is_blocked: bool,
    /// The bound that was reached; empty for a complete outlook.
    pub(super) cut: String,
}

/// Work of the garbage collector.
enum Work {
    /// The deletion of a resource; in the emptying of a unit, with its tenancy.
    Delete { key: ResourceKey, because: Cause, within: Option<pb::Tenancy> },
    /// The loss of an owner.
    Release { key: ResourceKey, owner: Arc<DeletedOwner> },
    /// The deferred work for a marked resource, and its end.
    Finish { key: ResourceKey },
    /// The emptying of a unit of tenancy.
    Empty { key: ResourceKey },
}

/// The outcome of a piece of work.
enum Progress {
    Done,
    Held(Holds),
}

/// An outlook in the making.
pub(super) struct Outlook<'o> {
    deletions: &'o Deletions,
    registry: &'o Registry,
    /// Uid of the resource of the request.
    deletion: String,
    supposed: Overlay,
    steps: Vec<OutlookStep>,
    /// Marked resources as stored, with the causes of their marks.
    marked: HashMap<ResourceKey, (EncodedResource, Cause)>,
    open: Vec<Work>,
    /// Pieces of work, plans, read resources and changes so far.
    works: usize,
    plans: usize,
    read: usize,
    /// Limit of the read resources.
    pub(super) most_read: usize,
    changes: usize,
    /// Content of units that is left after their scan.
    left: HashMap<ResourceKey, Vec<ResourceKey>>,
    /// The place of a large outlook.
    place: Option<OwnedSemaphorePermit>,
}

impl Work {
    fn key(&self) -> &ResourceKey {
        match self {
            Self::Delete { key, .. } | Self::Release { key, .. } | Self::Finish { key } | Self::Empty { key } => key,
        }
    }
}

impl<'o> Outlook<'o> {
    pub(super) fn new(deletions: &'o Deletions, registry: &'o Registry) -> Self {
        Self {
            deletions,
            registry,
            deletion: String::new(),
            supposed: Overlay::default(),
            steps: Vec::new(),
            marked: HashMap::new(),
            open: Vec::new(),
            works: 0,
            plans: 0,
            read: 0,
            most_read: MAX_READ_RESOURCES,
            changes: 0,
            left: HashMap::new(),
            place: None,
        }
    }

    /// Foresees the deletion of a resource.
    ///
    /// # Errors
    /// The first commit cannot be planned. Faults of the store.
    pub(super) async fn of(mut self, root: EncodedResource) -> Result<Foreseen, PlanError> {
        self.deletion = root.uid().to_owned();
        let whole = root.decode()?;
        if meta::is_marked(&whole.metadata) && meta::has_finalizers(&whole.metadata) {
            // A second deletion changes nothing.
            let key = ResourceKey::from(root.id());
            self.step(Action::Mark, root.clone(), None, Holds::default());
            self.marked.insert(key.clone(), (root, None));
            self.begin_work_of_marked(key, &whole);
        } else if self.deletions.is_planned(self.registry, &whole) {
            let plan = self.plan(root, Purpose::Delete).await?;
            if plan.is_blocked() {
                return self.refused(plan);
            }
            if let Progress::Held(holds) = self.apply(plan, None, false).await? {
                let why = Error::new(Code::FailedPrecondition, holds.reason);
                return Err(PlanError::Records(why));
            }
        } else {
            self.delete_alone(root, &whole, None, false).await?;
        }
        let cut = self.settle().await?;
        Ok(Foreseen { steps: self.steps, is_blocked: false, cut })
    }

    /// Returns the steps of a plan that is refused as a whole.
    fn refused(mut self, plan: DeletionPlan) -> Result<Foreseen, PlanError> {
        for deletion in plan.deletions {
            let action = if deletion.action == PlannedAction::Remove { Action::Delete } else { Action::Mark };
            self.step(action, deletion.stored, deletion.because, Holds::default());
        }
        for (referrer, targets) in plan.unset.into_values() {
            for target in targets {
                let field = field_of(&referrer, &target, OnDelete::Unset)?;
                self.step(Action::Unset, referrer.clone(), Some((target, field)), Holds::default());
            }
        }
        for resource in plan.protected {
            self.step(Action::Block, resource, None, Holds::default());
        }
        for block in plan.blocks {
            self.step(Action::Block, block.referrer, Some((block.target, block.field)), Holds::default());
        }
        Ok(Foreseen { steps: self.steps, is_blocked: true, cut: String::new() })
    }

    fn step(&mut self, action: Action, resource: EncodedResource, because: Cause, holds: Holds) {
        self.steps.push(OutlookStep { action, resource, because, holds });
    }

    fn suppose(&mut self, key: ResourceKey, now: Option<EncodedResource>) {
        self.changes += 1;
        self.supposed.set(key, now);
    }

    fn add(&mut self, work: Work) {
        self.works += 1;
        self.open.push(work);
    }

    /// Returns the bound that is reached, if one is.
    fn bound(&self) -> Option<String> {
        let (resources, bytes) = self.supposed.size();
        if resources > MAX_REACHED_RESOURCES || self.works > MAX_WORK {
            return Some(format!("more than {MAX_REACHED_RESOURCES} resources are affected"));
        }
        if bytes > MAX_REACHED_BYTES {
            return Some(format!("more than {} MiB of resources are affected", MAX_REACHED_BYTES >> 20));
        }
        if self.read > self.most_read {
            return Some(format!("the work afterwards reads more than {} resources", self.most_read));
        }
        (self.plans > MAX_PLANS).then(|| format!("the work afterwards takes more than {MAX_PLANS} plans"))
    }

    /// Does all work, until nothing changes any more, and notes what hangs. Returns the reached bound; empty for none.
    async fn settle(&mut self) -> Result<String, PlanError> {
        loop {
            let (round, changes) = (std::mem::take(&mut self.open), self.changes);
            let mut held = Vec::new();
            for work in round {
                if let Some(bound) = self.bound() {
                    return Ok(bound);
                }
                if let Progress::Held(holds) = self.attempt(&work).await? {
                    held.push((work, holds));
                }
                tokio::task::yield_now().await;
            }
            if self.open.is_empty() && self.changes == changes {
                self.note_held(held).await?;
                return Ok(String::new());
            }
            let new = std::mem::take(&mut self.open);
            self.open = held.into_iter().map(|(work, _)| work).chain(new).collect();
        }
    }

    /// Adds a step for each resource whose work is held.
    async fn note_held(&mut self, held: Vec<(Work, Holds)>) -> Result<(), PlanError> {
        let mut noted: HashMap<ResourceKey, usize> = HashMap::new();
        for (work, holds) in held {
            let key = work.key().clone();
            if let Some(step) = noted.get(&key).and_then(|step| self.steps.get_mut(*step)) {
                step.holds.add(holds);
                continue;
            }
            let because = match work {
                Work::Delete { because, .. } => because,
                Work::Release { owner, .. } => Some((owner.key.clone(), String::new())),
                Work::Finish { .. } | Work::Empty { .. } => None,
            };
            let (resource, because) = match self.marked.get(&key) {
                Some((resource, cause)) => (Some(resource.clone()), cause.clone().or(because)),
                None => (key.stored(&self.deletions.core).await?, because),
            };
            if let Some(resource) = resource {
                noted.insert(key, self.steps.len());
                self.step(Action::Hang, resource, because, holds);
            }
        }
        Ok(())
    }

    async fn attempt(&mut self, work: &Work) -> Result<Progress, PlanError> {
        let Some(now) = self.supposed.read(&self.deletions.core, work.key()).await? else { return Ok(Progress::Done) };
        let deletion = self.deletion.clone();
        match work {
            Work::Delete { because, within, .. } => {
                let purpose = match within {
                    Some(tenancy) => Purpose::Empty(tenancy, &deletion),
                    None => Purpose::Follow(&deletion),
                };
                Box::pin(self.delete(now, purpose, because.clone())).await
            }
            Work::Release { owner, .. } => Box::pin(self.release(now, owner)).await,
            Work::Finish { key } => Box::pin(self.work_off(key, now)).await,
            Work::Empty { key } => Box::pin(self.empty(key, now)).await,
        }
    }

    /// Plans over the supposed state.
    async fn plan(&mut self, root: EncodedResource, purpose: Purpose<'_>) -> Result<DeletionPlan, PlanError> {
        self.plans += 1;
        let Self { deletions, registry, supposed, place, read, .. } = self;
        match deletions.plan_over(supposed, SMALL_DELETION, registry, root.clone(), purpose).await {
            Err(PlanError::TooFar) => *read += SMALL_DELETION.resources,
            planned => {
                *read += planned.as_ref().map_or(1, DeletionPlan::reached);
                return planned;
            }
        }
        if place.is_none() {
            *place = Some(deletions.place_to_show().await?);
        }
        let planned = deletions.plan_over(supposed, LARGEST_DELETION, registry, root, purpose).await;
        *read += planned.as_ref().map_or(LARGEST_DELETION.resources, DeletionPlan::reached);
        planned
    }
}
