//! The messages in sled's data file, for the salvage of a damaged store.
//!
//! Sled reads no page with a wrong bit, and opens no tree when a page is wrong that it needs first. Our records have
//! checksums of their own, over key and value. So, in a copy of the file, a damaged message gets the checksum that
//! matches its present content, if the damage is in records: then one wrong bit costs one record, not a page of them,
//! or all. Sled has no option to read past a wrong checksum.
//!
//! # Gain
//! Neither the log, which is empty after a close, nor the history, which is bounded, nor an opening without sled's list
//! of pages gives these records back. Of 56 single wrong bits in a store of 1,000 resources with a tenth of its
//! history, 2 cost more than one resource (107 at most); without this module 17 did (180 at most). Of 150 files with
//! damage of several kinds, salvage got something out of 117; without this module out of 103
//! (`losses_by_one_wrong_bit_are_small_and_listed`, `damaged_files_get_a_verdict`).
//!
//! # Format, of sled 0.34
//! Segments of [`SEGMENT_BYTES`]: a header of 20 bytes, with the place in the log in bytes 4 to 11, then messages:
//! CRC-32 (4), kind (1), and as varints the length of the body, the number of the segment and the page; then the body.
//! The CRC covers the body, then the header. A body is a [`Node`] or a link, which sets or removes a record of a node.
//!
//! # Limits
//! A message is changed only if the next one begins where its length ends, so that no sound message is overwritten.
//! Sled walks endlessly over pages that do not belong together, so a node is accepted only if its neighbours agree with
//! its bounds and its next page, and inner nodes are never accepted. Messages that are not accepted get an unreadable
//! body; otherwise sled would drop the rest of the last segment, and not open if a page is missing for that reason.
//! Messages with a damaged length stay as they are, and so do those of a segment with a damaged header. Two passes over
//! the file; a segment and the bounds of all nodes are in memory.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
};

use crate::{StoreError, engine::tree::sled_file::SEGMENT_BYTES, error::io_fault};

/// Bytes before the messages of a segment.
const HEADER_BYTES: usize = 20;

/// Mask by which sled stores a place in the log (exclusive or).
const PLACE_MASK: u64 = 0x7FFF_FFFF_FFFF_FFFF;

/// Kinds of messages: from cancelled ones to the last kind of page. A message of another kind is not sound.
const KINDS: std::ops::RangeInclusive<u8> = 1..=11;

/// Kind of the last message of a segment.
const KIND_CAP: u8 = 2;
/// Kinds of nodes and links that are inline in the message.
const KIND_NODE: u8 = 8;
const KIND_LINK: u8 = 10;

/// Gives each damaged message of the data file a right checksum: of its present content if only records are damaged,
/// otherwise of a body that sled cannot read. Returns the number of messages.
pub(crate) fn repair_checksums(file: &Path) -> Result<usize, StoreError> {
    let opened = OpenOptions::new().read(true).write(true).open(file).map_err(io_fault(file, "open"))?;
    let mut bounds = Bounds::default();
    each_segment(&opened, file, |_, segment| {
        bounds.note(segment);
        Ok(())
    })?;
    let mut count = 0;
    each_segment(&opened, file, |base, segment| {
        for (offset, message) in damaged(segment) {
            let now = if bounds.accept(&message) { message.now.to_le_bytes().to_vec() } else { message.blank() };
            opened.write_all_at(&now, base + offset as u64).map_err(io_fault(file, "write"))?;
            count += 1;
        }
        Ok(())
    })?;
    Ok(count)
}

fn each_segment(
    opened: &File,
    file: &Path,
    mut look: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let bytes = opened.metadata().map_err(io_fault(file, "read metadata"))?.len();
    let (mut segment, mut base) = (vec![0; SEGMENT_BYTES], 0);
    while base < bytes {
        segment.truncate(usize::try_from(bytes - base).unwrap_or(SEGMENT_BYTES));
        opened.read_exact_at(&mut segment, base).map_err(io_fault(file, "read"))?;
        look(base, &segment)?;
        base += SEGMENT_BYTES as u64;
    }
    Ok(())
}

/// Returns the damaged nodes and links of a segment, with the offsets of their messages.
fn damaged(segment: &[u8]) -> Vec<(usize, Message<'_>)> {
    let mut found = Vec::new();
    let Some(number) = number_of(segment) else { return found };
    let read = |from: usize| Message::read(segment.get(from..)?, number);
    let mut from = HEADER_BYTES;
    while let Some((begin, message)) = next_sound(segment, number, from) {
        let skipped = read(from).filter(|_| begin > from);
        let is_one =
            |message: &Message<'_>| from + message.bytes == begin && [KIND_NODE, KIND_LINK].contains(&message.kind);
        found.extend(skipped.filter(is_one).map(|damaged| (from, damaged)));
        if message.kind == KIND_CAP {
            break;
        }
        from = begin + message.bytes;
    }
    found
}

/// Returns the first sound message from an offset on, and its offset.
fn next_sound(segment: &[u8], number: u64, from: usize) -> Option<(usize, Message<'_>)> {
    let found = |from: usize| Some((from, Message::read(segment.get(from..)?, number).filter(Message::is_sound)?));
    (from..segment.len()).find_map(found)
}

/// Bounds of the sound nodes.
#[derive(Default)]
struct Bounds {
    /// Pages with their lower bound.
    begins: HashSet<(u64, Vec<u8>)>,
    /// Pages with the upper bound of the page before them.
    ends: HashSet<(u64, Vec<u8>)>,
}

impl Bounds {
    /// Adds the nodes of a segment.
    fn note(&mut self, segment: &[u8]) {
        let Some(number) = number_of(segment) else { return };
        let mut from = HEADER_BYTES;
        while let Some((begin, message)) =
            next_sound(segment, number, from).filter(|(_, message)| message.kind != KIND_CAP)
        {
            from = begin + message.bytes;
            if let Some((node, _)) = Node::read(message.body).filter(|_| message.kind == KIND_NODE) {
                self.begins.insert((message.page, node.begin.to_vec()));
                self.ends.insert((node.next, node.end.to_vec()));
            }
        }
    }

    /// Whether the damage of a message can only be in its records.
    fn accept(&self, message: &Message<'_>) -> bool {
        match message.kind {
            KIND_LINK => is_record_link(message.body),
            KIND_NODE => Node::read(message.body).is_some_and(|(node, rest)| {
                let begins = node.begin.is_empty() || self.ends.contains(&(message.page, node.begin.to_vec()));
                let ends = match node.end {
                    [] => node.next == 0,
                    end => self.begins.contains(&(node.next, end.to_vec())),
                };
                begins && ends && node.has_only_records(rest)
            }),
            _ => false,
        }
    }
}

/// Start of a node: the next page (varint), the page that it merges in (varint, 0 for none), whether it is being merged
/// (1), the length of the keys' shared prefix (1), and the bounds.
struct Node<'m> {
    next: u64,
    is_merging: bool,
    shared: usize,
    begin: &'m [u8],
    end: &'m [u8],
}

impl<'m> Node<'m> {
    /// Reads a node; returns it and the bytes behind its bounds.
    fn read(body: &'m [u8]) -> Option<(Self, &'m [u8])> {
        let (next, rest) = varint(body)?;
        let (child, rest) = varint(rest)?;
        let ([merging, shared], rest) = rest.split_first_chunk()?;
        let (begin, rest) = bytes(rest)?;
        let (end, rest) = bytes(rest)?;
        let (is_merging, shared) = ((child, *merging) != (0, 0), usize::from(*shared));
        Some((Self { next, is_merging, shared, begin, end }, rest))
    }

    /// Whether the rest has only records, in the order of their keys and within the bounds: a zero byte, their number
    /// (varint), the keys, the values.
    fn has_only_records(&self, rest: &[u8]) -> bool {
        let in_order = || {
            let ([0], rest) = rest.split_first_chunk()? else { return None };
            let (count, mut rest) = varint(rest)?;
            let mut last: Option<Vec<u8>> = None;
            for _ in 0..count {
                let (key, behind) = bytes(rest)?;
                let key = [self.begin.get(..self.shared)?, key].concat();
                let is_behind = last.is_none_or(|last| last < key) && self.begin <= &*key;
                if !is_behind || !(self.end.is_empty() || *key < *self.end) {
                    return None;
                }
                (last, rest) = (Some(key), behind);
            }
            for _ in 0..count {
                rest = bytes(rest)?.1;
            }
            rest.is_empty().then_some(())
        };
        !self.is_merging && in_order().is_some()
    }
}

/// Whether a link sets a record (0, key, value) or removes one (1, key).
fn is_record_link(body: &[u8]) -> bool {
    let rest = match body.split_first() {
        Some((0, rest)) => bytes(rest).and_then(|(_key, rest)| bytes(rest)),
        Some((1, rest)) => bytes(rest),
        _ => None,
    };
    rest.is_some_and(|(_, rest)| rest.is_empty())
}

/// Returns the number of a segment, which its messages repeat.
fn number_of(segment: &[u8]) -> Option<u64> {
    let place = segment.get(4..12).and_then(|place| place.try_into().ok()).map(u64::from_le_bytes)?;
    Some((place ^ PLACE_MASK) / SEGMENT_BYTES as u64)
}

/// A message as it is stored.
struct Message<'s> {
    kind: u8,
    page: u64,
    /// Bytes of the whole message.
    bytes: usize,
    /// Bytes between the checksum and the body.
    header: &'s [u8],
    body: &'s [u8],
    /// Stored checksum.
    stored: u32,
    /// Checksum of the present content.
    now: u32,
}

impl<'s> Message<'s> {
    /// Reads the message at the start of the bytes, if it can be one of this segment.
    fn read(bytes: &'s [u8], number: u64) -> Option<Self> {
        let (stored, rest) = bytes.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first()?;
        if !KINDS.contains(kind) {
            return None;
        }
        let (length, rest) = varint(rest)?;
        let (full_length, rest) = varint(rest)?;
        let (page, rest) = varint(rest)?;
        if full_length != number {
            return None;
        }
        let body = rest.get(..usize::try_from(length).ok()?)?;
        let header = bytes.get(4..bytes.len() - rest.len())?;
        let (stored, now) = (u32::from_le_bytes(*stored), checksum(header, body));
        Some(Self { kind: *kind, page, bytes: 4 + header.len() + body.len(), header, body, stored, now })
    }

    fn is_sound(&self) -> bool {
        self.stored == self.now
    }

    /// Returns the message with a body that is neither node nor link: its lengths are larger than any file.
    fn blank(&self) -> Vec<u8> {
        let body = vec![0xFF; self.body.len()];
        [&checksum(self.header, &body).to_le_bytes(), self.header, &body].concat()
    }
}

/// Computes sled's checksum of a message.
fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(body);
    hasher.update(header);
    !hasher.finalize()
}

/// Reads a number; returns it and the rest.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    match *first {
        first @ 0..=240 => Some((first.into(), rest)),
        first @ 241..=248 => {
            let (second, rest) = rest.split_first()?;
            Some((240 + 256 * u64::from(first - 241) + u64::from(*second), rest))
        }
        249 => {
            let ([second, third], rest) = rest.split_first_chunk()?;
            Some((2288 + 256 * u64::from(*second) + u64::from(*third), rest))
        }
        first @ 250.. => {
            let (number, rest) = rest.split_at_checked(usize::from(first - 247))?;
            let number = number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            Some((number, rest))
        }
    }
}

/// Reads bytes with their length before them; returns them and the rest.
fn bytes(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = varint(from)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Returns offset and body range of larger messages in a data file.
#[cfg(test)]
pub(crate) fn large_messages(file: &[u8]) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    for (n, segment) in file.chunks(SEGMENT_BYTES).enumerate() {
        let Some(number) = number_of(segment) else { continue };
        let mut from = HEADER_BYTES;
        while let Some(message) = segment.get(from..).and_then(|bytes| Message::read(bytes, number)) {
            let end = from + message.bytes;
            if message.body.len() > 200 {
                let base = n * SEGMENT_BYTES;
                found.push((base + from, base + end - message.body.len()..base + end));
            }
            from = end;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_that_sled_writes_and_one_with_a_wrong_bit_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let open = || crate::engine::tree::sled_file::open_sled(dir.path(), dir.path(), 1 << 20).unwrap();
        let db = open();
        for n in 0..3_000_u32 {
            db.insert(n.to_be_bytes(), vec![n as u8; 100]).unwrap();
        }
        db.flush().unwrap();
        drop(db);
        let file = dir.path().join("db");
        assert_eq!(repair_checksums(&file).unwrap(), 0, "all are sound");
        let whole = std::fs::read(&file).unwrap();
        let found = large_messages(&whole);
        assert!(found.len() > 10, "{} pages", found.len());
        let (begin, body) = found[found.len() / 2].clone();
        let (node, rest) = Node::read(&whole[body.clone()]).unwrap();
        assert!(!node.begin.is_empty() && !node.end.is_empty() && node.has_only_records(rest));
        let behind = body.end - rest.len();
        enum Outcome {
            Accepted,
            Blank,
            Left,
        }
        use Outcome::{Accepted, Blank, Left};
        let damages = [
            // A record, and the checksum.
            (body.end - 1, Accepted),
            (begin, Accepted),
            // The length, the next page, the bounds, and the number of keys.
            (begin + 5, Left),
            (body.start, Blank),
            (behind - 1, Blank),
            (behind - 1 - node.end.len() - 1, Blank),
            (behind + 1, Blank),
            // The order of the keys.
            (behind + 2 + usize::from(rest[2]), Blank),
        ];
        for (wrong, outcome) in damages {
            let mut damaged = whole.clone();
            damaged[wrong] ^= 1;
            std::fs::write(&file, &damaged).unwrap();
            let place = format!("byte {} of a message", wrong - begin);
            assert_eq!(repair_checksums(&file).unwrap(), usize::from(!matches!(outcome, Left)), "{place}");
            let now = std::fs::read(&file).unwrap();
            let checksum = begin..begin + 4;
            let mut expected = damaged;
            expected[checksum.clone()].copy_from_slice(&now[checksum]);
            if matches!(outcome, Blank) {
                expected[body.clone()].fill(0xFF);
            }
            assert!(now == expected, "{place}");
            assert_eq!(repair_checksums(&file).unwrap(), 0, "once: {place}");
        }
    }

    #[test]
    fn numbers_are_those_of_sled() {
        let numbers = [
            (vec![0], 0),
            (vec![240], 240),
            (vec![241, 0], 240),
            (vec![241, 1], 241),
            (vec![248, 255], 2_287),
            (vec![249, 0, 0], 2_288),
            (vec![249, 255, 255], 67_823),
            (vec![250, 0xF0, 0x08, 0x01], 67_824),
            (vec![255, 1, 0, 0, 0, 0, 0, 0, 0x80], (1 << 63) + 1),
        ];
        for (bytes, number) in numbers {
            assert_eq!(varint(&bytes), Some((number, &[][..])), "{bytes:?}");
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None, "{bytes:?}");
        }
    }
}
