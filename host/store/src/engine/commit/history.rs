//! The history: which events are kept, and which go with the next commit.
//!
//! The history is a range of sequences, dense but for those that an opening passed over. It is bounded in events and in
//! bytes, and trimmed in the batch that adds to it, so it never holds more than its bounds. Lengths of the events that
//! this process wrote are remembered (4 bytes each); those of older ones are read when they go. One that is damaged
//! goes all the same, with what can be found of it: an event that nobody will ask for any more must not stand in the
//! way of a write.

use std::collections::VecDeque;

use crate::StoreError;
use crate::engine::{
    tree::change::Change,
    tree::{
        keys,
        record::{self, Kind, Meta},
        table::Table,
        write_batch::WriteBatch,
    },
};

/// The log's bounds and what is known of it.
pub(crate) struct History {
    max_events: u64,
    max_bytes: u64,
    /// Lengths of the newest events.
    lens: VecDeque<u32>,
}

impl History {
    /// With these bounds.
    pub(crate) fn new(max_events: u64, max_bytes: u64) -> Self {
        Self { max_events, max_bytes, lens: VecDeque::new() }
    }

    /// Puts the events of `changes` into the batch, and the removal of what is over the bounds. Returns the counters as
    /// they are after the batch, and the sequences of the stored events that go.
    pub(crate) fn write(
        &mut self,
        table: &Table,
        mut meta: Meta,
        changes: &[Change],
        batch: &mut WriteBatch,
    ) -> (Meta, Vec<u64>) {
        let stored_until = meta.last_seq;
        let events = || changes.iter().filter(|change| change.is_event);
        for change in events() {
            if meta.event_count() == 0 {
                meta.first_event = change.seq;
            } else {
                meta.skipped += change.seq.saturating_sub(meta.last_seq + 1);
            }
            let len = u32::try_from(change.payload().len()).unwrap_or(u32::MAX);
            self.lens.push_back(len);
            meta.last_seq = change.seq;
            meta.highest = change.seq;
            meta.event_bytes += u64::from(len);
        }
        let mut trimmed = Vec::new();
        while meta.event_count() > 0 && self.is_over(&meta) {
            let seq = meta.first_event;
            let len = self.forget_oldest(table, &meta).unwrap_or_else(|error| {
                tracing::warn!(%error, "the oldest event is trimmed, though its length is not known");
                remove_found_chunks(table, batch, seq);
                0
            });
            if seq <= stored_until {
                batch.remove(keys::event(seq));
                record::remove_chunks(batch, keys::EVENT, seq, len);
                trimmed.push(seq);
            }
            meta.event_bytes = meta.event_bytes.saturating_sub(u64::from(len));
            meta.first_event = match meta.skipped {
                0 => seq + 1,
                _ => {
                    let next = next_event(table, seq + 1, stored_until);
                    let next = next.or(events().map(|change| change.seq).find(|next| *next > seq));
                    let next = next.unwrap_or(meta.last_seq + 1);
                    meta.skipped = meta.skipped.saturating_sub(next - (seq + 1));
                    next
                }
            };
        }
        if meta.event_count() == 0 {
            // Lengths that were not known are still in it.
            meta.event_bytes = 0;
        }
        for change in events().filter(|change| change.seq >= meta.first_event) {
            let kind = if change.now.is_some() { Kind::Upsert } else { Kind::Delete };
            record::write(batch, &keys::event(change.seq), kind, change.seq, change.payload());
        }
        (meta, trimmed)
    }

    /// Forgets what it remembers, since what it wrote last was not stored.
    pub(crate) fn forget(&mut self) {
        self.lens.clear();
    }

    fn is_over(&self, meta: &Meta) -> bool {
        meta.event_count() > self.max_events || meta.event_bytes > self.max_bytes
    }

    fn forget_oldest(&mut self, table: &Table, meta: &Meta) -> Result<u32, StoreError> {
        if self.lens.len() as u64 >= meta.event_count()
            && let Some(len) = self.lens.pop_front()
        {
            return Ok(len);
        }
        let key = keys::event(meta.first_event);
        let value = table.get(&key)?.ok_or_else(|| table.damaged(&key, "it is missing"))?;
        table.head(&key, &value).map(|head| head.len)
    }
}

/// How many events are stored, and the bytes of their payloads.
pub(crate) fn count(table: &Table) -> Result<(u64, u64), StoreError> {
    table.range(vec![keys::EVENT]..vec![keys::EVENT + 1]).try_fold((0, 0), |(events, bytes), item| {
        let (key, value) = item?;
        Ok((events + 1, bytes + u64::from(table.head(&key, &value)?.len)))
    })
}

/// The first stored event from `seq` to `until`, if there is one. A fault of the table is found by the next trim.
fn next_event(table: &Table, seq: u64, until: u64) -> Option<u64> {
    if seq > until {
        return None;
    }
    let (key, _) = table.range(keys::event(seq)..keys::event(until.saturating_add(1))).next()?.ok()?;
    keys::event_seq(&key)
}

/// Adds the removal of an event's chunks, as many as can be found, to a batch.
fn remove_found_chunks(table: &Table, batch: &mut WriteBatch, seq: u64) {
    let range = keys::chunk(seq, keys::EVENT, 0)..keys::chunk(seq, keys::EVENT + 1, 0);
    // After a page that cannot be read there is no telling what is there.
    for (key, _) in table.range(range).map_while(Result::ok) {
        batch.remove(key);
    }
}
