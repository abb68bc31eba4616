//! All effects of a deletion, as its caller may see them. Resources that the caller may not read are counted without
//! their names.
//!
//! # Limits
//! Those of the outlook, and [`MAX_ANSWER_BYTES`] of steps: a longer answer is cut, and says so.

use std::collections::HashMap;

use mortise_resource::{
    EncodedResource, Error,
    data::{DeleteStep, PlanDeleteResponse},
    pb,
};
use prost::Message as _;

use super::{
    deletions::Deletions,
    outlook::{Foreseen, Holds, Outlook, OutlookStep},
};
use crate::{
    call::Caller,
    core::Core,
    references::{ResourceKey, follow_fault},
    registry::Registry,
    rules::is_readable,
};

/// Bytes of the steps of an answer: clients take messages of 4 MiB.
const MAX_ANSWER_BYTES: usize = 3 << 20;
/// Resources that one step names as those for which its resource waits.
const MAX_SHOWN_HOLDERS: usize = 100;

/// A plan as its caller may see it.
pub(crate) struct ShownPlan<'s> {
    core: &'s Core,
    registry: &'s Registry,
    caller: &'s Caller,
    answer: PlanDeleteResponse,
    bytes: usize,
    /// Ids of causes and of what holds; `None` for what the caller may not read.
    ids: HashMap<ResourceKey, Option<pb::Id>>,
}

impl<'s> ShownPlan<'s> {
    /// Returns all steps of the deletion of a resource.
    ///
    /// # Errors
    /// Those of a plan. Faults of the store.
    pub(crate) async fn of(
        deletions: &'s Deletions,
        registry: &'s Registry,
        caller: &'s Caller,
        root: EncodedResource,
    ) -> Result<PlanDeleteResponse, Error> {
        let Foreseen { steps, is_blocked, cut } = Box::pin(Outlook::new(deletions, registry).of(root)).await?;
        let answer = PlanDeleteResponse { is_blocked, is_cut: !cut.is_empty(), cut, ..PlanDeleteResponse::default() };
        let mut shown = Self { core: &deletions.core, registry, caller, answer, bytes: 0, ids: HashMap::new() };
        for step in steps {
            if !shown.show(step).await? {
                shown.answer.is_cut = true;
                shown.answer.cut = format!("the steps take more than {} MiB", MAX_ANSWER_BYTES >> 20);
                break;
            }
        }
        Ok(shown.answer)
    }

    /// Adds a step. Returns false if the plan is full.
    async fn show(&mut self, step: OutlookStep) -> Result<bool, Error> {
        let OutlookStep { action, resource, because, holds } = step;
        if !is_readable(self.registry, self.caller, &resource).await {
            self.answer.hidden = self.answer.hidden.saturating_add(1);
            return Ok(true);
        }
        let (because, field) = match because {
            Some((key, field)) => (self.id(key).await?, field),
            None => (None, String::new()),
        };
        let Holds { finalizers, resources, mut reason } = holds;
        if let Some(more) = resources.len().checked_sub(MAX_SHOWN_HOLDERS).filter(|more| *more > 0) {
            let before = if reason.is_empty() { String::new() } else { format!("{reason}; ") };
            reason = format!("{before}{more} more resources hold it");
        }
        let mut held_by = Vec::new();
        for key in resources.into_iter().take(MAX_SHOWN_HOLDERS) {
            held_by.extend(self.id(key).await?);
        }
        let id = resource.decode_id()?;
        let step = DeleteStep { action: action.into(), id, because, field, finalizers, held_by, reason };
        self.bytes += step.encoded_len();
        if self.bytes > MAX_ANSWER_BYTES {
            return Ok(false);
        }
        self.answer.steps.push(step);
        Ok(true)
    }

    /// Returns the id of a resource that the caller may read.
    async fn id(&mut self, key: ResourceKey) -> Result<Option<pb::Id>, Error> {
        if let Some(known) = self.ids.get(&key) {
            return Ok(known.clone());
        }
        let id = match key.stored(self.core).await.map_err(|e| follow_fault(&e))? {
            Some(found) if is_readable(self.registry, self.caller, &found).await => found.decode_id()?,
            _ => None,
        };
        self.ids.insert(key, id.clone());
        Ok(id)
    }
}
