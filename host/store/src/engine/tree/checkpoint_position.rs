//! The checkpoint position: how far the tree has what the write-ahead log has. The only record that stands in the tree
//! alone. With it stands what was durable in the log when it was written ([`LogEnd`]), so that a log which lost its end
//! since is noticed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::StoreError;
use crate::engine::tree::{keys, record, table::Table};

/// How far the log reached, durably, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The number of the record that comes next.
    pub(crate) number: u64,
    /// Lengths of its files, bytes; 0 where nothing is said.
    pub(crate) lengths: [u64; 2],
}

/// The checkpoint position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointPosition {
    /// The newest generation of which the tree has everything; 0 before the first.
    pub(crate) generation: u64,
    /// The number of the first record that it has not.
    pub(crate) number: u64,
    /// What the log's checksums begin with.
    pub(crate) salt: u64,
}

impl CheckpointPosition {
    /// Of a store that had no log yet.
    pub(crate) fn new() -> Self {
        // What the standard library seeds its maps with is random, and of each call another.
        Self { generation: 0, number: 0, salt: RandomState::new().build_hasher().finish() }
    }

    /// The checkpoint position in the tree, `None` in that of a store which never had a log.
    pub(crate) fn read(table: &Table) -> Result<Option<(Self, LogEnd)>, StoreError> {
        let Some(value) = table.get(keys::CHECKPOINT)? else { return Ok(None) };
        Self::decode(&value).map(Some).ok_or_else(|| table.damaged(keys::CHECKPOINT, "the checksum does not match"))
    }

    /// As it is stored, with the end of the log as of now.
    pub(crate) fn encode(self, log: LogEnd) -> Vec<u8> {
        let [even, odd] = log.lengths;
        let number = log.number.max(self.number);
        record::encode_numbers(keys::CHECKPOINT, [self.generation, self.number, self.salt, number, even, odd])
    }

    /// From the stored form; `None` when that is damaged.
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
