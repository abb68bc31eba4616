//! The commit thread: the only thread that decides what is written.
//!
//! The thread takes every waiting batch, checks them one after another
//! ([`commit_group`](crate::engine::commit::commit_group)), and makes the whole group durable with one write to the
//! write-ahead log and one sync of the disk; then it publishes and answers. A lone batch is committed at once. Groups
//! form while the thread waits for the disk, and for a moment after an answered group, since its writers are likely to
//! come back: a sync costs the same for one as for all. A group ends at 8 MiB.
//!
//! The thread also does the jobs that need the state between two groups: snapshots, figures, checks, and slices of the
//! [scrub](crate::engine::commit::scrub).
//!
//! When the log or the memtable reaches its bound, the thread starts a checkpoint and goes on beside it. If that is not
//! done by the time there is twice as much, writers wait for it.
//!
//! Every answer waits for the whole group, even a refusal: it may depend on another batch of the group.
//!
//! A full disk is noticed before anything is written ([`room`](crate::engine::commit::room)): writes that need space
//! are refused, until there is some.
//!
//! After a failed write or sync, the content of the disk is unknown. The store is then poisoned: the group is never
//! shown, reads continue from the published state, and every write is refused until a restart.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Instant};

use crate::engine::{
    commit::{
        checkpoint_thread::Checkpoints,
        commit_group::{CommitGroup, Slot},
        draft::draft,
        history::History,
        job::{Job, Reply, Results},
        room::{SPACE_RETRY_PAUSE, Shortage},
        scrub::{self, Scrub},
        shared::Shared,
    },
    files::{format, wal::Wal},
    metrics, planted,
    read::snapshot::{Overwrite, SledSnapshot},
    tree::{
        check, keys,
        panics::catch_panic,
        record::{self, Kind, Meta, StoredResource},
        sums::Sums,
        write_batch::WriteBatch,
    },
};
use crate::{Batch, SnapshotHead, StoreError, check::Problem, set_hash::Step};

/// Size of a group's written or deleted resources at which it ends, bytes; bounds the data in flight.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// Size of the log that starts a checkpoint, as a multiple of the memtable's bound. The log is larger mostly by keys
/// that changed more than once.
const LOG_TO_MEMTABLE_RATIO: u64 = 4;

/// State of the commit thread.
pub(crate) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) meta: Meta,
    pub(super) history: History,
    pub(super) wal: Wal,
    checkpoints: Checkpoints,
    sums: Sums,
    scrub: Scrub,
    /// Whether the tree has, or will have after the running checkpoint, everything that the log had at the opening.
    settled: bool,
    /// Directory of a store with an older format, which is raised once everything is in the tree.
    older: Option<PathBuf>,
    /// Whether a checkpoint was started.
    checkpointed: bool,
    /// Time of the last attempt to allocate space on a full disk.
    last_refill: Option<Instant>,
}

impl Committer {
    /// Makes the state after `meta`. An unsettled tree has entries in memory that must be copied to it before the log
    /// may be written, and before the format of an `older` store is raised.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (meta, sums): (Meta, Sums),
        history: History,
        wal: Wal,
        checkpoints: Checkpoints,
        (settled, older): (bool, Option<PathBuf>),
    ) -> Self {
        Self {
            shared,
            meta,
            history,
            wal,
            checkpoints,
            sums,
            scrub: Scrub::new(),
            settled,
            older,
            checkpointed: false,
            last_refill: None,
        }
    }

    /// Works until the queue is closed and drained.
    pub(crate) fn run(mut self) {
        if let Some(frozen) = self.shared.table.recent().frozen() {
            self.checkpointed = true;
            self.checkpoints.begin(frozen, self.wal.settled());
        }
        self.refill_reserve();
        metrics::quotas(self.shared.options.quotas, self.sums.usage.largest_use());
        // Writers that were answered together are likely to come back together; see the queue.
        let mut expected = 1;
        while let Some(jobs) = self.shared.clone().queue.take(expected) {
            expected = jobs.len();
            let (mut jobs, mut batches) = (jobs.into_iter(), Vec::new());
            let worked = catch_panic("commit", || {
                self.work(&mut jobs, &mut batches);
                Ok(())
            });
            if let Err(panic) = worked {
                // Dropping the jobs answers the waiting callers, which then find the store poisoned.
                self.shared.note_thread_failed("commit", &panic);
                self.shared.queue.close();
                drop((jobs, batches));
                while self.shared.queue.take(1).is_some() {}
                self.shared.room.close();
                self.checkpoints.end();
                return;
            }
        }
        self.finish();
    }

    /// Does the jobs in order; consecutive batches form one group.
    fn work(&mut self, jobs: &mut impl Iterator<Item = Job>, batches: &mut Vec<(Batch, Reply<Results>)>) {
        for job in jobs {
            match job {
                Job::Commit(batch, reply) => batches.push((batch, reply)),
                Job::Check(reply) => {
                    self.commit(std::mem::take(batches));
                    // A failed send means that the caller is gone; the same below.
                    reply.send(catch_panic("commit", || self.walk())).ok();
                }
                Job::Scrub(count) => {
                    self.commit(std::mem::take(batches));
                    self.scrub(count);
                }
                Job::Head(reply) => {
                    self.commit(std::mem::take(batches));
                    self.refill_reserve();
                    reply.send(Ok(self.head())).ok();
                }
                Job::Usage(limit, reply) => {
                    self.commit(std::mem::take(batches));
                    reply.send(Ok(self.sums.usage.report(self.shared.options.quotas, limit))).ok();
                }
                Job::Snapshot(reply) => {
                    self.commit(std::mem::take(batches));
                    reply.send(self.snapshot()).ok();
                }
                Job::Draft(drafts, limits, reply) => {
                    self.commit(std::mem::take(batches));
                    let Shared { table, options, .. } = &*self.shared;
                    let usage = &self.sums.usage;
                    reply.send(catch_panic("commit", || draft(table, options, usage, drafts, limits))).ok();
                }
                Job::Follow(commits, reply) => {
                    self.commit(std::mem::take(batches));
                    let add = |group: &mut CommitGroup<'_>| commits.into_iter().try_for_each(|c| group.follow(c));
                    reply.send(self.follow(add)).ok();
                }
                Job::Fill(resources, reply) => {
                    self.commit(std::mem::take(batches));
                    let add = |group: &mut CommitGroup<'_>| resources.into_iter().try_for_each(|r| group.fill(r));
                    reply.send(self.follow(add)).ok();
                }
                Job::Filled(sequence, reply) => {
                    self.commit(std::mem::take(batches));
                    reply.send(self.filled(sequence)).ok();
                }
                #[cfg(test)]
                Job::Panic => panic!("panics on purpose"),
            }
        }
        self.commit(std::mem::take(batches));
    }

    /// Scrubs the next `count` keys.
    fn scrub(&mut self, count: usize) {
        let (shared, scrub) = (&self.shared, &mut self.scrub);
        let should = (&self.sums, self.meta.event_count());
        let unreadable = |error: &StoreError| vec![Problem { thing: "the scrub".to_owned(), fault: error.to_string() }];
        match catch_panic("commit", || scrub.step(&shared.table, should, count)) {
            Ok(None) => {}
            // Damage is permanent, and a full walk takes a while: one is enough.
            Ok(Some(problems)) if problems.is_empty() || self.shared.is_damaged() => {}
            Ok(Some(mut problems)) => {
                problems.extend(catch_panic("commit", || self.walk()).unwrap_or_default());
                self.shared.note_damage(&problems);
            }
            Err(error) => {
                self.scrub = Scrub::new();
                self.shared.note_damage(&unreadable(&error));
            }
        }
    }

    /// Checks the whole store.
    fn walk(&self) -> Result<Vec<Problem>, StoreError> {
        let Shared { table, options, .. } = &*self.shared;
        check::walk(table, &options.path.join("store/blobs"), self.meta)
    }

    /// Returns the totals of the store.
    fn head(&self) -> SnapshotHead {
        let Meta { last_seq, first_event, event_bytes, skipped, .. } = self.meta;
        SnapshotHead {
            sequence: last_seq,
            resources: self.sums.counts(),
            resources_hash: Some(self.sums.resources()),
            first_event,
            skipped,
            event_bytes,
        }
    }

    fn snapshot(&self) -> Result<SledSnapshot, StoreError> {
        // A poisoned store may differ from its disk, so its state must not become a backup; but when its files are
        // gone, a backup is all that can be saved.
        if let Some(why) = self.shared.poisoned.get()
            && self.shared.files.check().is_ok()
        {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let Shared { table, snapshots, options, id, .. } = &*self.shared;
        snapshots.begin(table.clone(), (self.head(), *id), &options.path)
    }

    /// Commits batches, in one group or, if they are large, in several, and answers them.
    fn commit(&mut self, batches: Vec<(Batch, Reply<Results>)>) {
        let shared = self.shared.clone();
        let (batches, replies): (Vec<_>, Vec<_>) = batches.into_iter().unzip();
        let (mut batches, mut replies) = (batches.into_iter(), replies.into_iter());
        while !batches.as_slice().is_empty() {
            let result = match shared.poisoned.get() {
                Some(why) => Err(StoreError::Poisoned(why.clone())),
                None => catch_panic("commit", || self.attempt(&mut batches)),
            };
            match result {
                Ok(results) => {
                    for (result, reply) in results.into_iter().zip(&mut replies) {
                        reply.send(result).ok();
                    }
                    // After the answers, since it may have to wait.
                    if let Err(error) = self.start_due_checkpoint() {
                        shared.poison(&error);
                    }
                }
                Err(error) => {
                    // Before any answer: a caller with an answer must find the store poisoned.
                    let why = shared.poison(&error);
                    for reply in replies {
                        reply.send(Err(StoreError::Poisoned(why.clone()))).ok();
                    }
                    return;
                }
            }
        }
    }

    /// Allocates the reserved disk space if it is missing; on a full disk only once every [`SPACE_RETRY_PAUSE`].
    fn refill_reserve(&mut self) {
        let Shared { room, .. } = &*self.shared;
        let short = room.shortage().is_some();
        if short && self.last_refill.is_some_and(|asked| asked.elapsed() < SPACE_RETRY_PAUSE) {
            return;
        }
        if short || !self.wal.is_reserved() {
            // Any other fault of the file comes back with the next write.
            let taken = self.wal.reserve().and_then(|()| if short { room.take() } else { Ok(()) });
            self.shared.note_shortage(taken.err().as_ref().and_then(Shortage::of));
            self.last_refill = Some(Instant::now());
        }
    }

    /// Waits for a checkpoint that must come first. Fails while the checkpoint of an opening waits for disk space. Any
    /// other waiting checkpoint blocks nothing: groups refuse writes without space, and deletions continue in the log.
    pub(super) fn await_required_checkpoint(&mut self) -> Result<(), StoreError> {
        self.refill_reserve();
        let room = &self.shared.room;
        if self.settled && (!self.reached(2) || room.is_waiting()) {
            return Ok(());
        }
        let through = self.checkpoints.wait(room);
        if through && let Some(dir) = &self.older {
            format::raise(dir)?;
            self.older = None;
        }
        if through || (self.settled && room.is_waiting()) {
            self.settled = true;
            return Ok(());
        }
        Err(room.shortage().map_or_else(ended, |shortage| shortage.error()))
    }

    /// Takes batches until the group is large enough; returns their results once all are durable. An error means a
    /// failed write: the content of the disk is then unknown.
    fn attempt(
        &mut self,
        batches: &mut impl Iterator<Item = Batch>,
    ) -> Result<Vec<Result<Results, StoreError>>, StoreError> {
        let begun = Instant::now();
        let shared = self.shared.clone();
        if let Err(error) = self.await_required_checkpoint() {
            let shortage = Shortage::of(&error).ok_or(error)?;
            return Ok(batches.map(|_| Err(shortage.error())).collect());
        }
        let shortage = shared.room.shortage();
        let mut group = CommitGroup::new(&shared.table, self.meta.highest, &shared.options, shortage);
        let mut results = Vec::new();
        let mut changing = 0;
        for batch in batches {
            let before = group.changes.len();
            let result = group.add(batch, &self.sums.usage);
            if let Err(StoreError::QuotaExceeded(refusal)) = &result {
                refusal.count();
            }
            results.push(result);
            changing += usize::from(group.changes.len() > before);
            if group.bytes() >= MAX_GROUP_BYTES {
                break;
            }
        }
        let changes = group.changes.iter().filter(|change| change.is_event).count();
        if !group.changes.is_empty() {
            if let Err(error) = self.make_durable(group) {
                let shortage = Shortage::of(&error).ok_or(error)?;
                self.history.forget();
                // Every result may depend on another batch of the group, so all fail.
                results.iter_mut().for_each(|result| *result = Err(shortage.error()));
                shared.note_shortage(Some(shortage));
                return Ok(results);
            }
            metrics::group(changing, changes, begun.elapsed(), self.meta.event_count());
        }
        Ok(results)
    }

    /// Writes a group and publishes it.
    pub(super) fn make_durable(&mut self, group: CommitGroup<'_>) -> Result<(), StoreError> {
        let Shared { table, publisher, snapshots, .. } = &*self.shared;
        let mut batch = WriteBatch::default();
        for (key, slot) in group.slots.iter().filter(|(_, slot)| slot.is_changed()) {
            write(&mut batch, key, slot)?;
        }
        let (mut meta, trimmed) = self.history.write(table, self.meta, &group.changes, &mut batch);
        let changed = || group.slots.iter().filter(|(_, slot)| slot.is_changed());
        let sums = &mut self.sums;
        for (key, slot) in changed() {
            scrub::steps(key, slot, |step, key, version| sums.step(step, key, version));
        }
        sums.usage.grow(&group.growth);
        sums.write(group.changes.iter().map(|change| &change.type_key).collect::<HashSet<_>>(), &mut batch);
        sums.usage.write(&group.growth, &mut batch);
        (meta.sums, meta.usage) = (sums.totals(), sums.usage.bytes());
        batch.insert(keys::META, meta.encode());

        let appending = Instant::now();
        // Without its names the log is lost with this process, so nothing may be acknowledged.
        let appended = planted::durable(&batch, |batch| self.wal.append(batch));
        let appended = appended.and_then(|()| self.shared.files.check());
        if let Err(error) = appended {
            for (key, slot) in changed() {
                scrub::steps(key, slot, |step, key, version| sums.step(step.inverse(), key, version));
            }
            sums.usage.shrink(&group.growth);
            return Err(error);
        }
        metrics::synced(appending.elapsed());
        *self.shared.log_end.lock() = self.wal.end();
        let guard = snapshots.save(table, || {
            let slots = group.slots.iter().filter(|(_, slot)| slot.is_changed());
            let overwritten = slots.filter_map(|(key, slot)| {
                let sequence = slot.before.as_ref()?.seq;
                let rewrite = slot.now.as_ref().is_some_and(|now| now.seq == sequence);
                Some(Overwrite { key: key.clone(), sequence, rewrite })
            });
            let trimmed = trimmed.iter();
            let trimmed = trimmed.map(|&sequence| Overwrite { key: keys::event(sequence), sequence, rewrite: false });
            overwritten.chain(trimmed).collect()
        });
        publisher.publish(&group.changes, || table.apply(&batch));
        drop(guard);
        // Before the answers: after deleting the last resource of a type, a caller must not find the type.
        let gone = group.changes.iter().filter(|change| change.now.is_none() && !self.sums.has(&change.type_key));
        publisher.forget(&gone.map(|change| change.type_key.clone()).collect::<Vec<_>>());
        self.meta = meta;
        self.scrub.note(group.slots.iter().filter(|(_, slot)| slot.is_changed()));
        self.scrub.note_events(Step::Remove, trimmed.into_iter());
        let stored = group.changes.iter().filter(|change| change.is_event && change.seq >= meta.first_event);
        self.scrub.note_events(Step::Add, stored.map(|change| change.seq));
        if !group.growth.is_empty() {
            metrics::quotas(self.shared.options.quotas, self.sums.usage.largest_use());
        }
        Ok(())
    }

    /// Whether the memtable or the log has reached `times` the bound that starts a checkpoint.
    fn reached(&self, times: usize) -> bool {
        let bound = self.shared.options.memtable_bytes();
        let active = self.shared.table.recent().active();
        active.bytes() >= bound * times || self.wal.len() >= bound as u64 * times as u64 * LOG_TO_MEMTABLE_RATIO
    }

    /// Starts a checkpoint if one is due; waits for the running one if that is overdue.
    pub(super) fn start_due_checkpoint(&mut self) -> Result<(), StoreError> {
        let Shared { room, .. } = &*self.shared;
        // On a full disk the log cannot grow, but its other file keeps its length.
        let short = room.shortage().is_some() && self.wal.len() >= self.wal.ahead() / 2;
        if !(self.reached(1) || short) || (!self.checkpoints.is_idle() && !self.reached(2)) {
            return Ok(());
        }
        if !self.checkpoints.is_idle() {
            metrics::checkpoint_awaited();
        }
        if self.checkpoints.wait(room) {
            self.checkpoint();
            return Ok(());
        }
        // A failed checkpoint has poisoned the store, with a better reason. On a full disk the next writes fail.
        if room.is_waiting() { Ok(()) } else { Err(ended()) }
    }

    /// Starts a checkpoint of everything so far. No other may be running.
    fn checkpoint(&mut self) {
        let checkpoint = self.wal.checkpoint();
        self.wal.rotate();
        self.checkpointed = true;
        self.checkpoints.begin(self.shared.table.recent().freeze(), checkpoint);
    }

    /// Moves everything into the tree and empties the log, if the store is not poisoned.
    fn finish(mut self) {
        let shared = self.shared.clone();
        shared.room.close();
        if shared.poisoned.get().is_none() && self.checkpoints.wait(&shared.room) {
            // The last checkpoint records no lengths, since the files are emptied after it.
            shared.log_end.lock().lengths = [0; 2];
            if self.checkpointed || !shared.table.recent().active().is_empty() {
                self.checkpoint();
            }
            // A failure here only makes the next opening slower: the log has everything.
            let emptied = if self.checkpoints.wait(&shared.room) { self.wal.empty() } else { Ok(()) };
            match emptied {
                Err(error) => tracing::warn!(%error, "the write-ahead log was not emptied; the next start replays it"),
                // For deletions after a start on a full disk. Without space now there will be none then, either.
                Ok(()) => {
                    self.wal.reserve().ok();
                }
            }
        }
        self.checkpoints.end();
    }
}

/// Error for an ended checkpoint thread.
fn ended() -> StoreError {
    StoreError::Poisoned("the checkpoint thread ended".to_owned())
}

/// Adds a resource's change to the group's batch: record, chunks, indexes.
fn write(batch: &mut WriteBatch, key: &[u8], slot: &Slot) -> Result<(), StoreError> {
    if let Some(before) = &slot.before {
        record::remove_chunks(batch, keys::RESOURCE, before.seq, before.len);
    }
    let entries =
        |stored: &Option<StoredResource>| stored.as_ref().map_or(Ok(Vec::new()), |stored| stored.index_entries(key));
    let (before, now) = (entries(&slot.before)?, entries(&slot.now)?);
    for entry in before.iter().filter(|entry| !now.contains(entry)) {
        batch.remove(entry.as_slice());
    }
    for entry in now.iter().filter(|entry| !before.contains(entry)) {
        batch.insert(entry.as_slice(), &[]);
    }
    match &slot.now {
        Some(now) => record::write(batch, key, Kind::Resource, now.seq, now.resource.bytes()),
        None => batch.remove(key),
    }
    Ok(())
}
