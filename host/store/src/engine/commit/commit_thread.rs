//! The commit thread: the only one that decides what is written.
//!
//! It takes every waiting batch, judges them one after another ([`commit_group`](crate::engine::commit::commit_group)),
//! and makes the whole group durable with one write to the write-ahead log and one sync of the disk; then it publishes
//! and answers. A batch that came alone goes at once. Groups form while the thread waits for the disk, and for a moment
//! after a group was answered, whose writers are likely to come back: a sync costs the same for one of them as for all.
//!
//! When the log or what of it is in memory has reached its bound, it begins a checkpoint and goes on beside it. When
//! that is not through by the time there is twice as much, writers wait for it.
//!
//! Every answer waits for the group, a refusal too: it may be about what another batch of the group is about to write.
//!
//! A disk that is full is found out before anything is written ([`room`](crate::engine::commit::room)): what needs room
//! is refused then, and taken again once there is some.
//!
//! When the write or the sync fails, nobody knows what is on the disk. The store is poisoned then: the group is never
//! shown, reads go on with what was published, every write is refused until a restart finds out.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Instant};

use crate::engine::{
    commit::{
        checkpoint_thread::Checkpoints,
        commit_group::{CommitGroup, Slot},
        history::History,
        job::{Job, Reply, Results},
        room::{RETRY, Shortage},
        scrub::{self, Scrub},
        shared::Shared,
    },
    files::{format, wal::Wal},
    metrics,
    read::snapshot::{Overwrite, SledSnapshot},
    tree::{
        check, keys,
        panics::contained,
        record::{self, Kind, Meta, StoredResource},
        sums::Sums,
        write_batch::WriteBatch,
    },
};
use crate::{Batch, SnapshotHead, StoreError, check::Problem, set_hash::Step};

/// A group is cut at this many bytes of resources, written or deleted, so that what is in flight stays small.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// A checkpoint begins when the log is as many times as large as what is in memory may be. Most of what it has more is
/// about keys that changed again.
const LOG_TO_MEMORY: u64 = 4;

/// The thread's state.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    meta: Meta,
    history: History,
    wal: Wal,
    checkpoints: Checkpoints,
    sums: Sums,
    scrub: Scrub,
    /// Whether the tree has, or will have once the checkpoint is through, what the log had at the opening.
    settled: bool,
    /// The store's directory while its format is an older one, which is raised once everything is in the tree.
    older: Option<PathBuf>,
    /// Whether a checkpoint was begun.
    checkpointed: bool,
    /// When a disk without room was asked for some last.
    asked_for_room: Option<Instant>,
}

impl Committer {
    /// Goes on after `meta`. A tree that is not `settled` has something in front of it that has to be copied before the
    /// log may be written, and before the format of an `older` store is raised.
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
            asked_for_room: None,
        }
    }

    /// Works until the queue is closed and drained.
    pub(crate) fn run(mut self) {
        if let Some(frozen) = self.shared.table.recent().frozen() {
            self.checkpointed = true;
            self.checkpoints.begin(frozen, self.wal.settled());
        }
        self.look_for_room();
        metrics::quotas(self.shared.options.quotas, self.sums.usage.fullest());
        // Whoever was answered together is likely to come back together; see the queue.
        let mut expected = 1;
        while let Some(jobs) = self.shared.clone().queue.take(expected) {
            expected = jobs.len();
            let (mut jobs, mut batches) = (jobs.into_iter(), Vec::new());
            let worked = contained("commit", || {
                self.work(&mut jobs, &mut batches);
                Ok(())
            });
            if let Err(panic) = worked {
                // Whoever waits is answered when the jobs are dropped, and finds the store poisoned.
                self.shared.poison(&panic);
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

    /// Does what was asked, batches that follow one another in one group.
    fn work(&mut self, jobs: &mut impl Iterator<Item = Job>, batches: &mut Vec<(Batch, Reply<Results>)>) {
        for job in jobs {
            match job {
                Job::Commit(batch, reply) => batches.push((batch, reply)),
                Job::Check(reply) => {
                    self.commit(std::mem::take(batches));
                    // A caller who is gone needs no answer; so below.
                    reply.send(contained("commit", || self.walk())).ok();
                }
                Job::Scrub(count) => {
                    self.commit(std::mem::take(batches));
                    self.scrub(count);
                }
                Job::Head(reply) => {
                    self.commit(std::mem::take(batches));
                    self.look_for_room();
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
                #[cfg(test)]
                Job::Panic => panic!("it was told to"),
            }
        }
        self.commit(std::mem::take(batches));
    }

    /// Goes on with the scrub.
    fn scrub(&mut self, count: usize) {
        let (shared, scrub) = (&self.shared, &mut self.scrub);
        let should = (&self.sums, self.meta.event_count());
        let unreadable = |error: &StoreError| vec![Problem { thing: "the scrub".to_owned(), fault: error.to_string() }];
        match contained("commit", || scrub.step(&shared.table, should, count)) {
            Ok(None) => {}
            // Everything is looked at once: it takes a while, and what is damaged stays so.
            Ok(Some(problems)) if problems.is_empty() || self.shared.is_damaged() => {}
            Ok(Some(mut problems)) => {
                problems.extend(contained("commit", || self.walk()).unwrap_or_default());
                self.shared.note_damage(&problems);
            }
            Err(error) => {
                self.scrub = Scrub::new();
                self.shared.note_damage(&unreadable(&error));
            }
        }
    }

    /// Compares everything.
    fn walk(&self) -> Result<Vec<Problem>, StoreError> {
        let Shared { table, options, .. } = &*self.shared;
        check::walk(table, &options.path.join("store/blobs"), self.meta)
    }

    /// What the store holds.
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
        // Nobody knows what is on the disk then: no moment to call a state the one to restore.
        if let Some(why) = self.shared.poisoned.get() {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let Shared { table, snapshots, options, .. } = &*self.shared;
        snapshots.begin(table.clone(), self.head(), &options.path)
    }

    /// Commits batches, in one group or, if they are large, in several, and answers them.
    fn commit(&mut self, batches: Vec<(Batch, Reply<Results>)>) {
        let shared = self.shared.clone();
        let (batches, replies): (Vec<_>, Vec<_>) = batches.into_iter().unzip();
        let (mut batches, mut replies) = (batches.into_iter(), replies.into_iter());
        while !batches.as_slice().is_empty() {
            let result = match shared.poisoned.get() {
                Some(why) => Err(StoreError::Poisoned(why.clone())),
                None => contained("commit", || self.attempt(&mut batches)),
            };
            match result {
                Ok(results) => {
                    for (result, reply) in results.into_iter().zip(&mut replies) {
                        reply.send(result).ok();
                    }
                    // After the answers: it may have to wait.
                    if let Err(error) = self.make_room() {
                        shared.poison(&error);
                    }
                }
                Err(error) => {
                    // Before any answer: whoever has one must find the store poisoned.
                    let why = shared.poison(&error);
                    for reply in replies {
                        reply.send(Err(StoreError::Poisoned(why.clone()))).ok();
                    }
                    return;
                }
            }
        }
    }

    /// Takes the disk space that is to be ahead, if it is not; of a full disk only now and then.
    fn look_for_room(&mut self) {
        let Shared { room, .. } = &*self.shared;
        let short = room.shortage().is_some();
        if short && self.asked_for_room.is_some_and(|asked| asked.elapsed() < RETRY) {
            return;
        }
        if short || !self.wal.is_reserved() {
            // Any other fault comes back with the write, if it is one of the file.
            let taken = self.wal.reserve().and_then(|()| if short { room.take() } else { Ok(()) });
            self.shared.note_room(taken.err().as_ref().and_then(Shortage::of));
            self.asked_for_room = Some(Instant::now());
        }
    }

    /// Waits for a checkpoint that has to come first. One that waits for room itself holds nothing up but what the
    /// opening left to it: what the disk has no room for is refused by the group, and deletions go on in the log as far
    /// as that has room.
    fn check_room(&mut self) -> Result<(), StoreError> {
        self.look_for_room();
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

    /// Takes batches until the group is large enough; their results, once all of them are durable. Any error is one of
    /// writing: nobody knows what is on the disk then.
    fn attempt(
        &mut self,
        batches: &mut impl Iterator<Item = Batch>,
    ) -> Result<Vec<Result<Results, StoreError>>, StoreError> {
        let begun = Instant::now();
        let shared = self.shared.clone();
        if let Err(error) = self.check_room() {
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
                metrics::quota_refused(refusal.quota);
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
                // A refusal or a result may be about what another batch of the group was to write.
                results.iter_mut().for_each(|result| *result = Err(shortage.error()));
                shared.note_room(Some(shortage));
                return Ok(results);
            }
            metrics::group(changing, changes, begun.elapsed(), self.meta.event_count());
        }
        Ok(results)
    }

    /// Writes a group and publishes it.
    fn make_durable(&mut self, group: CommitGroup<'_>) -> Result<(), StoreError> {
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
        if let Err(error) = self.wal.append(&batch) {
            for (key, slot) in changed() {
                scrub::steps(key, slot, |step, key, version| sums.step(step.undone(), key, version));
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
        // Before the answers: whoever deleted the last one must not find its type.
        let gone = group.changes.iter().filter(|change| change.now.is_none() && !self.sums.has(&change.type_key));
        publisher.forget(&gone.map(|change| change.type_key.clone()).collect::<Vec<_>>());
        self.meta = meta;
        self.scrub.note(group.slots.iter().filter(|(_, slot)| slot.is_changed()));
        self.scrub.note_events(Step::Remove, trimmed.into_iter());
        let stored = group.changes.iter().filter(|change| change.is_event && change.seq >= meta.first_event);
        self.scrub.note_events(Step::Add, stored.map(|change| change.seq));
        if !group.growth.is_empty() {
            metrics::quotas(self.shared.options.quotas, self.sums.usage.fullest());
        }
        Ok(())
    }

    /// Whether memory or log have so many times what begins a checkpoint.
    fn reached(&self, times: usize) -> bool {
        let bound = self.shared.options.memtable_bytes();
        let active = self.shared.table.recent().active();
        active.bytes() >= bound * times || self.wal.len() >= bound as u64 * times as u64 * LOG_TO_MEMORY
    }

    /// Begins a checkpoint if it is time for one; waits for the last one if it is high time.
    fn make_room(&mut self) -> Result<(), StoreError> {
        let Shared { room, .. } = &*self.shared;
        // The log of a full disk gets no longer; its other file is as long as it was.
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
        // One that failed has poisoned the store already, with a better reason. What waits for room is refused next.
        if room.is_waiting() { Ok(()) } else { Err(ended()) }
    }

    /// Begins a checkpoint of everything up to here. None may be on its way.
    fn checkpoint(&mut self) {
        let checkpoint = self.wal.checkpoint();
        self.wal.rotate();
        self.checkpointed = true;
        self.checkpoints.begin(self.shared.table.recent().freeze(), checkpoint);
    }

    /// Leaves everything in the tree and nothing in the log, as long as the store is sound.
    fn finish(mut self) {
        let shared = self.shared.clone();
        shared.room.close();
        if shared.poisoned.get().is_none() && self.checkpoints.wait(&shared.room) {
            // The mark of the last checkpoint says nothing of lengths: the files are emptied after it.
            shared.log_end.lock().lengths = [0; 2];
            if self.checkpointed || !shared.table.recent().active().is_empty() {
                self.checkpoint();
            }
            // Whatever goes wrong here costs the next opening time, and nothing else: the log has everything.
            let emptied = if self.checkpoints.wait(&shared.room) { self.wal.empty() } else { Ok(()) };
            if let Err(error) = emptied {
                tracing::warn!(%error, "the write-ahead log was not emptied");
            }
        }
        self.checkpoints.end();
    }
}

/// The checkpoint thread is gone.
fn ended() -> StoreError {
    StoreError::Poisoned("the checkpoint thread ended".to_owned())
}

/// Adds what a group makes of one resource to its batch: record, chunks, indexes.
fn write(batch: &mut WriteBatch, key: &[u8], slot: &Slot) -> Result<(), StoreError> {
    if let Some(before) = &slot.before {
        record::remove_chunks(batch, keys::RESOURCE, before.seq, before.len);
    }
    let entries = |of: &Option<StoredResource>| of.as_ref().map_or(Ok(Vec::new()), |of| of.index_entries(key));
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
