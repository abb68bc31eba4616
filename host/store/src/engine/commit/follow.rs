//! The commit thread's part of [following another store](crate::follower): drafts on the state between two commits, and
//! groups of changes that were decided elsewhere.

use std::collections::{HashMap, HashSet};

use mortise_resource::pb;

use crate::{
    Batch, ExpectedId, Mutation, Options, StoreError, TypeKey,
    engine::{
        commit::{
            commit_group::{CommitGroup, complete},
            job::Results,
        },
        tree::{
            change::Change,
            keys,
            record::StoredResource,
            table::Table,
            usage::{Growth, UsageSums},
        },
    },
    follower::{
        Draft, DraftLimits, DraftedBatch, DraftedChange, DraftedEffect, DraftedRead, DraftedResult, FilledResource,
        FollowedChange, FollowedCommit, with_version,
    },
};

/// Checks batches until one does not fit beside the earlier ones. `usage` is the usage of tenancies.
pub(super) fn draft(
    table: &Table,
    options: &Options,
    usage: &UsageSums,
    batches: Vec<Batch>,
    limits: DraftLimits,
) -> Result<Draft, StoreError> {
    let base = limits.base;
    let mut group = CommitGroup::new(table, base, options, None);
    let (mut results, mut referrers) = (Vec::new(), Vec::new());
    let mut changed = HashSet::new();
    for batch in batches {
        let keys = changed_keys(&batch);
        let operations = batch.mutations.len();
        let reads = group.read().len() + operations + batch.expect.len() + referrers.len() + batch.referrers.len();
        let is_full = group.changes.len() + operations > limits.operations
            || reads > limits.operations
            || group.bytes() >= limits.bytes;
        if !results.is_empty() && (is_full || keys.iter().any(|key| changed.contains(key))) {
            break;
        }
        let kinds: Vec<_> = batch.mutations.iter().map(|m| matches!(m, Mutation::Rewrite(_))).collect();
        let expected: Vec<_> = batch.referrers.iter().map(|expected| expected.id.clone()).collect();
        let (read, changes) = (group.read().len(), group.changes.len());
        results.push(match group.add(batch, usage) {
            Ok(found) => {
                changed.extend(keys);
                referrers.extend(expected);
                Ok(drafted(found, &kinds, group.changes.len() > changes, base))
            }
            Err(error) => {
                group.forget_read(read);
                Err(error)
            }
        });
    }
    let reads = group.read().iter().map(|key| DraftedRead {
        id: id(key),
        sequence: group.slots.get(key).and_then(|slot| slot.before.as_ref()).map(|stored| stored.seq),
    });
    let reads = reads.collect();
    Ok(Draft { results, changes: merged(&mut group, base), reads, referrers })
}

/// Returns the keys of the resources that a batch may change.
fn changed_keys(batch: &Batch) -> Vec<Vec<u8>> {
    let key = |mutation: &Mutation| match mutation {
        Mutation::Put(resource) | Mutation::Rewrite(resource) => keys::resource(resource.id.as_ref()?).ok(),
        Mutation::Delete { id, .. } => keys::resource(id).ok(),
    };
    batch.mutations.iter().filter_map(key).collect()
}

fn drafted(found: Results, rewrites: &[bool], has_changes: bool, base: u64) -> DraftedBatch {
    let result = |(result, is_rewrite): (Option<_>, &bool)| match result {
        None => DraftedResult::Nothing,
        Some(resource) if *is_rewrite => DraftedResult::Rewritten(resource),
        Some(resource) => DraftedResult::Put { place: place(resource.version().parse().unwrap_or(0), base), resource },
    };
    DraftedBatch { results: found.into_iter().zip(rewrites).map(result).collect(), has_changes }
}

/// Returns the place of an event: the number of events after `base` and before it.
fn place(seq: u64, base: u64) -> u32 {
    u32::try_from(seq.saturating_sub(base + 1)).unwrap_or(u32::MAX)
}

/// Merges the changes of each resource, since one transaction can change a key once.
fn merged(group: &mut CommitGroup<'_>, base: u64) -> Vec<DraftedChange> {
    let mut found: Vec<DraftedChange> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for Change { key, seq, is_event, prior, now, .. } in group.changes.drain(..) {
        let earlier = places.get(&key).copied().and_then(|index| found.get_mut(index));
        let deletion = match &earlier {
            Some(DraftedChange { effect: DraftedEffect::Delete { place }, .. }) => Some(*place),
            _ => None,
        };
        let effect = match now {
            None => DraftedEffect::Delete { place: place(seq, base) },
            Some(resource) if is_event => DraftedEffect::Put { place: place(seq, base), deletion, resource },
            Some(resource) => DraftedEffect::Rewrite { sequence: seq, resource },
        };
        match earlier {
            Some(earlier) => earlier.effect = effect,
            None => {
                found.push(DraftedChange { id: id(&key), before: prior, effect });
                places.insert(key, found.len() - 1);
            }
        }
    }
    found
}

/// Returns the resource of a key of the table, without a uid.
fn id(key: &[u8]) -> ExpectedId {
    let [group, kind, partition, namespace, name] = keys::split(key).unwrap_or_default().map(str::to_owned);
    ExpectedId { type_key: TypeKey { group, kind }, partition, namespace, name, uid: String::new() }
}

impl CommitGroup<'_> {
    /// Adds a commit of the shared store. Leaves out what was applied already.
    pub(super) fn follow(&mut self, commit: FollowedCommit) -> Result<(), StoreError> {
        for change in commit.changes {
            match change {
                FollowedChange::Put { sequence, deletion, resource } => {
                    if let Some(sequence) = deletion {
                        let id = resource.id.as_ref().map(ExpectedId::from);
                        self.follow_deletion(sequence, id.as_ref())?;
                    }
                    self.follow_put(sequence, *resource, true)?;
                }
                FollowedChange::Rewrite { sequence, resource } => self.follow_put(sequence, *resource, false)?,
                FollowedChange::Delete { sequence, id } => self.follow_deletion(sequence, Some(&id))?,
            }
        }
        Ok(())
    }

    /// Adds a resource of the content that a new copy is filled with. No event.
    pub(super) fn fill(&mut self, FilledResource { sequence, resource }: FilledResource) -> Result<(), StoreError> {
        let (key, type_key) = complete(&resource)?;
        self.set((key, type_key), sequence, Some(with_version(resource, sequence)), false)
    }

    fn follow_put(&mut self, sequence: u64, resource: pb::Resource, is_event: bool) -> Result<(), StoreError> {
        let (key, type_key) = complete(&resource)?;
        let stored = self.slot(key.clone())?.now.as_ref();
        let is_due = match is_event {
            true => stored.is_none_or(|stored| stored.seq < sequence),
            false => stored.is_some_and(|stored| stored.seq == sequence),
        };
        match is_due {
            true => self.set((key, type_key), sequence, Some(with_version(resource, sequence)), is_event),
            false => Ok(()),
        }
    }

    fn follow_deletion(&mut self, sequence: u64, id: Option<&ExpectedId>) -> Result<(), StoreError> {
        let Some(id) = id else { return Ok(()) };
        let key = keys::expected(id)?;
        match self.slot(key.clone())?.now.as_ref().is_some_and(|stored| stored.seq < sequence) {
            true => self.set((key, id.type_key.clone()), sequence, None, true),
            false => Ok(()),
        }
    }

    fn set(
        &mut self,
        (key, type_key): (Vec<u8>, TypeKey),
        seq: u64,
        resource: Option<pb::Resource>,
        is_event: bool,
    ) -> Result<(), StoreError> {
        let now = resource.map(|resource| mortise_resource::EncodedResource::encode(&resource)).transpose()?;
        let slot = self.slot(key.clone())?;
        slot.is_written = now.is_some();
        let stored = now.clone().map(|now| StoredResource::new(now, seq));
        let prior = std::mem::replace(&mut slot.now, stored).map(|stored| stored.resource);
        self.seq = self.seq.max(seq);
        // The events of a commit become ready together: all sequences of a commit share all but their last byte.
        self.changes.push(Change { key, type_key, seq, commit: seq >> 8, is_event, prior, now });
        Ok(())
    }

    /// Notes the growth of tenancies by the group, in which nothing was checked against quotas.
    pub(super) fn note_growth(&mut self) {
        let mut growth = Growth::default();
        for (key, slot) in self.slots.iter().filter(|(_, slot)| slot.is_changed()) {
            let len = |stored: &Option<StoredResource>| stored.as_ref().map(|stored| stored.len);
            growth.note(key, len(&slot.before), len(&slot.now));
        }
        self.growth = growth;
    }
}
