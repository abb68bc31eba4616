//! The commit thread's part of [following another store](crate::follower): groups of changes that were decided
//! elsewhere, and the first filling of a copy.

use mortise_resource::{EncodedResource, pb};

use crate::{
    ExpectedId, StoreError, TypeKey,
    engine::{
        commit::{
            commit_group::{CommitGroup, complete},
            commit_thread::Committer,
            room::Shortage,
            shared::Shared,
        },
        tree::{
            change::Change,
            keys,
            panics::catch_panic,
            record::{Meta, StoredResource},
            usage::Growth,
            write_batch::WriteBatch,
        },
    },
    follower::{FilledResource, FollowedChange, FollowedCommit, with_version},
};

impl Committer {
    /// Writes a group that another store decided, and publishes it. A full disk leaves everything as it was; any other
    /// fault poisons the store.
    pub(super) fn follow(
        &mut self,
        add: impl FnOnce(&mut CommitGroup<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        if let Some(why) = shared.poisoned.get() {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let mut written = catch_panic("commit", || {
            self.await_required_checkpoint()?;
            let mut group = CommitGroup::new(&shared.table, self.meta.highest, &shared.options, None);
            add(&mut group)?;
            group.note_growth();
            if group.changes.is_empty() { Ok(()) } else { self.make_durable(group) }
        });
        if written.is_ok() {
            written = self.start_due_checkpoint();
        }
        if let Err(error) = &written {
            self.history.forget();
            match Shortage::of(error) {
                Some(shortage) => shared.note_shortage(Some(shortage)),
                None => {
                    shared.poison(error);
                }
            }
        }
        written
    }

    /// Notes that the content is that of a sequence of the store that this one follows, without events before it.
    pub(super) fn filled(&mut self, sequence: u64) -> Result<(), StoreError> {
        let Shared { table, publisher, .. } = &*self.shared;
        let meta = Meta { last_seq: sequence, highest: sequence, first_event: sequence + 1, ..self.meta };
        let mut batch = WriteBatch::default();
        batch.insert(keys::META, meta.encode());
        self.wal.append(&batch)?;
        publisher.publish(&[], || table.apply(&batch));
        publisher.set_newest(sequence);
        self.meta = meta;
        Ok(())
    }
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
        let now = resource.map(|resource| EncodedResource::encode(&resource)).transpose()?;
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
