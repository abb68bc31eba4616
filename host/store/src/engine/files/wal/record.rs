//! Records of the log as bytes.

use std::ops::RangeInclusive;

use sled::IVec;

use crate::engine::tree::{memtable::State, write_batch::WriteBatch};

/// Records begin at multiples of this, the smallest unit that disks write whole; and of the disk's own unit.
pub(super) const MIN_BLOCK_BYTES: usize = 512;
/// Units of disks, bytes: what the kernel writes at once is no smaller, and no disk has a larger one.
pub(super) const DISK_BLOCK_BYTES: RangeInclusive<u64> = 4096..=64 << 10;
/// Bytes of a record before its body.
pub(super) const HEADER_BYTES: usize = 28;

/// Appends a record to `out`, which is empty.
pub(super) fn encode(out: &mut Vec<u8>, salt: u64, block: usize, (generation, number): (u64, u64), batch: &WriteBatch) {
    out.extend_from_slice(&(generation ^ salt).to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    // Placeholders for length and checksum.
    out.extend_from_slice(&[0; 12]);
    // Keys are short, and values over 4 KiB are split into chunks.
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    for edit in batch.edits() {
        out.push(if edit.value.is_some() { b'+' } else { b'-' });
        out.extend_from_slice(&length(&edit.key));
        out.extend_from_slice(&edit.key);
        if let Some(value) = &edit.value {
            out.extend_from_slice(&length(value));
            out.extend_from_slice(value);
        }
    }
    let end = out.len();
    let len = (end.saturating_sub(HEADER_BYTES) as u64 | u64::from(block.trailing_zeros()) << 56).to_be_bytes();
    if let Some(place) = out.get_mut(16..24) {
        place.copy_from_slice(&len);
    }
    let sum = checksum(salt, out).to_be_bytes();
    if let Some(place) = out.get_mut(24..HEADER_BYTES) {
        place.copy_from_slice(&sum);
    }
    out.resize(end.next_multiple_of(block), 0);
}

/// Returns the checksum of a record without its padding.
fn checksum(salt: u64, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_be_bytes());
    hasher.update(record.get(..24).unwrap_or_default());
    hasher.update(record.get(HEADER_BYTES..).unwrap_or_default());
    hasher.finalize()
}

/// A record that was found whole.
pub(super) struct FoundRecord<'b> {
    pub(super) number: u64,
    pub(super) body: &'b [u8],
    /// Bytes it takes in the file.
    pub(super) size: usize,
}

/// The generation that a record which `bytes` begin with is of.
pub(super) fn generation(salt: u64, bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<8>().map(|masked| u64::from_be_bytes(*masked) ^ salt)
}

/// The record that `bytes` begin with, if that is one of the generation, and whole.
pub(super) fn parse(salt: u64, expected: u64, bytes: &[u8]) -> Option<FoundRecord<'_>> {
    // Before the checksum, which takes time: most of what is looked at is none.
    if generation(salt, bytes)? != expected {
        return None;
    }
    let (number, rest) = bytes.get(8..)?.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let [logarithm, len @ ..] = *len;
    let [a, b, c, d, e, f, g] = len;
    let block = 1_usize.checked_shl(logarithm.into()).filter(|block| DISK_BLOCK_BYTES.contains(&(*block as u64)))?;
    let end = HEADER_BYTES.checked_add(usize::try_from(u64::from_be_bytes([0, a, b, c, d, e, f, g])).ok()?)?;
    let record = bytes.get(..end)?;
    let whole = checksum(salt, record) == u32::from_be_bytes(*sum);
    let body = record.get(HEADER_BYTES..).unwrap_or_default();
    let size = end.checked_next_multiple_of(block)?;
    whole.then(|| FoundRecord { number: u64::from_be_bytes(*number), body, size })
}

/// Takes the first edit off a body.
pub(super) fn edit(body: &mut &[u8]) -> Option<(IVec, State)> {
    let (sign, rest) = body.split_first()?;
    let (key, rest) = counted(rest)?;
    let (state, rest) = match sign {
        b'+' => counted(rest).map(|(value, rest)| (Some(value), rest))?,
        b'-' => (None, rest),
        _ => return None,
    };
    *body = rest;
    Some((key, state))
}

/// Takes a length, and as many bytes, off the start.
fn counted(bytes: &[u8]) -> Option<(IVec, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (counted, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    Some((counted.into(), rest))
}
