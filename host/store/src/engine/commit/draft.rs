//! [Drafts](crate::follower): batches that are checked on the state between two commits, and stored by nothing here.

use std::collections::{HashMap, HashSet};

use crate::{
    Batch, ExpectedId, Mutation, Options, StoreError, TypeKey,
    engine::{
        commit::{commit_group::CommitGroup, job::Results},
        tree::{
            change::Change,
            keys,
            table::Table,
            usage::{Growth, UsageSums},
        },
    },
    follower::{
        Draft, DraftLimits, DraftedBatch, DraftedChange, DraftedEffect, DraftedGrowth, DraftedRead, DraftedResult,
    },
};

/// Checks batches until one does not fit beside the earlier ones. `usage` is the usage of tenancies, and `unseen` what the
/// shared store has besides.
pub(super) fn draft(
    table: &Table,
    options: &Options,
    usage: &UsageSums,
    batches: Vec<Batch>,
    (limits, unseen): (DraftLimits, DraftedGrowth),
) -> Result<Draft, StoreError> {
    let base = limits.base;
    let mut group = CommitGroup::new(table, base, options, None);
    group.growth = Growth::from(&unseen);
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
    let growth = group.growth.drafted(&unseen);
    Ok(Draft { results, changes: merged(&mut group, base), reads, referrers, growth })
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
