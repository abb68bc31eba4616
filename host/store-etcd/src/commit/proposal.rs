//! Drafts as transactions, and transactions as answers.

use std::collections::{BTreeSet, HashMap};

use mortise_resource::EncodedResource;
use mortise_store::{
    ExpectedId, TypeKey,
    follower::{DraftedBatch, DraftedChange, DraftedEffect, DraftedRead, DraftedResult, with_version},
};
use prost::Message;

use super::pending::Answers;
use crate::{
    client::Transaction,
    keys::Keys,
    placement::Fence,
    planted,
    record::{HeadRecord, ResourceRecord, unversioned},
};

/// Operations of a transaction besides those of its batches: the head and the lane's own key.
pub(super) const OWN_OPERATIONS: usize = 2;

/// What a transaction needs to know of its server.
pub(super) struct Proposal<'p> {
    pub(super) keys: &'p Keys,
    pub(super) server: &'p str,
    /// Key of the lane, and its revision.
    pub(super) own: (&'p [u8], i64),
    /// Revision of the copy before the draft.
    pub(super) known: i64,
    /// Resources whose newest revision is that of a rewrite: their sequence, and this revision.
    pub(super) rewritten: &'p HashMap<Vec<u8>, (u64, i64)>,
    /// Conditions of the batches.
    pub(super) fences: &'p [Fence],
}

impl Proposal<'_> {
    /// Makes the transaction of a draft. `number` is written into the lane's key.
    pub(super) fn transaction(
        &self,
        changes: &[DraftedChange],
        reads: &[DraftedRead],
        referrers: &[ExpectedId],
        number: &str,
    ) -> Transaction {
        let mut transaction = Transaction::default();
        let (own, own_revision) = self.own;
        transaction.expect_revision(own.to_vec(), own_revision);
        for Fence { key, made_at } in self.fences {
            if planted::happens(planted::Fault::NoFencing) {
                continue;
            }
            transaction.expect_made_at(key.clone(), *made_at);
            transaction.tell_if_refused(key.clone(), true);
        }
        for DraftedRead { id, sequence } in reads {
            let key = self.keys.resource(id);
            let expected = match (sequence, self.rewritten.get(&key)) {
                (None, _) => 0,
                (Some(sequence), Some((known, revision))) if known == sequence => *revision,
                (Some(sequence), _) => self.keys.versions.revision(*sequence),
            };
            transaction.expect_revision(key.clone(), expected);
            transaction.tell_if_refused(key, true);
        }
        for id in referrers {
            transaction.expect_not_after(self.keys.touch(id), self.known);
        }
        let mut head = HeadRecord { server: self.server.to_owned(), ..HeadRecord::default() };
        let mut touched = BTreeSet::new();
        for DraftedChange { id, before, effect } in changes {
            let key = self.keys.resource(id);
            let (record, resource) = match effect {
                DraftedEffect::Delete { place } => {
                    head.deletion_places.push(*place);
                    transaction.delete(key);
                    continue;
                }
                DraftedEffect::Put { place, deletion, resource } => {
                    let deletion_place_after = deletion.map_or(0, |place| place + 1);
                    (ResourceRecord { place: *place, deletion_place_after, ..ResourceRecord::default() }, resource)
                }
                DraftedEffect::Rewrite { sequence, resource } => {
                    (ResourceRecord { kept_sequence: *sequence, ..ResourceRecord::default() }, resource)
                }
            };
            let earlier = before.as_ref().map(targets).unwrap_or_default();
            touched.extend(targets(resource).difference(&earlier).map(|target| self.keys.touch(&target.id())));
            // The draft has encoded it, so it can be decoded.
            let resource = resource.decode().ok().map(unversioned);
            transaction.put(key, ResourceRecord { resource, ..record }.encode_to_vec());
        }
        for key in touched {
            transaction.put(key, Vec::new());
        }
        transaction.put(self.keys.head(), head.encode_to_vec());
        transaction.put(own.to_vec(), number.as_bytes().to_vec());
        transaction.tell_if_refused(self.keys.head(), true);
        transaction.tell_if_refused(own.to_vec(), true);
        transaction
    }
}

/// Target of references, with the behaviour at its deletion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    kind: String,
    partition: String,
    namespace: String,
    name: String,
    on_delete: i32,
}

impl Target {
    fn id(&self) -> ExpectedId {
        let Self { group, kind, partition, namespace, name, .. } = self.clone();
        ExpectedId { type_key: TypeKey { group, kind }, partition, namespace, name, uid: String::new() }
    }
}

/// Returns the targets of a resource's references.
fn targets(resource: &EncodedResource) -> BTreeSet<Target> {
    let references = resource.references().unwrap_or_default();
    let target = |record: mortise_resource::data::ReferenceRecord| Target {
        group: record.group,
        kind: record.kind,
        partition: record.partition,
        namespace: record.namespace,
        name: record.name,
        on_delete: record.on_delete,
    };
    references.into_iter().map(target).collect()
}

/// Returns the results of a stored batch; `sequence` tells that of a place.
pub(super) fn results(batch: DraftedBatch, sequence: impl Fn(u32) -> u64) -> Answers {
    let result = |result| match result {
        DraftedResult::Nothing => None,
        DraftedResult::Rewritten(resource) => Some(resource),
        DraftedResult::Put { place, resource } => {
            EncodedResource::encode(&with_version(resource.decode().ok()?, sequence(place))).ok()
        }
    };
    batch.results.into_iter().map(result).collect()
}
