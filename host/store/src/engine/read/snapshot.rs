//! Snapshots: the whole store as of one commit, read slowly while writers go on.
//!
//! A snapshot begins on the commit thread, between two groups: no write is in flight, and the table holds the state of
//! the commit *S*. From then on a reader walks over the table, events first, then resources, and takes each record of
//! *S* or older. Before the commit thread overwrites or removes a record that the reader has not passed yet, it *saves*
//! it: copies the stored record to a place where the reader finds it.
//!
//! # Why each record of *S* comes exactly once
//! One lock protects the reader's *cursor* (all keys before it are done) and the saved records. A key at or behind the
//! cursor with a record of *S* or older is saved before the table shows a change. The reader reads a page, without the
//! lock, and then, under the lock, moves the cursor behind the page. For a record of the page:
//! - if it was saved: that was before the cursor moved, so it is among the records saved so far. The reader delivers
//!   the saved record, and drops its own, which may be the new one, or half of each.
//! - if it was not saved: it did not change before the cursor moved, so the reader's record is right; it will not be
//!   saved later.
//!
//! A saved record may be delivered long before the reader comes to its page. By then the table must show its
//! replacement; so no page starts between the saving and the publishing of a group ([`PublishGuard`]).
//!
//! Records are compared by sequence; only one record of a key is of *S* or older, since a replacement is newer. A
//! rewrite is the exception, as it keeps the sequence; so the snapshot holds the sequences of saved records that were
//! rewritten.
//!
//! # Cost
//! Without a snapshot, a check of an empty list for each commit. With one, the commit thread reads each record that it
//! is about to overwrite, once for each snapshot, and appends it to a buffer, which moves to an unnamed file in the
//! store's directory when it exceeds [`SAVED_MEMORY_BYTES`]. So memory is bounded, and the disk space is at most the
//! size of the store at *S*, however slow the reader; it is freed at the latest when the snapshot ends.

use std::{
    collections::HashSet,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tempfile::SpooledTempFile;

use crate::engine::tree::{
    keys,
    record::{Head, Kind},
    table::{Payload, Table},
};
use crate::{Record, RecordKind, Snapshot, SnapshotHead, StoreError, StoreId};

/// Most snapshots at the same time.
const MAX_SNAPSHOTS: usize = 4;
/// Bytes of saved records that stay in memory.
const SAVED_MEMORY_BYTES: usize = 4 << 20;
/// Bytes of payloads at which a page ends.
const PAGE_BYTES: usize = 256 << 10;
/// Records read at which a page ends.
const PAGE_RECORDS: usize = 2048;
/// Key behind all records.
const END_KEY: &[u8] = &[keys::RESOURCE + 1];

/// Snapshots that are being read.
#[derive(Default)]
pub(crate) struct Snapshots {
    open: Mutex<Vec<Arc<ActiveSnapshot>>>,
    /// Lock that the commit thread holds from the saving to the publishing of a group.
    publishing: RwLock<()>,
}

/// Guard of a publication; no snapshot starts a page while it exists.
#[must_use = "the group must be shown before it is dropped"]
pub(crate) struct PublishGuard<'s> {
    _pages_wait: Option<RwLockWriteGuard<'s, ()>>,
}

/// A snapshot, for the commit thread.
struct ActiveSnapshot {
    sequence: u64,
    state: Mutex<State>,
}

/// A record that is about to be overwritten or removed.
pub(crate) struct Overwrite {
    /// Key of the record.
    pub(crate) key: Vec<u8>,
    /// Sequence of the commit that wrote it.
    pub(crate) sequence: u64,
    /// Whether its replacement has the same sequence.
    pub(crate) rewrite: bool,
}

struct State {
    /// Key up to which all keys are done.
    cursor: Vec<u8>,
    saved: SavedRecords,
    /// Sequences of saved records that were rewritten.
    rewritten: HashSet<u64>,
    /// Reason why records can no longer be saved.
    lost: Option<String>,
}

/// Saved records, in a file when they are many. Those before `read` are delivered.
struct SavedRecords {
    file: SpooledTempFile,
    read: u64,
    end: u64,
}

impl Snapshots {
    /// Returns the number of open snapshots.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Starts a snapshot of the table's present state. Only for the commit thread, with no write in flight.
    pub(crate) fn begin(
        self: &Arc<Self>,
        table: Table,
        (head, id): (SnapshotHead, StoreId),
        dir: &Path,
    ) -> Result<SledSnapshot, StoreError> {
        let mut open = self.open.lock();
        if open.len() >= MAX_SNAPSHOTS {
            return Err(StoreError::TooManySnapshots { limit: MAX_SNAPSHOTS });
        }
        let active = Arc::new(ActiveSnapshot {
            sequence: head.sequence,
            state: Mutex::new(State {
                cursor: keys::event(head.first_event),
                saved: SavedRecords { file: tempfile::spooled_tempfile_in(SAVED_MEMORY_BYTES, dir), read: 0, end: 0 },
                rewritten: HashSet::new(),
                lost: None,
            }),
        });
        open.push(active.clone());
        let (resources, events) = (head.resources(), head.events());
        let reader = Reader { snapshots: self.clone(), active, table, page: Page::default(), resources, events };
        Ok(SledSnapshot { head, id, reader: Some(reader), ended: false })
    }

    /// Saves, for every snapshot, the records it still needs among those about to be overwritten or removed.
    pub(crate) fn save(&self, table: &Table, overwritten: impl FnOnce() -> Vec<Overwrite>) -> PublishGuard<'_> {
        // Without the list's lock: a reader that ends must not wait for this.
        let open = self.open.lock().clone();
        if open.is_empty() {
            return PublishGuard { _pages_wait: None };
        }
        let publishing = PublishGuard { _pages_wait: Some(self.publishing.write()) };
        let overwritten = overwritten();
        for active in open {
            let mut state = active.state.lock();
            for Overwrite { key, sequence, rewrite } in &overwritten {
                let rewritten = key.first() == Some(&keys::RESOURCE) && state.rewritten.contains(sequence);
                let needed = *sequence <= active.sequence && *key >= state.cursor && !rewritten;
                if !needed || state.lost.is_some() {
                    continue;
                }
                if let Err(error) = state.saved.keep(table, key) {
                    tracing::warn!(%error, "a snapshot of the store is lost; writes go on");
                    state.lost = Some(error.to_string());
                } else if *rewrite {
                    state.rewritten.insert(*sequence);
                }
            }
        }
        publishing
    }
}

/// Reason why a record could not be saved.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0} is missing")]
    Missing(String),
    #[error("a record could not be saved before its change: {0}")]
    Write(#[from] io::Error),
}

impl SavedRecords {
    /// Copies the table's record under `key`.
    fn keep(&mut self, table: &Table, key: &[u8]) -> Result<(), KeepError> {
        let value = table.get(key)?.ok_or_else(|| KeepError::Missing(keys::describe(key)))?;
        let record = whole(table, key, &value)?;
        let kind = match record.kind {
            RecordKind::Resource => b'r',
            RecordKind::Upsert => b'u',
            RecordKind::Delete => b'd',
        };
        let mut frame = vec![kind];
        frame.extend_from_slice(&record.sequence.to_be_bytes());
        frame.extend_from_slice(&(record.payload.len() as u64).to_be_bytes());
        frame.extend_from_slice(&record.payload);
        let write = |file: &mut SpooledTempFile| {
            file.seek(SeekFrom::Start(self.end))?;
            file.write_all(&frame)
        };
        write(&mut self.file)?;
        self.end += frame.len() as u64;
        Ok(())
    }

    /// Returns the next saved record before the offset `until`.
    fn take(&mut self, until: u64) -> io::Result<Option<Record>> {
        if self.read >= until {
            return Ok(None);
        }
        let mut head = [0; 17];
        self.file.seek(SeekFrom::Start(self.read))?;
        self.file.read_exact(&mut head)?;
        let [kind, sequence @ .., _, _, _, _, _, _, _, _] = head;
        let [.., a, b, c, d, e, f, g, h] = head;
        let kind = match kind {
            b'r' => RecordKind::Resource,
            b'u' => RecordKind::Upsert,
            _ => RecordKind::Delete,
        };
        let len = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let mut payload = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        self.file.read_exact(&mut payload)?;
        self.read += 17 + len;
        if self.read == self.end {
            self.file.set_len(0)?;
            (self.read, self.end) = (0, 0);
        }
        Ok(Some(Record { kind, sequence: u64::from_be_bytes(sequence), payload }))
    }
}

/// Reads a record of the table while no other thread changes it.
fn whole(table: &Table, key: &[u8], value: &sled::IVec) -> Result<Record, StoreError> {
    let head = table.head(key, value)?;
    let payload = table.payload(key, value.clone())?;
    record(table, key, &head, payload)
}

/// Makes the record, after a check of its checksum.
fn record(table: &Table, key: &[u8], head: &Head, payload: Payload) -> Result<Record, StoreError> {
    let payload = match payload {
        Payload::Inline(value) => match Head::parse(&value) {
            Some((head, inline)) if head.fits(key, inline) => inline.to_vec(),
            _ => return Err(table.damaged(key, "the checksum does not match")),
        },
        // Checked when its chunks were joined.
        Payload::Whole(payload) => payload,
        Payload::Live(_) | Payload::Torn => return Err(table.damaged(key, "a chunk is missing or damaged")),
    };
    let kind = match head.kind {
        Kind::Resource => RecordKind::Resource,
        Kind::Upsert => RecordKind::Upsert,
        Kind::Delete => RecordKind::Delete,
    };
    Ok(Record { kind, sequence: head.seq, payload })
}

/// A record as the walk read it.
struct PageRecord {
    key: sled::IVec,
    head: Head,
    payload: Payload,
}

/// Page that the walk read last, delivered after the records saved before.
#[derive(Default)]
struct Page {
    seen: Vec<PageRecord>,
    /// End of the saved records that may belong to the page.
    saved_until: u64,
    /// Whether this is the last page.
    last: bool,
}

/// Reader of a snapshot, one page at a time, on a blocking thread.
struct Reader {
    snapshots: Arc<Snapshots>,
    active: Arc<ActiveSnapshot>,
    table: Table,
    page: Page,
    /// Number of resources still expected.
    resources: u64,
    events: u64,
}

impl Reader {
    fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError> {
        loop {
            let mut records = self.saved()?;
            if records.is_empty() {
                let seen = std::mem::take(&mut self.page.seen);
                for PageRecord { key, head, payload } in seen {
                    records.push(record(&self.table, &key, &head, payload)?);
                }
            }
            if !records.is_empty() {
                for record in &records {
                    self.count(record)?;
                }
                return Ok(Some(records));
            }
            if self.page.last {
                return self.complete().map(|()| None);
            }
            self.walk()?;
        }
    }

    /// Returns the records saved before the cursor moved behind the page, and removes them from the page.
    fn saved(&mut self) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut state = self.active.state.lock();
        if let Some(why) = &state.lost {
            return Err(StoreError::SnapshotLost(why.clone()));
        }
        while bytes < PAGE_BYTES {
            let until = self.page.saved_until;
            let next = state.saved.take(until).map_err(|e| StoreError::SnapshotLost(e.to_string()))?;
            let Some(record) = next else { break };
            if state.saved.end == 0 {
                // The file is empty and was reset.
                self.page.saved_until = 0;
            }
            bytes += record.payload.len();
            records.push(record);
        }
        drop(state);
        let is_resource = |kind| matches!(kind, RecordKind::Resource);
        let taken: HashSet<_> = records.iter().map(|r| (is_resource(r.kind), r.sequence)).collect();
        self.page.seen.retain(|seen| !taken.contains(&(seen.head.kind == Kind::Resource, seen.head.seq)));
        Ok(records)
    }

    /// Reads the next page and moves the cursor behind it.
    fn walk(&mut self) -> Result<(), StoreError> {
        // Waits until all saved records are published; later ones are compared with the page.
        drop(self.snapshots.publishing.read());
        let mut cursor = self.active.state.lock().cursor.clone();
        let end_of_events = keys::event(self.active.sequence.saturating_add(1));
        let mut seen = Vec::new();
        let mut bytes = 0;
        let mut left = PAGE_RECORDS;
        let in_events = cursor.first() == Some(&keys::EVENT);
        let end = if in_events { end_of_events } else { END_KEY.to_vec() };
        let mut ended = true;
        if cursor < end {
            for item in self.table.range(cursor.clone()..end.clone()) {
                let (key, value) = item?;
                cursor.clear();
                cursor.extend_from_slice(&key);
                // The first key after this one.
                cursor.push(0);
                let head = self.table.head(&key, &value)?;
                if head.seq <= self.active.sequence {
                    let payload = self.table.payload(&key, value)?;
                    bytes += head.len as usize;
                    seen.push(PageRecord { key, head, payload });
                }
                left -= 1;
                if left == 0 || bytes >= PAGE_BYTES {
                    ended = false;
                    break;
                }
            }
        }
        let mut last = false;
        if ended {
            last = !in_events;
            cursor = if in_events { vec![keys::RESOURCE] } else { END_KEY.to_vec() };
        }
        let mut state = self.active.state.lock();
        state.cursor = cursor;
        seen.retain(|seen| !state.rewritten.contains(&seen.head.seq) || seen.head.kind != Kind::Resource);
        self.page = Page { seen, saved_until: state.saved.end, last };
        Ok(())
    }

    fn count(&mut self, record: &Record) -> Result<(), StoreError> {
        let left = match record.kind {
            RecordKind::Resource => &mut self.resources,
            RecordKind::Upsert | RecordKind::Delete => &mut self.events,
        };
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => return Err(self.miscounted()),
        }
        Ok(())
    }

    /// Compares the records read with the expected number; a difference is damage.
    fn complete(&self) -> Result<(), StoreError> {
        if self.resources == 0 && self.events == 0 { Ok(()) } else { Err(self.miscounted()) }
    }

    fn miscounted(&self) -> StoreError {
        self.table.damaged(keys::META, "its counts differ from the records read")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.snapshots.open.lock().retain(|active| !Arc::ptr_eq(active, &self.active));
    }
}

/// A snapshot of a [`SledBackend`](crate::SledBackend).
pub(crate) struct SledSnapshot {
    head: SnapshotHead,
    id: StoreId,
    /// Reader; `None` after the end, after an error, and after a cancelled call.
    reader: Option<Reader>,
    ended: bool,
}

#[async_trait]
impl Snapshot for SledSnapshot {
    fn head(&self) -> &SnapshotHead {
        &self.head
    }

    fn store_id(&self) -> Option<StoreId> {
        Some(self.id)
    }

    async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError> {
        let Some(mut reader) = self.reader.take() else {
            // After an error or a cancelled call, the records so far must not pass for the whole.
            let lost = || StoreError::SnapshotLost("reading it failed or was cancelled".to_owned());
            return if self.ended { Ok(None) } else { Err(lost()) };
        };
        let page = tokio::task::spawn_blocking(move || {
            let page = reader.next();
            (reader, page)
        });
        match page.await {
            Ok((reader, Ok(Some(records)))) => {
                self.reader = Some(reader);
                Ok(Some(records))
            }
            Ok((_, end)) => {
                self.ended = end.is_ok();
                end
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(_) => Err(StoreError::Closed),
        }
    }
}
