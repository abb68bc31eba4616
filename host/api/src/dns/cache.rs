//! Answers about services that were made before, each with the resources from which it was made.
//!
//! # Contract
//! An answer is used only while every one of those resources has the version that was read, and while the same plugins
//! are loaded. The first change makes it useless: the next question finds the change and drops the answer.
//!
//! # Limits
//! The records take at most [`MAX_BYTES`], and one answer at most [`MAX_ANSWER_BYTES`]; the least used answers leave.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use mortise_resource::pb;
use mortise_service::registry::Registry;
use quick_cache::{Weighter, sync::Cache};

use super::{answer::Form, packed::Packed};

/// Memory of all answers, bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Largest answer, bytes: some 40,000 endpoints.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Number of answers for which the cache reserves places; small answers may be more. With so few, the cache does not
/// divide its memory into parts, each of which would be too small for a large answer.
const RESERVED_ANSWERS: usize = 16;

/// Memory of an answer besides its records, bytes. It bounds the number of answers: 16,384.
const ENTRY_BYTES: usize = 1_024;

/// Memory of one resource in the list of those that were read, bytes.
const READ_BYTES: usize = 256;

/// A question about a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) service: String,
    pub(super) form: Form,
}

/// A resource that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) id: pb::Id,
    /// The version of the resource; `None` if it was absent.
    pub(super) version: Option<String>,
}

/// A state of the server before some reads.
#[derive(Clone)]
pub(super) struct Moment {
    /// The registered types, by which stored data is read.
    pub(super) types: Arc<Registry>,
    /// The newest version in the store.
    pub(super) newest: u64,
}

/// The reads from which an answer was made.
pub(super) struct Basis {
    types: Weak<Registry>,
    /// Version of the store for which all of them are known to hold.
    as_of: AtomicU64,
    /// The resources; the first one is the ServiceEndpoints.
    pub(super) reads: Vec<Seen>,
}

impl Basis {
    /// Makes a basis of reads after a moment.
    pub(super) fn new(moment: &Moment, reads: Vec<Seen>) -> Self {
        Self { types: Arc::downgrade(&moment.types), as_of: AtomicU64::new(moment.newest), reads }
    }

    /// Whether the types are those of the moment.
    pub(super) fn has_types_of(&self, moment: &Moment) -> bool {
        std::ptr::eq(self.types.as_ptr(), Arc::as_ptr(&moment.types))
    }

    /// Whether nothing has changed in the store before the moment.
    pub(super) fn holds_at(&self, moment: &Moment) -> bool {
        self.as_of.load(Ordering::Acquire) == moment.newest
    }

    /// Notes that all reads, made again after the moment, have the same versions.
    pub(super) fn confirm(&self, moment: &Moment) {
        self.as_of.fetch_max(moment.newest, Ordering::AcqRel);
    }
}

/// The records of an answer, and their basis.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) records: Arc<Packed>,
    pub(super) basis: Arc<Basis>,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Known> for Bytes {
    fn weight(&self, _: &Key, known: &Known) -> u64 {
        (known.records.bytes() + ENTRY_BYTES + known.basis.reads.len() * READ_BYTES) as u64
    }
}

/// The known answers.
pub(super) struct Answers(Cache<Key, Known, Bytes>);

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("bytes", &self.0.weight()).finish()
    }
}

impl Answers {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter(RESERVED_ANSWERS, MAX_BYTES, Bytes))
    }

    pub(super) fn get(&self, key: &Key) -> Option<Known> {
        self.0.get(key)
    }

    /// Keeps an answer, unless it is too large.
    pub(super) fn put(&self, key: Key, known: Known) {
        if known.records.bytes() <= MAX_ANSWER_BYTES {
            self.0.insert(key, known);
        }
    }

    /// Drops an answer that no longer holds.
    pub(super) fn remove(&self, key: &Key) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::{Name, RecordType};

    use super::*;
    use crate::dns::{answer::Question, name::Part, narrow::Narrowing};

    fn moment(newest: u64) -> Moment {
        Moment { types: Arc::new(Registry::builtin().unwrap()), newest }
    }

    fn key(service: usize) -> Key {
        let name = Name::from_ascii("web.").unwrap();
        let question = Question {
            name: name.clone(),
            record_type: RecordType::A,
            part: Part::Whole,
            narrowing: Narrowing::All,
            service: name,
        };
        Key { namespace: "default".into(), service: service.to_string(), form: question.form().unwrap() }
    }

    fn known(records: usize) -> Known {
        let mut packed = Packed::default();
        (0..records).for_each(|_| packed.push(RecordType::A, 1, &[10, 0, 0, 1]));
        Known { records: Arc::new(packed), basis: Arc::new(Basis::new(&moment(1), Vec::new())) }
    }

    #[test]
    fn answers_are_bounded_in_bytes_and_in_number() {
        let answers = Answers::new();
        let small = known(1);
        for service in 0..20_000 {
            answers.put(key(service), small.clone());
        }
        assert!(answers.0.weight() <= MAX_BYTES && answers.0.len() < 20_000, "{answers:?}");
        for service in 0..100 {
            answers.put(key(service), known(50_000));
        }
        assert!(answers.0.weight() <= MAX_BYTES && answers.get(&key(99)).is_some(), "{answers:?}");
        answers.put(key(100), known(MAX_ANSWER_BYTES / 20 + 1));
        assert!(answers.get(&key(100)).is_none(), "one answer does not displace all others");
        answers.remove(&key(99));
        assert!(answers.get(&key(99)).is_none());
    }

    #[test]
    fn a_basis_holds_until_the_store_or_the_plugins_change() {
        let (begun, mut later) = (moment(7), moment(8));
        let basis = Basis::new(&begun, Vec::new());
        assert!(basis.holds_at(&begun) && basis.has_types_of(&begun));
        assert!(!basis.holds_at(&later) && !basis.has_types_of(&later));
        basis.confirm(&later);
        assert!(basis.holds_at(&later) && !basis.holds_at(&begun));
        later.types = begun.types;
        assert!(basis.has_types_of(&later));
    }
}
