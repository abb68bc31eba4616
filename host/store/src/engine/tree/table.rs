//! The table, as the rest of the engine uses it: values in and out, records checked and decoded, sled's errors as ours.
//!
//! It is sled's tree and, in front of it, what the write-ahead log has that the tree has not
//! ([`memtable`](crate::engine::tree::memtable)). Nobody above needs to know which of them a value comes from.

use std::{
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
    merge::Merge,
    panics::contained_read,
    record::{Head, StoredResource},
    write_batch::WriteBatch,
};

/// Sled's one tree, what stands in front of it, and where it is.
#[derive(Clone)]
pub(crate) struct Table {
    db: sled::Db,
    recent: Arc<Recent>,
    decoder: Decoder,
}

/// Checks records and finds the resources in them.
#[derive(Clone)]
pub(crate) struct Decoder {
    /// Sled's data file, which errors name.
    file: Arc<Path>,
}

/// A record's payload, or what became of it.
pub(crate) enum Payload {
    /// Stands in the head.
    Inline(IVec),
    /// Put together from chunks, and checked.
    Whole(Vec<u8>),
    /// Not from the tree but from a change that was published since.
    Live(EncodedResource),
    /// Chunks are missing or of another record: a writer replaced or removed the record after its head was read, or the
    /// store is damaged.
    Torn,
}

impl Payload {
    /// Bytes of an encoded payload, with its head; 0 for one that is shared with others or is not there.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Inline(value) => value.len(),
            Self::Whole(bytes) => bytes.len(),
            Self::Live(_) | Self::Torn => 0,
        }
    }
}

impl Table {
    /// Over an open database whose data file is `file`.
    pub(crate) fn new(db: sled::Db, file: PathBuf) -> Self {
        Self { db, recent: Arc::default(), decoder: Decoder { file: file.into() } }
    }

    /// The value under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        // The maps first: see there.
        match self.recent.layers().get(key) {
            Some(state) => Ok(state),
            None => self.contained(|| self.db.get(key)),
        }
    }

    /// Keys and values in order. Each value is one that the key had at some moment since the call; a key that had one
    /// all the time is not missed.
    pub(crate) fn range<R: RangeBounds<Vec<u8>>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = Result<(IVec, IVec), StoreError>> + Send + use<R> {
        self.steps(range).filter_map(Result::transpose)
    }

    /// As [`Table::range`], in steps whose work is bounded: one that comes upon removed keys only is `None`.
    pub(crate) fn steps<R: RangeBounds<Vec<u8>>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = Result<Option<(IVec, IVec)>, StoreError>> + Send + use<R> {
        let table = self.clone();
        let (from, to) = (range.start_bound().cloned(), range.end_bound().cloned());
        let layers = self.recent.layers();
        let mut walk = Some(Merge::new(&layers, &from, &to, self.db.range::<Vec<u8>, R>(range)));
        std::iter::from_fn(move || {
            let step = table.contained(|| walk.as_mut().and_then(Iterator::next).transpose()).transpose();
            // What sled is in after a fault is not known.
            if !matches!(step, Some(Ok(_))) {
                walk = None;
            }
            step
        })
    }

    /// Shows a batch, which the log has, to every reader at once. For the commit thread only.
    pub(crate) fn apply(&self, batch: &WriteBatch) {
        self.recent.active().apply(batch);
    }

    /// What stands in front of the tree.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Whether the tree itself has a key.
    pub(crate) fn tree_has(&self, key: &[u8]) -> Result<bool, StoreError> {
        self.contained(|| self.db.contains_key(key))
    }

    /// Writes a batch to the tree itself and hands it to the operating system, which may still lose it with the power.
    /// One thread at a time: see [`checkpoint`](crate::engine::commit::checkpoint).
    pub(crate) fn write_through(&self, batch: sled::Batch) -> Result<(), StoreError> {
        self.db.apply_batch(batch).map_err(|e| self.fault("write", e))?;
        self.db.flush().map(drop).map_err(|e| self.fault("flush", e))
    }

    /// Bytes of the tree's files.
    pub(crate) fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.db.size_on_disk().map_err(|e| self.fault("look up the size", e))
    }

    /// The head of a record.
    pub(crate) fn head(&self, key: &[u8], value: &[u8]) -> Result<Head, StoreError> {
        Head::parse(value).map(|(head, _)| head).ok_or_else(|| self.damaged(key, "its head is not one"))
    }

    /// The payload of a record whose head was just read.
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

    /// A record as the writer sees it: nobody else changes it meanwhile.
    pub(crate) fn load(&self, key: &[u8]) -> Result<Option<StoredResource>, StoreError> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        let head = self.head(key, &value)?;
        let payload = self.payload(key, value)?;
        Ok(Some(StoredResource { resource: self.decoder.parse(key, payload)?, seq: head.seq, len: head.len }))
    }

    /// An error that names the file and the record.
    pub(crate) fn damaged(&self, key: &[u8], what: &str) -> StoreError {
        self.decoder.damaged(key, what)
    }

    /// What decodes records without keeping the database open.
    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// A refusal of the file system.
    pub(crate) fn io(&self, action: &'static str, source: std::io::Error) -> StoreError {
        StoreError::Io { path: self.decoder.file.to_path_buf(), action, source }
    }

    /// Reads from sled, which panics on some damaged pages.
    fn contained<T>(&self, read: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        contained_read(&self.decoder.file, || read().map_err(|error| self.fault("read", error)))
    }

    fn fault(&self, action: &'static str, error: sled::Error) -> StoreError {
        fault(&self.decoder.file, action, error)
    }
}

impl Decoder {
    /// The resource in a payload, its checksum compared.
    pub(crate) fn parse(&self, key: &[u8], payload: Payload) -> Result<EncodedResource, StoreError> {
        let bytes = match payload {
            Payload::Inline(value) => match Head::parse(&value) {
                Some((head, inline)) if head.fits(key, inline) => Bytes::copy_from_slice(inline),
                _ => return Err(self.damaged(key, "the checksum does not match")),
            },
            Payload::Whole(bytes) => bytes.into(),
            Payload::Live(resource) => return Ok(resource),
            Payload::Torn => return Err(self.damaged(key, "a chunk is missing or damaged")),
        };
        EncodedResource::parse(bytes).map_err(|fault| self.damaged(key, &fault.to_string()))
    }

    /// As [`Decoder::parse`], decoded whole: to look whether it can be.
    pub(crate) fn decode(&self, key: &[u8], payload: Payload) -> Result<pb::Resource, StoreError> {
        self.parse(key, payload)?.decode().map_err(|fault| self.damaged(key, &fault.to_string()))
    }

    /// An error that names the file and the record.
    pub(crate) fn damaged(&self, key: &[u8], what: &str) -> StoreError {
        StoreError::Corrupt { path: self.file.to_path_buf(), what: format!("{}: {what}", keys::describe(key)) }
    }
}

/// Sled's error in our terms; `file` is its data file.
pub(crate) fn fault(file: &Path, action: &'static str, error: sled::Error) -> StoreError {
    let path = file.to_path_buf();
    match error {
        sled::Error::Io(source) => StoreError::Io { path, action, source },
        sled::Error::Corruption { at: Some(at), .. } => {
            StoreError::Corrupt { path, what: format!("a page cannot be read ({at})") }
        }
        sled::Error::Corruption { at: None, .. } => {
            StoreError::Corrupt { path, what: "a page cannot be read".to_owned() }
        }
        other => StoreError::Corrupt { path, what: other.to_string() },
    }
}
