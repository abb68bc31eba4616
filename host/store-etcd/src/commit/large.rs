//! Batches that no transaction can hold: they go in parts, each a transaction of its own.
//!
//! # Contract
//! The whole batch is drafted and judged on a copy that has everything from before the call; a refusal changes nothing.
//! Then the parts follow each other, in the order of the mutations, and each compares the resources that it changes and
//! all expectations. So every prefix of the batch is a change that its caller could have made. A conflict before the
//! first part repeats the draft; a later one ends the batch with [`StoreError::ReferrersChanged`], with the earlier parts
//! stored, and a caller that tries again makes the rest.
//!
//! A deletion first clears the references, then deletes backwards: what refers before what it refers to. A resource and
//! its tombstone stay in one part.
//!
//! # Limits
//! Others see the parts one after another. Expectations must fit into each part.

use std::collections::HashMap;

use mortise_store::{
    Batch, ExpectedId, Mutation, StoreError,
    follower::{Draft, DraftLimits, DraftedBatch, DraftedChange, DraftedEffect, DraftedGrowth, DraftedRead},
};
use tokio::time::Instant;

use super::{
    Committer, Pending,
    lane::{End, Lane},
    limits::{MAX_OPERATIONS, MAX_TRANSACTION},
    proposal::{OWN_OPERATIONS, Proposal, results},
};
use crate::{barrier::reached, placement::Fence};

/// Changes of a part at most. Even, so that a deletion and its tombstone are not parted.
const PART_CHANGES: usize = 60;
/// Size of the changed resources of a part, bytes.
const PART_BYTES: usize = 768 << 10;
/// Most drafts of a batch whose first part is refused.
const MAX_ATTEMPTS: usize = 100;
/// Longest wait for a part, until it is in the copy.
const PART_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// End of an attempt.
enum Attempt {
    Done(DraftedBatch, HashMap<u32, u64>),
    Again,
    Failed(StoreError),
}

impl Committer {
    /// Stores a large batch, and answers it.
    pub(super) async fn large(&mut self, lane: &mut Lane, mut pending: Pending) {
        if !pending.begin() {
            return;
        }
        let order = order(&pending.batch);
        pending.batch.mutations = order.iter().filter_map(|&at| pending.batch.mutations.get(at).cloned()).collect();
        for _ in 0..MAX_ATTEMPTS {
            if let Some(why) = self.usurped {
                return pending.fail(StoreError::Poisoned(why.to_owned()));
            }
            match self.attempt(lane, &pending.batch, pending.fence.as_ref()).await {
                Attempt::Done(batch, sequences) => {
                    let found = results(batch, |place| sequences.get(&place).copied().unwrap_or_default());
                    let mut answers = vec![None; order.len()];
                    for (result, at) in found.into_iter().zip(order) {
                        if let Some(answer) = answers.get_mut(at) {
                            *answer = result;
                        }
                    }
                    return pending.answer(answers);
                }
                Attempt::Failed(StoreError::NotHeld(_)) => return pending.fail_as_lost(),
                Attempt::Failed(error) => return pending.fail(in_order(error, &order)),
                Attempt::Again => {}
            }
        }
        pending.fail(StoreError::ReferrersChanged);
    }

    async fn attempt(&mut self, lane: &mut Lane, batch: &Batch, fence: Option<&Fence>) -> Attempt {
        if let Err(error) = self.barrier.pass().await {
            return Attempt::Failed(error);
        }
        let known = *self.applied.borrow();
        let limits = DraftLimits { base: self.keys.versions.last(known), operations: usize::MAX, bytes: usize::MAX };
        let mut draft = match self.store.draft(vec![batch.clone()], limits, DraftedGrowth::default()).await {
            Ok(draft) => draft,
            Err(error) => return Attempt::Failed(error),
        };
        let drafted = match draft.results.pop() {
            Some(Ok(drafted)) => drafted,
            Some(Err(error)) => return Attempt::Failed(error),
            None => return Attempt::Failed(StoreError::Closed),
        };
        let mut sequences = HashMap::new();
        match self.parts(lane, draft, (known, fence), &mut sequences).await {
            Ok(true) => Attempt::Done(drafted, sequences),
            Ok(false) => Attempt::Again,
            Err(error) => Attempt::Failed(error),
        }
    }

    /// Proposes the parts. Returns whether all are stored; none is if not.
    async fn parts(
        &mut self,
        lane: &mut Lane,
        Draft { changes, reads, referrers, .. }: Draft,
        (known, fence): (i64, Option<&Fence>),
        sequences: &mut HashMap<u32, u64>,
    ) -> Result<bool, StoreError> {
        let changed: HashMap<_, _> = changes.iter().map(|change| (self.keys.resource(&change.id), ())).collect();
        let (own, expected): (Vec<_>, Vec<_>) =
            reads.into_iter().partition(|read| changed.contains_key(&self.keys.resource(&read.id)));
        let own: HashMap<_, _> = own.into_iter().map(|read| (self.keys.resource(&read.id), read)).collect();
        for (number, part) in cut(changes).into_iter().enumerate() {
            let (part, places) = renumbered(part);
            let mut reads: Vec<DraftedRead> = expected.clone();
            reads.extend(part.iter().filter_map(|change| own.get(&self.keys.resource(&change.id)).cloned()));
            let deleted = |target: &&ExpectedId| {
                let is_target = |change: &DraftedChange| {
                    change.id.name == target.name && self.keys.resource(&change.id) == self.keys.resource(target)
                };
                part.iter().any(is_target)
            };
            let targets: Vec<_> = referrers.iter().filter(deleted).cloned().collect();
            match self.part(lane, &part, (&reads, &targets), (known, fence)).await? {
                Some(revision) => {
                    let versions = self.keys.versions;
                    sequences
                        .extend(places.into_iter().map(|(whole, here)| (whole, versions.sequence(revision, here))));
                }
                None if number == 0 => return Ok(false),
                None => return Err(StoreError::ReferrersChanged),
            }
        }
        Ok(true)
    }

    /// Proposes a part. Returns its revision, once the copy has it; `None` if it was refused.
    async fn part(
        &mut self,
        lane: &mut Lane,
        part: &[DraftedChange],
        (reads, referrers): (&[DraftedRead], &[ExpectedId]),
        (known, fence): (i64, Option<&Fence>),
    ) -> Result<Option<i64>, StoreError> {
        let number = ulid::Ulid::generate().to_string();
        let fences = fence.cloned().map_or_else(Vec::new, |fence| vec![fence]);
        let (keys, server, rewritten) = (&self.keys, self.server.as_str(), &self.rewritten);
        let proposal = Proposal { keys, server, own: lane.key(), known, rewritten, fences: &fences };
        let transaction = proposal.transaction(part, reads, referrers, &number);
        let operations = transaction.operations();
        if operations > MAX_TRANSACTION {
            let limit = MAX_OPERATIONS - OWN_OPERATIONS;
            return Err(StoreError::TooManyChanges { operations, limit });
        }
        let revision = match lane.propose(transaction, &number, reads).await {
            End::Stored(revision) => revision,
            End::Refused(refusal) => {
                self.note(&refusal);
                return match refusal.is_held(fence) {
                    true => Ok(None),
                    false => Err(StoreError::NotHeld(String::new())),
                };
            }
            End::Failed(error) => return Err(error),
            End::NotStored => return Ok(None),
        };
        reached(&self.applied, revision, Instant::now() + PART_TIMEOUT).await?;
        Ok(Some(revision))
    }
}

/// Returns the order in which the mutations are stored, by their positions.
fn order(batch: &Batch) -> Vec<usize> {
    let all = 0..batch.mutations.len();
    if !batch.belongs_to_deletion {
        return all.collect();
    }
    let is_update =
        |at: &usize| matches!(batch.mutations.get(*at), Some(Mutation::Put(put)) if !put.version.is_empty());
    let (mut order, removals): (Vec<_>, Vec<_>) = all.partition(is_update);
    order.extend(removals.into_iter().rev());
    order
}

/// Returns the error with the position that the caller knows.
fn in_order(error: StoreError, order: &[usize]) -> StoreError {
    match error {
        StoreError::CasFailure { mutation } => {
            StoreError::CasFailure { mutation: order.get(mutation).copied().unwrap_or(mutation) }
        }
        error => error,
    }
}

/// Cuts changes into parts, by number and size.
fn cut(changes: Vec<DraftedChange>) -> Vec<Vec<DraftedChange>> {
    let mut parts: Vec<Vec<DraftedChange>> = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let size = match &change.effect {
            DraftedEffect::Put { resource, .. } | DraftedEffect::Rewrite { resource, .. } => resource.bytes().len(),
            DraftedEffect::Delete { .. } => 0,
        };
        match parts.last_mut() {
            Some(part) if part.len() < PART_CHANGES && bytes + size <= PART_BYTES => {
                bytes += size;
                part.push(change);
            }
            _ => {
                bytes = size;
                parts.push(vec![change]);
            }
        }
    }
    parts
}

/// Gives the events of a part the places 0, 1, …; returns these by the places within the batch.
fn renumbered(mut part: Vec<DraftedChange>) -> (Vec<DraftedChange>, Vec<(u32, u32)>) {
    let mut places = Vec::new();
    let mut next = |whole: &mut u32| {
        let here = u32::try_from(places.len()).unwrap_or(u32::MAX);
        places.push((*whole, here));
        *whole = here;
    };
    for change in &mut part {
        match &mut change.effect {
            DraftedEffect::Put { place, deletion, .. } => {
                deletion.iter_mut().for_each(&mut next);
                next(place);
            }
            DraftedEffect::Delete { place } => next(place),
            DraftedEffect::Rewrite { .. } => {}
        }
    }
    (part, places)
}
