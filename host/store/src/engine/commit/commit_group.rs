//! A commit group: checks batches one after another, each against the store and the changes of the earlier batches in
//! the group.
//!
//! This module writes nothing. A failed batch leaves no trace; the others become a set of slots (state of each resource
//! before and after) and a list of changes (every step in between, for the event log and watchers).

use std::collections::{BTreeMap, HashMap};

use mortise_resource::{EncodedResource, data::OnDelete, pb};

use crate::engine::commit::room::Shortage;
use crate::engine::options::Options;
use crate::engine::planted::{self, Fault};
use crate::engine::tree::change::Change;
use crate::engine::tree::{
    keys,
    record::StoredResource,
    table::Table,
    usage::{Growth, UsageSums},
};
use crate::{
    Batch, Expectation, ExpectedId, ExpectedReferrers, IdPartError, Mutation, Quotas, ReferrerSet, StoreError, TypeKey,
    referrers::{COMMIT_BEHAVIOURS, DEFERRED_BEHAVIOURS},
    resource_size::{limited_size, limited_size_encoded},
    set_hash::Step,
};

/// State of a resource before and after the group.
pub(crate) struct Slot {
    /// Stored state before the group.
    pub(crate) before: Option<StoredResource>,
    /// State after the batches so far.
    pub(crate) now: Option<StoredResource>,
    /// Whether the group wrote `now`.
    pub(crate) is_written: bool,
}

impl Slot {
    /// Whether the group as a whole writes the slot.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_written || self.before.as_ref().map(|s| s.seq) != self.now.as_ref().map(|s| s.seq)
    }
}

/// An unfinished group.
pub(crate) struct CommitGroup<'t> {
    table: &'t Table,
    /// Last sequence in use so far.
    pub(crate) seq: u64,
    /// Slots of every resource that was read, by key.
    pub(crate) slots: HashMap<Vec<u8>, Slot>,
    /// Keys of the slots, in the order in which they were read first.
    read: Vec<Vec<u8>>,
    /// Changes in order.
    pub(crate) changes: Vec<Change>,
    /// Growth of tenancies by the batches so far.
    pub(crate) growth: Growth,
    bytes: usize,
    max_resource_bytes: usize,
    quotas: Quotas,
    /// Shortage of a full disk, during which only deletes and mutations that do not grow are accepted.
    shortage: Option<Shortage>,
}

/// Longest id of an owner or of a referenced resource in a key, bytes: sled moves whole nodes, and puts large ones into
/// files that it does not sync.
const MAX_INDEXED_ID_BYTES: usize = 1_024;

/// Longest label with its value, bytes, for the same reason.
const MAX_LABEL_BYTES: usize = 1_024;

/// Added and removed referrers, by prefix of their keys in the reference index.
type PendingReferences = HashMap<Vec<u8>, Vec<(Step, Vec<u8>)>>;

/// State of the slots before a batch changed them.
type Undo = Vec<(Vec<u8>, Option<StoredResource>, bool)>;

impl<'t> CommitGroup<'t> {
    /// Makes an empty group after the commit `seq`.
    pub(crate) fn new(table: &'t Table, seq: u64, options: &Options, shortage: Option<Shortage>) -> Self {
        let Options { max_resource_bytes, quotas, .. } = *options;
        Self {
            table,
            seq,
            slots: HashMap::new(),
            read: Vec::new(),
            changes: Vec::new(),
            growth: Growth::default(),
            bytes: 0,
            max_resource_bytes,
            quotas,
            shortage,
        }
    }

    /// Returns the bytes of the resources that the group has written or deleted so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the keys that were read so far, in order.
    pub(super) fn read(&self) -> &[Vec<u8>] {
        &self.read
    }

    /// Forgets the keys read after the first `count`, whose slots must be unchanged.
    pub(super) fn forget_read(&mut self, count: usize) {
        for key in self.read.drain(count..) {
            self.slots.remove(&key);
        }
    }

    /// Adds a batch, whole or not at all; `usage` is the usage before the group. Returns the result that the caller
    /// gets once the group is durable.
    pub(crate) fn add(&mut self, batch: Batch, usage: &UsageSums) -> Result<Vec<Option<EncodedResource>>, StoreError> {
        for (position, expectation) in batch.expect.iter().enumerate() {
            if !self.holds(expectation)? {
                return Err(StoreError::ExpectationFailed { expectation: position });
            }
        }
        if !batch.referrers.is_empty() {
            let pending = self.pending_references()?;
            for expected in &batch.referrers {
                if !self.matches_referrers(expected, &pending)? {
                    return Err(StoreError::ReferrersChanged);
                }
            }
        }
        let (seq, changes) = (self.seq, self.changes.len());
        // A batch with a deletion is accepted whole, for example with a tombstone.
        let deletes = batch.belongs_to_deletion
            || batch.mutations.iter().any(|mutation| matches!(mutation, Mutation::Delete { .. }));
        let shortage = self.shortage.clone().filter(|_| !deletes);
        let mut undo = Undo::new();
        let applied = self.apply(batch.mutations, shortage.as_ref(), &mut undo);
        let limits = batch.limited.then_some((usage, batch.unlimited.as_ref()));
        let judged = applied.and_then(|results| Ok((results, self.check_growth(&undo, limits)?)));
        match judged {
            Ok((results, growth)) => {
                self.growth.extend(growth);
                self.changes.iter_mut().skip(changes).for_each(|change| change.commit = seq);
                self.bytes += self.changes.iter().skip(changes).map(|change| change.payload().len()).sum::<usize>();
                Ok(results)
            }
            Err(error) => {
                for (key, now, is_written) in undo.into_iter().rev() {
                    if let Some(slot) = self.slots.get_mut(&key) {
                        (slot.now, slot.is_written) = (now, is_written);
                    }
                }
                self.seq = seq;
                self.changes.truncate(changes);
                Err(error)
            }
        }
    }

    fn apply(
        &mut self,
        mutations: Vec<Mutation>,
        shortage: Option<&Shortage>,
        undo: &mut Undo,
    ) -> Result<Vec<Option<EncodedResource>>, StoreError> {
        let apply = |(position, mutation)| match mutation {
            Mutation::Put(resource) => self.put(position, *resource, shortage, undo),
            Mutation::Delete { id, version } => self.delete(position, &id, &version, undo),
            Mutation::Rewrite(resource) => self.rewrite(*resource, shortage, undo),
        };
        mutations.into_iter().enumerate().map(apply).collect()
    }

    /// Returns the growth of tenancies by the batch in `undo`, after a check against the quotas if `limits` is set: the
    /// usage before the group, and a type that does not count.
    fn check_growth(&self, undo: &Undo, limits: Option<(&UsageSums, Option<&TypeKey>)>) -> Result<Growth, StoreError> {
        // The first entry of a resource in `undo` has its state before the batch.
        let mut before = BTreeMap::new();
        for (key, stored, _) in undo {
            before.entry(key.as_slice()).or_insert(stored.as_ref());
        }
        let now = |key: &[u8]| self.slots.get(key).and_then(|slot| slot.now.as_ref());
        let mut growth = Growth::default();
        for (key, before) in &before {
            growth.note(key, before.map(|stored| stored.len), now(key).map(|stored| stored.len));
        }
        if let Some((usage, unlimited)) = limits {
            let is_unlimited = |stored: &StoredResource| {
                let id = stored.resource.id();
                unlimited.is_some_and(|resource_type| resource_type.group == id.group && resource_type.kind == id.kind)
            };
            before.retain(|key, before| !before.or_else(|| now(key)).is_some_and(is_unlimited));
            let mut counted = Growth::default();
            for (key, before) in &before {
                counted.note(key, before.map(|stored| stored.len), now(key).map(|stored| stored.len));
            }
            let grows = |tenancy: &[u8]| {
                let size =
                    |stored: Option<&StoredResource>| stored.map_or(0, |stored| limited_size_encoded(&stored.resource));
                let is_within = |key: &[u8]| keys::usage(key).is_some_and(|key| keys::usage_tenancy(&key) == tenancy);
                let within = || before.iter().filter(|(key, _)| is_within(key));
                let now: usize = within().map(|(key, _)| size(now(key))).sum();
                now > within().map(|(_, before)| size(*before)).sum()
            };
            usage.check(self.quotas, &self.growth, &counted, grows)?;
        }
        Ok(growth)
    }

    fn holds(&mut self, expectation: &Expectation) -> Result<bool, StoreError> {
        let Ok(key) = keys::expected(&expectation.id) else { return Ok(false) };
        let Some(stored) = self.slot(key)?.now.as_ref() else { return Ok(false) };
        let wanted = &expectation.id.uid;
        Ok((wanted.is_empty() || stored.resource.uid() == wanted)
            && (!expectation.is_unmarked || stored.resource.deletion_mark().is_none())
            && expectation.generation.as_ref().is_none_or(|generation| generation == stored.resource.generation()))
    }

    /// Returns the changes of the batches so far to the reference index, by target and behaviour: added and removed
    /// referrers.
    fn pending_references(&self) -> Result<PendingReferences, StoreError> {
        let mut pending = PendingReferences::new();
        for (key, slot) in self.slots.iter().filter(|(_, slot)| slot.is_changed()) {
            for (step, content) in [(Step::Remove, &slot.before), (Step::Add, &slot.now)] {
                let Some(stored) = content.as_ref().filter(|stored| stored.resource.references_bytes() > 0) else {
                    continue;
                };
                for entry in stored.index_entries(key)? {
                    if let Some((to, referrer)) = keys::split_reference(&entry) {
                        pending.entry(to.to_vec()).or_default().push((step, referrer.to_vec()));
                    }
                }
            }
        }
        Ok(pending)
    }

    /// Whether the references to a resource are those that the caller saw.
    fn matches_referrers(&self, expected: &ExpectedReferrers, pending: &PendingReferences) -> Result<bool, StoreError> {
        let later = match expected.deferred {
            Some(later) => later == self.referrers(&expected.id, &DEFERRED_BEHAVIOURS, pending)?,
            None => true,
        };
        Ok(later && expected.at_commit == self.referrers(&expected.id, &COMMIT_BEHAVIOURS, pending)?)
    }

    /// Returns the references to a resource with some behaviours, after the batches so far.
    fn referrers(
        &self,
        target: &ExpectedId,
        behaviours: &[OnDelete],
        pending: &PendingReferences,
    ) -> Result<ReferrerSet, StoreError> {
        let mut found = ReferrerSet::default();
        for on_delete in behaviours {
            let begin = keys::reference_prefix(target, *on_delete)?;
            for item in self.table.range(begin.clone()..keys::after(&begin)) {
                found.step(Step::Add, *on_delete, item?.0.get(begin.len()..).unwrap_or_default());
            }
            for (step, referrer) in pending.get(&begin).into_iter().flatten() {
                found.step(*step, *on_delete, referrer);
            }
        }
        Ok(found)
    }

    fn put(
        &mut self,
        position: usize,
        mut resource: pb::Resource,
        shortage: Option<&Shortage>,
        undo: &mut Undo,
    ) -> Result<Option<EncodedResource>, StoreError> {
        let (key, type_key) = complete(&resource)?;
        let (seq, limit) = (self.seq + 1, self.max_resource_bytes);
        let slot = self.slot(key.clone())?;
        check_size(&resource, slot.now.as_ref(), limit, shortage)?;
        let version = match &slot.now {
            Some(stored) if stored.resource.uid() != uid(&resource) => return Err(StoreError::WrongUid),
            Some(stored) => stored.resource.version(),
            None => "",
        };
        if resource.version != version && !planted::happens(Fault::CasBeforeLock) {
            return Err(StoreError::CasFailure { mutation: position });
        }
        resource.version = seq.to_string();
        if let Some(meta) = &mut resource.meta {
            meta.resource_version.clone_from(&resource.version);
        }
        let resource = EncodedResource::encode(&resource)?;
        let was = slot.now.replace(StoredResource::new(resource.clone(), seq));
        let prior = was.as_ref().map(|s| s.resource.clone());
        undo.push((key.clone(), was, std::mem::replace(&mut slot.is_written, true)));
        self.seq = seq;
        self.changes.push(Change { key, type_key, seq, commit: 0, is_event: true, prior, now: Some(resource.clone()) });
        Ok(Some(resource))
    }

    fn rewrite(
        &mut self,
        resource: pb::Resource,
        shortage: Option<&Shortage>,
        undo: &mut Undo,
    ) -> Result<Option<EncodedResource>, StoreError> {
        let (key, type_key) = complete(&resource)?;
        let limit = self.max_resource_bytes;
        let slot = self.slot(key.clone())?;
        check_size(&resource, slot.now.as_ref(), limit, shortage)?;
        let same = |stored: &&StoredResource| {
            stored.resource.uid() == uid(&resource) && stored.resource.version() == resource.version
        };
        let Some(stored) = slot.now.as_ref().filter(same) else { return Ok(None) };
        let (seq, prior) = (stored.seq, Some(stored.resource.clone()));
        let resource = EncodedResource::encode(&resource)?;
        let was = slot.now.replace(StoredResource::new(resource.clone(), seq));
        undo.push((key.clone(), was, std::mem::replace(&mut slot.is_written, true)));
        self.changes.push(Change {
            key,
            type_key,
            seq,
            commit: 0,
            is_event: false,
            prior,
            now: Some(resource.clone()),
        });
        Ok(Some(resource))
    }

    fn delete(
        &mut self,
        position: usize,
        id: &pb::Id,
        version: &str,
        undo: &mut Undo,
    ) -> Result<Option<EncodedResource>, StoreError> {
        // An id that does not fit into a key cannot be stored.
        let Ok(key) = keys::resource(id) else { return Ok(None) };
        let seq = self.seq + 1;
        let slot = self.slot(key.clone())?;
        let Some(stored) = slot.now.as_ref().filter(|stored| stored.resource.uid() == id.uid) else {
            return Ok(None);
        };
        if stored.resource.version() != version {
            return Err(StoreError::CasFailure { mutation: position });
        }
        let prior = stored.resource.clone();
        undo.push((key.clone(), slot.now.take(), std::mem::take(&mut slot.is_written)));
        self.seq = seq;
        let type_key = type_key(id);
        self.changes.push(Change { key, type_key, seq, commit: 0, is_event: true, prior: Some(prior), now: None });
        Ok(None)
    }

    /// Returns the slot of a key, read from the table if it is new.
    pub(super) fn slot(&mut self, key: Vec<u8>) -> Result<&mut Slot, StoreError> {
        use std::collections::hash_map::Entry;
        match self.slots.entry(key) {
            Entry::Occupied(slot) => Ok(slot.into_mut()),
            Entry::Vacant(place) => {
                let before = self.table.load(place.key())?;
                self.read.push(place.key().clone());
                Ok(place.insert(Slot { now: before.clone(), before, is_written: false }))
            }
        }
    }
}

/// Rejects resources over the limit, and all resources while the disk is full, unless the resource is no larger than
/// the stored one: a lowered limit, a full disk or a deletion mark must not prevent a deletion.
fn check_size(
    resource: &pb::Resource,
    stored: Option<&StoredResource>,
    limit: usize,
    shortage: Option<&Shortage>,
) -> Result<(), StoreError> {
    let size = limited_size(resource);
    let grows = || stored.is_none_or(|stored| size > limited_size_encoded(&stored.resource));
    match shortage {
        _ if size > limit && grows() => Err(StoreError::TooLarge { size, limit }),
        Some(shortage) if grows() => Err(shortage.error()),
        _ => Ok(()),
    }
}

/// Returns the key and type of a resource with a complete id. Also checks the parts that become keys of indexes: owner,
/// labels, references.
pub(crate) fn complete(resource: &pb::Resource) -> Result<(Vec<u8>, TypeKey), StoreError> {
    let id = resource.id.as_ref().ok_or(IdPartError("id"))?;
    let missing = [
        ("type", id.r#type.is_none()),
        ("tenancy", id.tenancy.is_none()),
        ("name", id.name.is_empty()),
        ("uid", id.uid.is_empty()),
    ];
    if let Some((what, _)) = missing.into_iter().find(|(_, missing)| *missing) {
        return Err(IdPartError(what).into());
    }
    if let Some(owner) = &resource.owner {
        let entry = keys::owner_prefix(owner).map_err(|_| IdPartError("owner"))?;
        if entry.len() > MAX_INDEXED_ID_BYTES {
            return Err(IdPartError("owner").into());
        }
    }
    let labels = resource.meta.iter().flat_map(|meta| &meta.labels);
    for (label, value) in labels {
        if label.len() + value.len() > MAX_LABEL_BYTES || label.contains('\0') || value.contains('\0') {
            return Err(IdPartError("meta.labels").into());
        }
    }
    for record in &resource.references {
        let entry = keys::reference(record, &[])?;
        if entry.len() > MAX_INDEXED_ID_BYTES {
            return Err(IdPartError("references").into());
        }
    }
    let key = keys::resource(id)?;
    Ok((key, type_key(id)))
}

fn type_key(id: &pb::Id) -> TypeKey {
    id.r#type.as_ref().map_or_else(|| TypeKey { group: String::new(), kind: String::new() }, TypeKey::from)
}

fn uid(resource: &pb::Resource) -> &str {
    resource.id.as_ref().map_or("", |id| id.uid.as_str())
}
