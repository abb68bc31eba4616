//! The reasons for which a marked resource is not deleted yet, for previews of a deletion.

use mortise_resource::meta;

use super::super::plan::{DeletionPlan, PlanError, PlannedAction};
use crate::references::{ResourceKey, finalizer::REFERENCES_FINALIZER};

/// The reasons of one resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holds {
    /// Its own finalizers, without the host's.
    pub(crate) finalizers: Vec<String>,
    /// The resources for which it waits.
    pub(crate) resources: Vec<ResourceKey>,
    /// Another reason, as a sentence; empty without one.
    pub(crate) reason: String,
}

impl Holds {
    pub(super) fn because(reason: String) -> Self {
        Self { reason, ..Self::default() }
    }

    /// Returns the reasons of a plan: finalizers, blocking resources, and planned resources that are held themselves.
    pub(super) fn of(plan: &DeletionPlan) -> Result<Self, PlanError> {
        let mut holds = Self::default();
        for (index, planned) in plan.deletions.iter().enumerate() {
            let whole = planned.stored.decode()?;
            let finalizers = meta::finalizers(&whole.metadata);
            let mut finalizers = finalizers.into_iter().filter(|name| *name != REFERENCES_FINALIZER).peekable();
            if index == 0 {
                holds.finalizers.extend(finalizers.map(str::to_owned));
            } else if finalizers.peek().is_some() {
                holds.resources.push(planned.stored.id().into());
            }
        }
        let root = plan.deletions.first().map(|root| ResourceKey::from(root.stored.id()));
        holds.resources.extend(plan.holders.iter().filter(|holder| Some(*holder) != root.as_ref()).cloned());
        holds.resources.extend(plan.blocks.iter().map(|block| ResourceKey::from(block.referrer.id())));
        for protected in &plan.protected {
            let key = ResourceKey::from(protected.id());
            if Some(&key) == root.as_ref() {
                holds.reason = "meta.lifecycle.block_deletion is set".to_owned();
            } else {
                holds.resources.push(key);
            }
        }
        if holds.is_empty() {
            let marked = plan.deletions.iter().skip(1).filter(|planned| planned.action == PlannedAction::Mark);
            holds.resources.extend(marked.map(|planned| ResourceKey::from(planned.stored.id())));
        }
        Ok(holds)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.finalizers.is_empty() && self.resources.is_empty() && self.reason.is_empty()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.finalizers.extend(other.finalizers);
        self.resources.extend(other.resources);
        self.finalizers.sort();
        self.finalizers.dedup();
        self.resources.sort();
        self.resources.dedup();
        if self.reason.is_empty() {
            self.reason = other.reason;
        }
    }
}
