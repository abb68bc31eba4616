//! The scrub: a slow, endless walk over resources and indexes that compares them with the store's
//! [sums](crate::engine::tree::sums), and counts the events of the history, while the store is in use.
//!
//! A thread sets the pace. It reads a slice ahead, so that the pages are in memory, and then has the commit thread
//! check the slice. No other write runs meanwhile, so the state before the slice is known exactly, and each commit
//! corrects it. At the end of a pass its sums must equal the store's; then the scrub rests for a while.
//!
//! # Cost
//! A slice is a tenth of a second's keys: at the default rate 200 keys, some 200 µs of the commit thread's time.

use std::{
    sync::{Arc, Weak},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    StoreError,
    check::Problem,
    engine::{
        commit::{commit_group::Slot, job::Job, shared::Shared},
        metrics,
        tree::{keys, panics::catch_panic, record::StoredResource, sums::Sums, table::Table, usage::Growth},
    },
    error::io_fault,
    set_hash::Step,
};

/// Slices each second.
const SLICES_PER_SECOND: u64 = 10;
/// Pause between two passes, so that a small store does not keep a processor awake.
const PASS_PAUSE: Duration = Duration::from_secs(10);
/// Longest time between two comparisons of the names of open files.
const FILES_PAUSE: Duration = Duration::from_secs(1);
/// First key of a pass, and the key behind its last. The sums and counters in between do not count.
const FIRST_KEY: &[u8] = &[keys::EVENT];
const END_KEY: &[u8] = &[keys::RESOURCE + 1];

/// An unfinished pass.
pub(crate) struct Scrub {
    found: Sums,
    events: u64,
    /// Key up to which the pass has counted.
    upto: Vec<u8>,
}

impl Scrub {
    /// Makes a pass at its beginning.
    pub(crate) fn new() -> Self {
        Self { found: Sums::default(), events: 0, upto: FIRST_KEY.to_vec() }
    }

    /// Counts the next `count` keys. Returns, at the end of a pass, the differences from the expected sums and number
    /// of events. No write may be in flight.
    pub(crate) fn step(
        &mut self,
        table: &Table,
        (should, events): (&Sums, u64),
        count: usize,
    ) -> Result<Option<Vec<Problem>>, StoreError> {
        let mut seen = 0;
        for item in table.range(self.upto.clone()..END_KEY.to_vec()).take(count) {
            let (key, value) = item?;
            self.found.add_read(table, &key, &value)?;
            self.events += u64::from(key.first() == Some(&keys::EVENT));
            self.upto = after(&key);
            seen += 1;
        }
        metrics::scrubbed(seen);
        if seen as usize == count {
            return Ok(None);
        }
        let mut problems = self.found.differences(should);
        if self.events != events {
            let fault = format!("{} events are stored, but {events} are expected", self.events);
            problems.push(Problem { thing: "the history".to_owned(), fault });
        }
        *self = Self::new();
        Ok(Some(problems))
    }

    /// Corrects the pass by committed resources.
    pub(crate) fn note<'s>(&mut self, slots: impl Iterator<Item = (&'s Vec<u8>, &'s Slot)>) {
        let mut growth = Growth::default();
        for (key, slot) in slots {
            steps(key, slot, |step, key, version| {
                if key < self.upto.as_slice() {
                    self.found.step(step, key, version);
                }
            });
            if key.as_slice() < self.upto.as_slice() {
                let len = |slot_content: &Option<StoredResource>| slot_content.as_ref().map(|stored| stored.len);
                growth.note(key, len(&slot.before), len(&slot.now));
            }
        }
        self.found.usage.grow(&growth);
    }

    /// Corrects the pass by committed and trimmed events.
    pub(crate) fn note_events(&mut self, step: Step, sequences: impl Iterator<Item = u64>) {
        let known = sequences.filter(|sequence| keys::event(*sequence) < self.upto).count() as u64;
        self.events = match step {
            Step::Add => self.events.wrapping_add(known),
            Step::Remove => self.events.wrapping_sub(known),
        };
    }
}

/// Lists the steps of a group on the keys of one resource.
pub(crate) fn steps(key: &[u8], slot: &Slot, mut step: impl FnMut(Step, &[u8], u64)) {
    for (what, content) in [(Step::Remove, &slot.before), (Step::Add, &slot.now)] {
        let Some(stored) = content else { continue };
        step(what, key, stored.seq);
        for entry in stored.index_entries(key).unwrap_or_default() {
            step(what, &entry, 0);
        }
    }
}

fn after(key: &[u8]) -> Vec<u8> {
    // The first key after this one.
    [key, &[0]].concat()
}

/// Starts the thread that paces the scrub of a store, `rate` keys each second, and compares the names of its open files
/// meanwhile. The thread ends with the store.
pub(crate) fn start(shared: &Arc<Shared>, rate: u64) -> Result<JoinHandle<()>, StoreError> {
    let count = usize::try_from(rate.div_ceil(SLICES_PER_SECOND)).unwrap_or(usize::MAX);
    let path = shared.options.path.clone();
    let shared = Arc::downgrade(shared);
    let thread = thread::Builder::new().name("store-scrub".to_owned()).spawn(move || {
        let paced = catch_panic("scrub", || {
            pace(&shared, count);
            Ok(())
        });
        if let (Err(panic), Some(shared)) = (paced, shared.upgrade()) {
            shared.note_thread_failed("scrub", &panic);
        }
    });
    thread.map_err(io_fault(&path, "start the scrub thread of"))
}

fn pace(shared: &Weak<Shared>, count: usize) {
    let slice = Duration::from_secs(1) / u32::try_from(SLICES_PER_SECOND).unwrap_or(1);
    let (mut from, mut next) = (FIRST_KEY.to_vec(), Instant::now() + slice);
    loop {
        let left = next.saturating_duration_since(Instant::now());
        thread::park_timeout(if count == 0 { FILES_PAUSE } else { left.min(FILES_PAUSE) });
        let Some(shared) = shared.upgrade() else { return };
        if shared.queue.is_closed() {
            return;
        }
        shared.check_files();
        if count == 0 || Instant::now() < next {
            continue;
        }
        // Reads into memory. Faults and panics of sled come up again in the commit thread, which reports them.
        let (seen, last) = catch_panic("scrub", || {
            let read = shared.table.range(from.clone()..END_KEY.to_vec()).take(count).map_while(Result::ok);
            Ok(read.fold((0, None), |(seen, _), (key, _)| (seen + 1, Some(key))))
        })
        .unwrap_or_default();
        let (place, pause) = match last {
            Some(key) if seen == count => (after(&key), slice),
            _ => (FIRST_KEY.to_vec(), PASS_PAUSE),
        };
        (from, next) = (place, Instant::now() + pause);
        // Skips the slice when writes fill the queue.
        shared.queue.push_if_room(Job::Scrub(count));
    }
}
