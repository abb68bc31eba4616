//! The index of each answer: a number that is larger if and only if the answer is another one than before.
//!
//! # Contract
//! The index of an answer that is not known is the newest version of the store, from 1. It stays while the answer stays
//! the same, and grows with the answer. So it never falls for the same client, not even after a restart, and it changes
//! without need only after a restart or when the answer was forgotten.
//!
//! # Limits
//! The last answers are known by their hashes: [`MAX_ANSWERS`], some 100 bytes each; the least used ones leave.

use std::hash::{BuildHasher as _, RandomState};

use parking_lot::Mutex;
use quick_cache::unsync::Cache;

use super::question::Question;

/// Known answers.
const MAX_ANSWERS: usize = 16_384;

/// A known answer.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Hash of its text.
    digest: u64,
    index: u64,
    /// Version of the store at which it was read last.
    read_at: u64,
}

/// The known answers.
pub(super) struct Indexes {
    /// Strangers choose questions and names, so hashes are keyed.
    keys: RandomState,
    known: Mutex<Cache<u64, Known>>,
}

impl Default for Indexes {
    fn default() -> Self {
        Self { keys: RandomState::new(), known: Mutex::new(Cache::new(MAX_ANSWERS)) }
    }
}

impl Indexes {
    /// The index of an answer to a question of a caller, which was read after the store had the version `read_at`.
    pub(super) fn index(&self, question: &Question, caller: u64, text: &[u8], read_at: u64) -> u64 {
        let (key, digest) = (self.keys.hash_one((question, caller)), self.keys.hash_one(text));
        let mut cache = self.known.lock();
        let next = match cache.get(&key).copied() {
            None => Known { digest, index: read_at.max(1), read_at },
            Some(known) if known.digest == digest => Known { read_at: known.read_at.max(read_at), ..known },
            // Another request has read a newer state, and its answer has an index already.
            Some(known) if read_at < known.read_at => return read_at.min(known.index.saturating_sub(1)).max(1),
            Some(known) => Known { digest, index: read_at.max(known.index.saturating_add(1)), read_at },
        };
        cache.insert(key, next);
        next.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::consul::question::tests::about;

    #[test]
    fn an_index_changes_if_and_only_if_the_answer_does() {
        let indexes = Indexes::default();
        let (web, db) = (about("web"), about("db"));
        assert_eq!(indexes.index(&web, 1, b"a", 0), 1, "never 0");
        assert_eq!(indexes.index(&web, 1, b"a", 50), 1, "the same answer");
        assert_eq!(indexes.index(&web, 1, b"b", 60), 60);
        assert_eq!(indexes.index(&web, 1, b"a", 60), 61, "without a write, by another right, for example");
        assert_eq!(indexes.index(&db, 1, b"a", 70), 70, "another question");
        assert_eq!(indexes.index(&web, 2, b"a", 70), 70, "another caller");
        assert_eq!(indexes.index(&web, 1, b"a", 80), 61);
    }

    #[test]
    fn an_answer_that_was_read_earlier_changes_nothing() {
        let (indexes, web) = (Indexes::default(), about("web"));
        assert_eq!(indexes.index(&web, 1, b"b", 60), 60);
        assert_eq!(indexes.index(&web, 1, b"a", 55), 55);
        assert_eq!(indexes.index(&web, 1, b"a", 59), 59);
        assert_eq!(indexes.index(&web, 1, b"b", 61), 60);
    }

    #[test]
    fn known_answers_are_bounded() {
        let indexes = Indexes::default();
        for number in 0..3 * MAX_ANSWERS as u64 {
            indexes.index(&about("web"), number, b"a", number);
        }
        let known = indexes.known.lock().len();
        assert!(known <= MAX_ANSWERS, "{known}");
    }
}
