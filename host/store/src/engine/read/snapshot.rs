//! Snapshots: the whole store as of one commit, read at leisure while writers go on.
//!
//! A snapshot begins on the commit thread, between two groups: nothing is in flight, and what the table holds is the
//! state of the commit *S*. From then on a reader walks over the table, events first, then resources, and takes each
//! record that is of *S* or older. Before the commit thread shows that a record is overwritten or removed which the
//! reader has not passed yet, it *saves* it: copies it, as it is stored, to where the reader will find it.
//!
//! # Why each record of *S* comes exactly once
//! Under one lock stand the reader's *cursor* (all keys before it are done) and what was saved. A key at or behind the
//! cursor whose record is of *S* or older is saved before the table shows the change. The reader reads a page, without
//! the lock, and then, under the lock, moves the cursor behind the page. For a record of the page:
//! - it was saved: that was before the cursor moved, so it stands in what is saved up to now. The reader gives the
//!   saved one, and drops what it saw, which may be the new one, or half of each.
//! - it was not saved: nobody changed it before the cursor moved, so what the reader saw is it; nobody saves it later.
//!
//! A saved record may be given long before the reader comes to its page. By then the table must show what replaced it;
//! so no page is begun between the saving and the publishing of a group ([`PublishGuard`]).
//!
//! A record is known by its sequence, which is of *S* or older once only: what replaces it is newer. A rewrite is the
//! exception, as it keeps the sequence; the sequences of rewritten records that were saved are remembered.
//!
//! # Cost
//! Without a snapshot, one look at an empty list for each commit. With one, the commit thread reads each record that it
//! is about to overwrite, once for each snapshot, and appends it to a buffer that goes to a nameless file in the
//! store's directory when it is over [`IN_MEMORY`]. So memory is bounded, and the disk space is at most what the store
//! held at *S*, however slowly the snapshot is read; it is given back at the latest when the snapshot ends.

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
use crate::{Record, RecordKind, Snapshot, SnapshotHead, StoreError};

/// Snapshots that may be read at once.
const MAX_SNAPSHOTS: usize = 4;
/// Bytes of saved records that stay in memory.
const IN_MEMORY: usize = 4 << 20;
/// A page is cut at this many bytes of payloads,
const PAGE_BYTES: usize = 256 << 10;
/// or this many records that were looked at.
const PAGE_RECORDS: usize = 2048;
/// Behind all records.
const END: &[u8] = &[keys::RESOURCE + 1];

/// Snapshots that are being read.
#[derive(Default)]
pub(crate) struct Snapshots {
    open: Mutex<Vec<Arc<ActiveSnapshot>>>,
    /// Held by the commit thread from the saving to the publishing of a group.
    publishing: RwLock<()>,
}

/// While it is there, no snapshot begins a page.
#[must_use = "the group must be shown before it is dropped"]
pub(crate) struct PublishGuard<'s> {
    _pages_wait: Option<RwLockWriteGuard<'s, ()>>,
}

/// A snapshot, as the commit thread sees it.
struct ActiveSnapshot {
    sequence: u64,
    state: Mutex<State>,
}

/// A record that is about to be overwritten or removed.
pub(crate) struct Overwrite {
    /// Its key.
    pub(crate) key: Vec<u8>,
    /// The commit that wrote it.
    pub(crate) sequence: u64,
    /// Whether what replaces it has the same sequence.
    pub(crate) rewrite: bool,
}

struct State {
    /// Keys before it are done.
    cursor: Vec<u8>,
    saved: SavedRecords,
    /// Sequences of saved records that were about to be rewritten.
    rewritten: HashSet<u64>,
    /// Why nothing can be saved any more.
    lost: Option<String>,
}

/// Saved records, in a file when they are many. The beginning up to `read` is done with.
struct SavedRecords {
    file: SpooledTempFile,
    read: u64,
    end: u64,
}

impl Snapshots {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Begins one of the state that the table has now. Only the commit thread may call it, with no write in flight.
    pub(crate) fn begin(
        self: &Arc<Self>,
        table: Table,
        head: SnapshotHead,
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
                saved: SavedRecords { file: tempfile::spooled_tempfile_in(IN_MEMORY, dir), read: 0, end: 0 },
                rewritten: HashSet::new(),
                lost: None,
            }),
        });
        open.push(active.clone());
        let (resources, events) = (head.resources(), head.events());
        let reader = Reader { snapshots: self.clone(), active, table, page: Page::default(), resources, events };
        Ok(SledSnapshot { head, reader: Some(reader), ended: false })
    }

    /// Keeps for every snapshot what it still needs of the records that are about to be overwritten or removed.
    pub(crate) fn save(&self, table: &Table, overwritten: impl FnOnce() -> Vec<Overwrite>) -> PublishGuard<'_> {
        // Not under the lock of the list: a reader that ends must not wait for this.
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

/// Why a record that is about to change is not saved.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0} is missing")]
    Missing(String),
    #[error("keeping a record that is about to change: {0}")]
    Write(#[from] io::Error),
}

impl SavedRecords {
    /// Copies the record that the table has under `key`.
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

    /// The next saved record that stands before `until`.
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

/// A record of the table that nobody changes meanwhile.
fn whole(table: &Table, key: &[u8], value: &sled::IVec) -> Result<Record, StoreError> {
    let head = table.head(key, value)?;
    let payload = table.payload(key, value.clone())?;
    record(table, key, &head, payload)
}

/// The record, its checksum checked.
fn record(table: &Table, key: &[u8], head: &Head, payload: Payload) -> Result<Record, StoreError> {
    let payload = match payload {
        Payload::Inline(value) => match Head::parse(&value) {
            Some((head, inline)) if head.fits(key, inline) => inline.to_vec(),
            _ => return Err(table.damaged(key, "the checksum does not match")),
        },
        // Checked when it was put together.
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

/// A record as the walk saw it.
struct PageRecord {
    key: sled::IVec,
    head: Head,
    payload: Payload,
}

/// What the walk saw last, to be given once everything that was saved before is through.
#[derive(Default)]
struct Page {
    seen: Vec<PageRecord>,
    /// Where the saved records end that may be about it.
    saved_until: u64,
    /// Whether nothing follows.
    last: bool,
}

/// Reads a snapshot, one page at a time, on a thread that may block.
struct Reader {
    snapshots: Arc<Snapshots>,
    active: Arc<ActiveSnapshot>,
    table: Table,
    page: Page,
    /// Records that must still come.
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

    /// What was saved before the cursor moved behind the page. What the page has of it goes.
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
                // It is empty and begins anew.
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
        // What was saved so far is shown; what is saved from here on is compared with the page.
        drop(self.snapshots.publishing.read());
        let mut cursor = self.active.state.lock().cursor.clone();
        let end_of_events = keys::event(self.active.sequence.saturating_add(1));
        let mut seen = Vec::new();
        let mut bytes = 0;
        let mut left = PAGE_RECORDS;
        let in_events = cursor.first() == Some(&keys::EVENT);
        let end = if in_events { end_of_events } else { END.to_vec() };
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
            cursor = if in_events { vec![keys::RESOURCE] } else { END.to_vec() };
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

    /// What was counted beforehand and what was read must agree; everything else is damage.
    fn complete(&self) -> Result<(), StoreError> {
        if self.resources == 0 && self.events == 0 { Ok(()) } else { Err(self.miscounted()) }
    }

    fn miscounted(&self) -> StoreError {
        self.table.damaged(keys::META, "it counts other records than there are")
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
    /// Gone after the end and after an error, and with a call that was given up.
    reader: Option<Reader>,
    ended: bool,
}

#[async_trait]
impl Snapshot for SledSnapshot {
    fn head(&self) -> &SnapshotHead {
        &self.head
    }

    async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError> {
        let Some(mut reader) = self.reader.take() else {
            // Whoever asks on after an error, or after giving a call up, must not take what came for the whole.
            let lost = || StoreError::SnapshotLost("reading it failed, or was given up".to_owned());
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
            // The runtime is going down.
            Err(_) => Err(StoreError::Closed),
        }
    }
}
