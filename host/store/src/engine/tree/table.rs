//! The table, the engine's view of the stored keys: reads and writes values, checks and decodes records, and translates
//! sled's errors.
//!
//! The table is sled's tree with the recent edits of the write-ahead log in front of it
//! ([`memtable`](crate::engine::tree::memtable)). Callers do not see from which of them a value comes.

use std::{
    io,
    ops::RangeBounds,
    path::{Path, PathBuf},
    sync::Arc,
};

use mortise_resource::{EncodedResource, pb};
use prost::bytes::Bytes;
use sled::IVec;

use crate::StoreError;
use crate::engine::tree::{
    keys,
    memtable::Recent,
    merge::{Merge, Step},
    panics::catch_sled_panic,
    record::{Head, StoredResource},
    write_batch::WriteBatch,
};

/// Sled's tree, the recent edits in front of it, and the decoder of its records.
#[derive(Clone)]
pub(crate) struct Table {
    db: sled::Db,
    recent: Arc<Recent>,
    decoder: Decoder,
}

/// A decoder of records that checks them.
#[derive(Clone)]
pub(crate) struct Decoder {
    /// Path of sled's data file, for errors.
    file: Arc<Path>,
}

/// A record's payload, or its absence.
#[derive(Clone)]
pub(crate) enum Payload {
    /// Payload in the head.
    Inline(IVec),
    /// Payload joined from chunks, and checked.
    Whole(Vec<u8>),
    /// Resource of a change that was published since, not from the tree.
    Live(Box<EncodedResource>),
    /// Chunks are missing or of another record: a writer replaced or removed the record after its head was read, or the
    /// store is damaged.
    Torn,
}

impl Payload {
    /// Returns the bytes of an encoded payload, with its head; 0 for a shared or missing payload.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Inline(value) => value.len(),
            Self::Whole(bytes) => bytes.len(),
            Self::Live(_) | Self::Torn => 0,
        }
    }
}

impl Table {
    /// Makes a table over an open database with the data file `file`.
    pub(crate) fn new(db: sled::Db, file: PathBuf) -> Self {
        Self { db, recent: Arc::default(), decoder: Decoder { file: file.into() } }
    }

    /// Returns the value under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        // The maps first; see the memtable's documentation.
        match self.recent.layers().get(key) {
            Some(state) => Ok(state),
            None => self.catch_panic(|| self.db.get(key)),
        }
    }

    /// Returns keys and values in order. Each value was the key's at some moment since the call; a key with a value the
    /// whole time is not missed.
    pub(crate) fn range<R: RangeBounds<Vec<u8>>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = Result<(IVec, IVec), StoreError>> + Send + use<R> {
        self.steps(range).filter_map(|step| step.map(Step::entry).transpose())
    }

    /// [`Table::range`] in steps of bounded work.
    pub(crate) fn steps<R: RangeBounds<Vec<u8>>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = Result<Step, StoreError>> + Send + use<R> {
        let table = self.clone();
        let (from, to) = (range.start_bound().cloned(), range.end_bound().cloned());
        let layers = self.recent.layers();
        let mut walk = Some(Merge::new(&layers, &from, &to, self.db.range::<Vec<u8>, R>(range)));
        std::iter::from_fn(move || {
            let step = table.catch_panic(|| walk.as_mut().and_then(Iterator::next).transpose()).transpose();
            // Sled's state after a fault is unknown.
            if !matches!(step, Some(Ok(_))) {
                walk = None;
            }
            step
        })
    }

    /// Shows a batch, which the log has, to every reader at once. Only for the commit thread.
    pub(crate) fn apply(&self, batch: &WriteBatch) {
        self.recent.active().apply(batch);
    }

    /// Returns the recent edits in front of the tree.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Whether the tree itself has a key.
    pub(crate) fn tree_has(&self, key: &[u8]) -> Result<bool, StoreError> {
        self.catch_panic(|| self.db.contains_key(key))
    }

    /// Writes a batch to the tree itself and hands it to the operating system; a loss of power may still lose it. One
    /// thread at a time: see [`checkpoint`](crate::engine::tree::checkpoint).
    pub(crate) fn write_through(&self, batch: sled::Batch) -> Result<(), StoreError> {
        self.db.apply_batch(batch).map_err(|e| self.fault("write", e))?;
        self.db.flush().map(drop).map_err(|e| self.fault("flush", e))
    }

    /// Returns the bytes of the tree's files.
    pub(crate) fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.db.size_on_disk().map_err(|e| self.fault("look up the size", e))
    }

    /// Reads the head of a record.
    pub(crate) fn head(&self, key: &[u8], value: &[u8]) -> Result<Head, StoreError> {
        Head::parse(value).map(|(head, _)| head).ok_or_else(|| self.damaged(key, "its head is malformed"))
    }

    /// Reads the payload of a record, after its head.
    pub(crate) fn payload(&self, key: &[u8], value: IVec) -> Result<Payload, StoreError> {
        let head = self.head(key, &value)?;
        if head.chunks() == 0 {
            return Ok(Payload::Inline(value));
        }
        let mut payload = Vec::with_capacity(head.len as usize);
        for index in 0..head.chunks() {
            match self.get(&keys::chunk(head.seq, head.kind.space(), index))? {
                Some(chunk) => payload.extend_from_slice(&chunk),
                None => return Ok(Payload::Torn),
            }
        }
        Ok(if head.fits(key, &payload) { Payload::Whole(payload) } else { Payload::Torn })
    }

    /// Reads a record for the commit thread; no other thread changes it meanwhile.
    pub(crate) fn load(&self, key: &[u8]) -> Result<Option<StoredResource>, StoreError> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        let head = self.head(key, &value)?;
        let payload = self.payload(key, value)?;
        Ok(Some(StoredResource { resource: self.decoder.parse(key, payload)?, seq: head.seq, len: head.len }))
    }

    /// Makes an error that names the file and the record.
    pub(crate) fn damaged(&self, key: &[u8], what: &str) -> StoreError {
        self.decoder.damaged(key, what)
    }

    /// Returns the decoder, which does not keep the database open.
    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Makes an error of the file system.
    pub(crate) fn io(&self, action: &'static str, source: std::io::Error) -> StoreError {
        StoreError::Io { path: self.decoder.file.to_path_buf(), action, source }
    }

    /// Reads from sled, which panics on some damaged pages.
    fn catch_panic<T>(&self, read: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        catch_sled_panic(&self.decoder.file, || read().map_err(|error| self.fault("read", error)))
    }

    fn fault(&self, action: &'static str, error: sled::Error) -> StoreError {
        fault(&self.decoder.file, action, error)
    }
}

impl Decoder {
    /// Checks the checksum of a payload and returns its resource.
    pub(crate) fn parse(&self, key: &[u8], payload: Payload) -> Result<EncodedResource, StoreError> {
        let bytes = match payload {
            Payload::Live(resource) => return Ok(*resource),
            Payload::Whole(bytes) => bytes.into(),
            payload => Bytes::copy_from_slice(self.checked(key, &payload)?),
        };
        EncodedResource::parse(bytes).map_err(|fault| self.damaged(key, &fault.to_string()))
    }

    /// Checks the checksum of a payload and returns its encoded resource.
    pub(crate) fn checked<'p>(&self, key: &[u8], payload: &'p Payload) -> Result<&'p [u8], StoreError> {
        match payload {
            Payload::Inline(value) => match Head::parse(value) {
                Some((head, inline)) if head.fits(key, inline) => Ok(inline),
                _ => Err(self.damaged(key, "the checksum does not match")),
            },
            // Checked when its chunks were joined.
            Payload::Whole(bytes) => Ok(bytes),
            Payload::Live(resource) => Ok(resource.bytes()),
            Payload::Torn => Err(self.damaged(key, "a chunk is missing or damaged")),
        }
    }

    /// Decodes the whole resource, after the checks of [`Decoder::parse`].
    pub(crate) fn decode(&self, key: &[u8], payload: Payload) -> Result<pb::Resource, StoreError> {
        self.parse(key, payload)?.decode().map_err(|fault| self.damaged(key, &fault.to_string()))
    }

    /// Makes an error that names the file and the record.
    pub(crate) fn damaged(&self, key: &[u8], what: &str) -> StoreError {
        StoreError::Corrupt { path: self.file.to_path_buf(), what: format!("{}: {what}", keys::describe(key)) }
    }
}

/// Returns the system's error behind one of sled's. Sled remembers an error of its file as the text of `{:?}`.
fn with_code(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.strip_prefix("Os { code: ").and_then(|rest| rest.split(',').next()?.parse().ok());
    code.map_or(error, io::Error::from_raw_os_error)
}

/// Translates an error of sled; `file` is its data file.
pub(crate) fn fault(file: &Path, action: &'static str, error: sled::Error) -> StoreError {
    let path = file.to_path_buf();
    match error {
        sled::Error::Io(source) => StoreError::Io { path, action, source: with_code(source) },
        sled::Error::Corruption { at: Some(offset), .. } => {
            StoreError::Corrupt { path, what: format!("a page cannot be read ({offset})") }
        }
        sled::Error::Corruption { at: None, .. } => {
            StoreError::Corrupt { path, what: "a page cannot be read".to_owned() }
        }
        other => StoreError::Corrupt { path, what: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_sled_remembers_has_the_words_of_the_system() {
        let text = |error: sled::Error| fault(Path::new("db"), "flush", error).to_string();
        let error = sled::Error::Io(io::Error::from_raw_os_error(5));
        assert_eq!(text(error.clone()), "db: flush: Input/output error (os error 5)");
        assert_eq!(text(error), "db: flush: Input/output error (os error 5)");
        assert_eq!(text(sled::Error::Io(io::Error::other("other"))), "db: flush: other");
    }
}
