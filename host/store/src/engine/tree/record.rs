//! Records: the stored form of resources and events.
//!
//! A record is a head and, when its payload is large, chunks. The head is a value of at most 4 KiB:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version of this layout, 1 |
//! | 1 | `r` resource, `u` upsert event, `d` delete event |
//! | 8 | sequence of the commit that wrote it, big-endian |
//! | 4 | length of the payload, big-endian |
//! | 4 | CRC-32 of the key, the 14 bytes above and the payload, big-endian |
//! | … | the payload, an encoded `Resource`, when it is at most 4,078 bytes |
//!
//! A longer payload is split into chunks of 4,096 bytes under keys of their own, since sled would put a page with
//! larger values into a file that it never syncs. A chunk's key includes the sequence, so a reader that races with a
//! writer finds chunks missing; only a rewrite, which keeps the sequence, overwrites chunks, and the checksum detects
//! that.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use mortise_resource::EncodedResource;
use sled::IVec;

use crate::StoreError;
use crate::engine::tree::{keys, totals::Totals, write_batch::WriteBatch};

/// Largest value in the tree, bytes.
pub(crate) const MAX_VALUE_BYTES: usize = 4096;
/// Bytes of a head before its payload.
const HEADER_BYTES: usize = 18;
/// Largest payload in a head, bytes.
pub(crate) const MAX_INLINE_BYTES: usize = MAX_VALUE_BYTES - HEADER_BYTES;
/// Layout of heads and of records of three numbers.
const LAYOUT_1: u8 = 1;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stored resource.
    Resource,
    /// An event: the resource was created or replaced.
    Upsert,
    /// An event: the resource was deleted.
    Delete,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Resource => b'r',
            Self::Upsert => b'u',
            Self::Delete => b'd',
        }
    }

    /// Returns the space of such a record's chunks.
    pub(crate) const fn space(self) -> u8 {
        match self {
            Self::Resource => keys::RESOURCE,
            Self::Upsert | Self::Delete => keys::EVENT,
        }
    }
}

/// The head of a record, without the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Kind of the record.
    pub(crate) kind: Kind,
    /// Sequence of the commit that wrote it.
    pub(crate) seq: u64,
    /// Length of the payload, bytes.
    pub(crate) len: u32,
    crc: u32,
}

impl Head {
    /// Splits a value into head and inline payload, which is empty when there are chunks.
    pub(crate) fn parse(value: &[u8]) -> Option<(Self, &[u8])> {
        let (&[layout, kind], rest) = value.split_first_chunk::<2>()?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (crc, payload) = rest.split_first_chunk::<4>()?;
        let kind = match kind {
            b'r' => Kind::Resource,
            b'u' => Kind::Upsert,
            b'd' => Kind::Delete,
            _ => return None,
        };
        let head =
            Self { kind, seq: u64::from_be_bytes(*seq), len: u32::from_be_bytes(*len), crc: u32::from_be_bytes(*crc) };
        let inline = if head.chunks() == 0 { head.len as usize } else { 0 };
        (layout == LAYOUT_1 && payload.len() == inline).then_some((head, payload))
    }

    /// Returns the number of the payload's chunks; 0 when it is in the head.
    pub(crate) fn chunks(&self) -> u32 {
        chunk_count(self.len)
    }

    /// Whether `payload` was written under `key` with this head.
    pub(crate) fn fits(&self, key: &[u8], payload: &[u8]) -> bool {
        payload.len() == self.len as usize && crc(key, &prefix(self.kind, self.seq, self.len), payload) == self.crc
    }
}

/// Returns the number of chunks of a payload of `len` bytes.
pub(crate) fn chunk_count(len: u32) -> u32 {
    if len as usize <= MAX_INLINE_BYTES { 0 } else { len.div_ceil(MAX_VALUE_BYTES as u32) }
}

/// Adds a record to a batch: its head under `key`, and its chunks.
pub(crate) fn write(batch: &mut WriteBatch, key: &[u8], kind: Kind, seq: u64, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let prefix = prefix(kind, seq, len);
    // Events are written once; a rewrite overwrites a resource's chunks.
    let mut insert = |key: IVec, value: IVec| match kind {
        Kind::Resource => batch.insert(key, value),
        Kind::Upsert | Kind::Delete => batch.insert_first(key, value),
    };
    let mut head = Vec::with_capacity(HEADER_BYTES + MAX_INLINE_BYTES.min(payload.len()));
    head.extend_from_slice(&prefix);
    head.extend_from_slice(&crc(key, &prefix, payload).to_be_bytes());
    if chunk_count(len) == 0 {
        head.extend_from_slice(payload);
    } else {
        for (index, chunk) in (0..).zip(payload.chunks(MAX_VALUE_BYTES)) {
            insert(keys::chunk(seq, kind.space(), index).into(), chunk.into());
        }
    }
    insert(key.into(), head.into());
}

/// Adds the removal of a record's chunks to a batch; the caller removes the head.
pub(crate) fn remove_chunks(batch: &mut WriteBatch, space: u8, seq: u64, len: u32) {
    for index in 0..chunk_count(len) {
        batch.remove(keys::chunk(seq, space, index));
    }
}

fn prefix(kind: Kind, seq: u64, len: u32) -> [u8; 14] {
    let mut prefix = [0; 14];
    let (start, rest) = prefix.split_at_mut(2);
    start.copy_from_slice(&[LAYOUT_1, kind.byte()]);
    let (sequence, length) = rest.split_at_mut(8);
    sequence.copy_from_slice(&seq.to_be_bytes());
    length.copy_from_slice(&len.to_be_bytes());
    prefix
}

fn crc(key: &[u8], prefix: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(prefix);
    hasher.update(payload);
    hasher.finalize()
}

/// A resource with the metadata of its record.
#[derive(Debug, Clone)]
pub(crate) struct StoredResource {
    /// The resource.
    pub(crate) resource: EncodedResource,
    /// Sequence of the commit that wrote it, which is its version.
    pub(crate) seq: u64,
    /// Length of its record's payload, bytes. A restored record may have been encoded differently.
    pub(crate) len: u32,
}

impl StoredResource {
    /// Makes the stored form that the commit `seq` writes.
    pub(crate) fn new(resource: EncodedResource, seq: u64) -> Self {
        // The size limit is far below 4 GiB.
        let len = u32::try_from(resource.bytes().len()).unwrap_or(u32::MAX);
        Self { resource, seq, len }
    }

    /// Returns the keys of the resource in the indexes; `key` is its own key.
    pub(crate) fn index_entries(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        index_entries(&self.resource, key)
    }
}

/// Returns the keys of a resource in the indexes, each once; `key` is its own key.
pub(crate) fn index_entries(resource: &EncodedResource, key: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
    let owner = resource.decode_owner()?;
    let owner = owner.iter().map(|owner| keys::ownership(owner, key));
    // The last of duplicate labels counts.
    let labels: BTreeMap<_, _> = resource.labels().collect();
    let labels = labels.iter().map(|(label, value)| keys::label(key, label, value));
    let mut entries: Vec<_> = owner.chain(labels).collect::<Result<_, _>>()?;
    if resource.references_bytes() == 0 {
        return Ok(entries);
    }
    // Several fields may refer to one resource.
    let records = resource.references()?;
    let references = records.iter().map(|record| keys::reference(record, key));
    let references: BTreeSet<_> = references.collect::<Result<_, _>>()?;
    entries.extend(references);
    Ok(entries)
}

/// The counters, written with every batch: layout (1), then ten big-endian numbers of 8 bytes, then a CRC-32 of the key
/// and these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Last sequence in use; 0 before the first commit.
    pub(crate) last_seq: u64,
    /// Sequence of the oldest kept event; `last_seq + 1` without events.
    pub(crate) first_event: u64,
    /// Bytes of the kept events' payloads.
    pub(crate) event_bytes: u64,
    /// Number of skipped sequences between the first event and the last commit.
    pub(crate) skipped: u64,
    /// Highest sequence that a commit may have had; the next commit gets a higher one. Higher than `last_seq` after an
    /// unclean close, when the end of the log may be lost.
    pub(crate) highest: u64,
    /// Hashes of all resources and of the indexes.
    pub(crate) sums: Totals,
    /// Bytes of all resources.
    pub(crate) usage: u64,
}

impl Meta {
    /// The counters of an empty store.
    pub(crate) fn empty() -> Self {
        Self { last_seq: 0, first_event: 1, event_bytes: 0, skipped: 0, highest: 0, sums: Totals::default(), usage: 0 }
    }

    /// Returns the number of kept events.
    pub(crate) fn event_count(&self) -> u64 {
        let events = self.events();
        events.end.saturating_sub(events.start).saturating_sub(self.skipped)
    }

    /// Returns the range of the kept events' sequences, skipped ones included.
    pub(crate) fn events(&self) -> Range<u64> {
        self.first_event..self.last_seq.saturating_add(1)
    }

    /// Encodes the counters.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let [a, b, c, d] = self.sums.numbers();
        let Self { last_seq, first_event, event_bytes, skipped, highest, usage, .. } = *self;
        encode_numbers(keys::META, [last_seq, first_event, event_bytes, a, b, c, d, skipped, highest, usage])
    }

    /// Decodes the stored form; `None` when it is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let [last_seq, first_event, event_bytes, sums @ .., skipped, highest, usage] =
            decode_numbers::<10>(keys::META, value)?;
        Some(Self { last_seq, first_event, event_bytes, skipped, highest, sums: Totals::from_numbers(sums), usage })
    }
}

/// The value of a record that is numbers: layout (1), the numbers (8 each), CRC-32 of the key and these.
pub(crate) fn encode_numbers<const N: usize>(key: &[u8], numbers: [u64; N]) -> Vec<u8> {
    let mut value = vec![LAYOUT_1];
    for number in numbers {
        value.extend_from_slice(&number.to_be_bytes());
    }
    let crc = crc(key, &value, &[]);
    value.extend_from_slice(&crc.to_be_bytes());
    value
}

/// The numbers in such a value; `None` when it is damaged, or has another number of them.
pub(crate) fn decode_numbers<const N: usize>(key: &[u8], value: &[u8]) -> Option<[u64; N]> {
    let (rest, sum) = value.split_last_chunk::<4>()?;
    let (&found, mut bytes) = rest.split_first()?;
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (first, more) = bytes.split_first_chunk::<8>()?;
        (*number, bytes) = (u64::from_be_bytes(*first), more);
    }
    let whole = found == LAYOUT_1 && bytes.is_empty() && crc(key, rest, &[]) == u32::from_be_bytes(*sum);
    whole.then_some(numbers)
}

/// Decodes bytes as a record, as the tree's own records, and as numbers.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some((head, payload)) = Head::parse(bytes) {
        let _ = (head.chunks(), head.fits(b"key", payload));
    }
    let _ = Meta::decode(bytes);
    let _ = decode_numbers::<3>(b"key", bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_begin_where_the_head_is_full() {
        for (len, chunks) in [(0, 0), (4078, 0), (4079, 1), (4096, 1), (4097, 2), (1 << 20, 256)] {
            assert_eq!(chunk_count(len), chunks, "{len}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_meta_record_is_noticed() {
        let sums = Totals::from_numbers([1, 2, 3, 4]);
        let meta = Meta { last_seq: 9, first_event: 3, event_bytes: 1234, skipped: 2, highest: 12, sums, usage: 77 };
        let value = meta.encode();
        assert_eq!(Meta::decode(&value), Some(meta));
        for position in 0..value.len() * 8 {
            let mut broken = value.clone();
            broken[position / 8] ^= 1 << (position % 8);
            assert_eq!(Meta::decode(&broken), None, "{position}");
        }
        assert_eq!(Meta::decode(&value[1..]), None);
    }

    #[test]
    fn every_flipped_bit_of_a_head_is_noticed() {
        let (key, payload) = (b"rkey", b"payload");
        let prefix = prefix(Kind::Upsert, 5, 7);
        let value = [&prefix[..], &crc(key, &prefix, payload).to_be_bytes(), payload].concat();
        let good = |value: &[u8]| Head::parse(value).is_some_and(|(head, inline)| head.fits(key, inline));
        assert!(good(&value));
        assert!(!Head::parse(&value).unwrap().0.fits(b"rother", payload), "a record under another key");
        for position in 0..value.len() * 8 {
            let mut broken = value.clone();
            broken[position / 8] ^= 1 << (position % 8);
            assert!(!good(&broken), "{position}");
        }
    }
}
