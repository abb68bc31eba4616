//! The checkpoint position: how much of the write-ahead log the tree has. The only record that exists in the tree
//! alone. It includes the durable end of the log when it was written ([`LogEnd`]), so that a later loss of the log's
//! end is noticed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::StoreError;
use crate::engine::tree::{keys, record, table::Table};

/// The durable end of the log at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// Number of the next record.
    pub(crate) number: u64,
    /// Lengths of `wal.0` and `wal.1`, bytes; 0 if unknown.
    pub(crate) lengths: [u64; 2],
}

/// A position in the log up to which the tree has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointPosition {
    /// Newest generation of the log that the tree has in full; 0 before the first.
    pub(crate) generation: u64,
    /// Number of the first record that the tree lacks.
    pub(crate) number: u64,
    /// Random number of this store, in the head and the checksum of each record of its log.
    pub(crate) salt: u64,
}

impl CheckpointPosition {
    /// Makes the position for a store without a log yet.
    pub(crate) fn new() -> Self {
        // The standard library seeds its maps with a new random value for each call.
        Self { generation: 0, number: 0, salt: RandomState::new().build_hasher().finish() }
    }

    /// Reads the position in the tree; `None` in a store that never had a log.
    pub(crate) fn read(table: &Table) -> Result<Option<(Self, LogEnd)>, StoreError> {
        let Some(value) = table.get(keys::CHECKPOINT)? else { return Ok(None) };
        Self::decode(&value).map(Some).ok_or_else(|| table.damaged(keys::CHECKPOINT, "the checksum does not match"))
    }

    /// Encodes the position with the present end of the log.
    pub(crate) fn encode(self, log: LogEnd) -> Vec<u8> {
        let [even, odd] = log.lengths;
        let number = log.number.max(self.number);
        record::encode_numbers(keys::CHECKPOINT, [self.generation, self.number, self.salt, number, even, odd])
    }

    /// Decodes the stored form; `None` when it is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<(Self, LogEnd)> {
        let [generation, number, salt, durable, even, odd] = record::decode_numbers(keys::CHECKPOINT, value)?;
        Some((Self { generation, number, salt }, LogEnd { number: durable, lengths: [even, odd] }))
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckpointPosition, LogEnd};

    #[test]
    fn every_flipped_bit_of_a_mark_is_noticed() {
        let checkpoint = CheckpointPosition { generation: 7, number: 9, ..CheckpointPosition::new() };
        let end = LogEnd { number: 12, lengths: [4096, 8192] };
        let value = checkpoint.encode(end);
        assert_eq!(CheckpointPosition::decode(&value), Some((checkpoint, end)));
        for position in 0..value.len() * 8 {
            let mut broken = value.clone();
            broken[position / 8] ^= 1 << (position % 8);
            assert_eq!(CheckpointPosition::decode(&broken), None, "{position}");
        }
        assert_eq!(CheckpointPosition::decode(&value[1..]), None);
    }

    #[test]
    fn salts_differ() {
        assert_ne!(CheckpointPosition::new().salt, CheckpointPosition::new().salt);
    }
}
