//! The history: selects the events to keep, and those that the next commit removes.
//!
//! The history is a range of sequences without gaps, except those that an opening skipped. It is bounded in events and
//! bytes, and each commit trims it, so it never exceeds its bounds. The lengths of events of this process are held in
//! memory (4 bytes each); lengths of older events are read when they are trimmed. A damaged event is trimmed all the
//! same, with the chunks that can be found: it must not block a write.

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

/// Bounds of the history and known lengths of its events.
pub(crate) struct History {
    max_events: u64,
    max_bytes: u64,
    /// Lengths of the newest events, bytes.
    lens: VecDeque<u32>,
}

impl History {
    /// Makes a history with these bounds.
    pub(crate) fn new(max_events: u64, max_bytes: u64) -> Self {
        Self { max_events, max_bytes, lens: VecDeque::new() }
    }

    /// Adds the events of `changes` to the batch, and removes events over the bounds. Returns the counters after the
    /// batch, and the sequences of the removed stored events.
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
                tracing::warn!(%error, "the oldest event is trimmed, though it is damaged and its length unknown");
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
            // Removes the lengths of trimmed damaged events.
            meta.event_bytes = 0;
        }
        for change in events().filter(|change| change.seq >= meta.first_event) {
            let kind = if change.now.is_some() { Kind::Upsert } else { Kind::Delete };
            record::write(batch, &keys::event(change.seq), kind, change.seq, change.payload());
        }
        (meta, trimmed)
    }

    /// Forgets the known lengths, since the last events were not stored.
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

/// Returns the number of stored events, and the bytes of their payloads.
pub(crate) fn count(table: &Table) -> Result<(u64, u64), StoreError> {
    table.range(vec![keys::EVENT]..vec![keys::EVENT + 1]).try_fold((0, 0), |(events, bytes), item| {
        let (key, value) = item?;
        Ok((events + 1, bytes + u64::from(table.head(&key, &value)?.len)))
    })
}

/// Returns the first stored event from `seq` to `until`. Ignores faults of the table; the next trim finds them.
fn next_event(table: &Table, seq: u64, until: u64) -> Option<u64> {
    if seq > until {
        return None;
    }
    let (key, _) = table.range(keys::event(seq)..keys::event(until.saturating_add(1))).next()?.ok()?;
    keys::event_seq(&key)
}

/// Adds the removal of an event's chunks to a batch, as many as can be found.
fn remove_found_chunks(table: &Table, batch: &mut WriteBatch, seq: u64) {
    let range = keys::chunk(seq, keys::EVENT, 0)..keys::chunk(seq, keys::EVENT + 1, 0);
    // Ends at the first page that cannot be read.
    for (key, _) in table.range(range).map_while(Result::ok) {
        batch.remove(key);
    }
}
