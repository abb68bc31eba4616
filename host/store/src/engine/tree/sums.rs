//! Sums of the store's content, kept with every commit: they show a missing or outdated resource even when the rest of
//! the store agrees with itself.
//!
//! When sled opens after a crash, it drops a page with a wrong checksum and goes on with an older one; the remaining
//! records do not show that. So each type has a count and a hash of the set of its keys and versions, and the indexes
//! have a hash of their keys. The hash of a set is the sum, modulo 2¹²⁸, of the first 16 bytes of SHA-256 of each
//! member: adding and removing need no order and no look at other members. The counters hold the sums over all types,
//! so that a type's sum cannot be lost together with its resources. A difference stays: a write to a missing resource
//! adds it, and subtracts nothing.
//!
//! # Cost
//! Some 200 ns for each resource that a commit changes, one edit of about 60 bytes for each type, and the cost of the
//! [usage](crate::engine::tree::usage). A comparison walks over all resources and indexes, about 1.5 µs for each.
//!
//! # Limits
//! A rewrite keeps its version, so an older form of the same version shows only by its length. Events have no gaps, and
//! are counted by number and bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    StoreError, TypeKey,
    check::Problem,
    engine::tree::{
        keys,
        record::{self, Meta},
        table::Table,
        totals::Totals,
        usage::UsageSums,
        write_batch::WriteBatch,
    },
    set_hash::{SetHash, Step},
};

/// Number of a type's resources, and the hash of their set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TypeSum {
    count: u64,
    hash: SetHash,
}

/// The sums of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    types: BTreeMap<TypeKey, TypeSum>,
    /// Hash of the keys of all indexes.
    indexes: SetHash,
    /// Usage of tenancies, beside the hashes: commits change it by their net growth.
    pub(crate) usage: UsageSums,
}

impl Sums {
    /// Adds or removes a member. Ignores keys of other spaces.
    pub(crate) fn step(&mut self, step: Step, key: &[u8], version: u64) {
        if matches!(key.first(), Some(&keys::OWNER | &keys::LABEL | &keys::REFERENCE)) {
            self.indexes.step(step, key, 0);
        } else if let Some([group, kind, ..]) = keys::split(key) {
            let type_key = TypeKey { group: group.to_owned(), kind: kind.to_owned() };
            let sum = self.types.entry(type_key).or_default();
            sum.hash.step(step, key, version);
            sum.count = match step {
                Step::Add => sum.count.wrapping_add(1),
                Step::Remove => sum.count.wrapping_sub(1),
            };
            if *sum == TypeSum::default() {
                self.types.retain(|_, sum| *sum != TypeSum::default());
            }
        }
    }

    /// Adds a key that a walk has read.
    pub(crate) fn add_read(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let version = match key.first() {
            Some(&keys::RESOURCE) => {
                let head = table.head(key, value)?;
                self.usage.add_read(key, head.len);
                head.seq
            }
            _ => 0,
        };
        self.step(Step::Add, key, version);
        Ok(())
    }

    /// Returns the sums over all types.
    pub(crate) fn totals(&self) -> Totals {
        let resources = self.types.values().fold(SetHash::default(), |sum, entry| sum.plus(entry.hash));
        Totals { resources, indexes: self.indexes }
    }

    /// Adds the sums of some types to a batch.
    pub(crate) fn write<'t>(&self, types: impl IntoIterator<Item = &'t TypeKey>, batch: &mut WriteBatch) {
        for type_key in types {
            let Ok(key) = keys::sum(type_key) else { continue };
            match self.types.get(type_key) {
                Some(TypeSum { count, hash }) => {
                    let [high, low] = hash.halves();
                    let value = record::encode_numbers(&key, [*count, high, low]);
                    batch.insert(key, value);
                }
                None => batch.remove(key),
            }
        }
    }

    /// Returns the expected number of resources of each type.
    pub(crate) fn counts(&self) -> BTreeMap<TypeKey, u64> {
        self.types.iter().map(|(type_key, sum)| (type_key.clone(), sum.count)).collect()
    }

    /// Whether a resource of the type is expected.
    pub(crate) fn has(&self, type_key: &TypeKey) -> bool {
        self.types.contains_key(type_key)
    }

    /// Returns the hash of all resources.
    pub(crate) fn resources(&self) -> SetHash {
        self.totals().resources
    }

    /// Returns every type with a sum.
    pub(crate) fn types(&self) -> impl Iterator<Item = &TypeKey> {
        self.types.keys()
    }

    /// The sums that are stored.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when they contradict the counters.
    pub(crate) fn read(table: &Table, meta: &Meta) -> Result<Self, StoreError> {
        let mut sums = Self::default();
        for item in table.range(vec![keys::SUM]..vec![keys::SUM + 1]) {
            let (key, value) = item?;
            let read = keys::sum_type(&key).zip(record::decode_numbers(&key, &value));
            let (type_key, [count, high, low]) =
                read.ok_or_else(|| table.damaged(&key, "the checksum does not match"))?;
            sums.types.insert(type_key, TypeSum { count, hash: SetHash::from_halves(high, low) });
        }
        sums.indexes = meta.sums.indexes;
        if sums.totals() != meta.sums {
            return Err(table.damaged(keys::META, "the sums of the types do not add up to its own: one is lost or old"));
        }
        sums.usage = UsageSums::read(table, meta.usage, &sums.counts())?;
        Ok(sums)
    }

    /// Computes the sums of the present content.
    pub(crate) fn count(table: &Table) -> Result<Self, StoreError> {
        let mut sums = Self::default();
        for space in [keys::OWNER, keys::LABEL, keys::REFERENCE, keys::RESOURCE] {
            for item in table.range(vec![space]..vec![space + 1]) {
                let (key, value) = item?;
                sums.add_read(table, &key, &value)?;
            }
        }
        Ok(sums)
    }

    /// Returns the differences between the present content and the expected sums.
    pub(crate) fn differences(&self, should: &Self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let types: BTreeSet<_> = self.types.keys().chain(should.types.keys()).collect();
        for type_key in types {
            let sum_of = |sums: &Self| sums.types.get(type_key).copied().unwrap_or_default();
            let (found, should) = (sum_of(self), sum_of(should));
            let fault = match (found.count, should.count) {
                _ if found == should => continue,
                (found, should) if found == should => {
                    "the number is right, but some differ from the acknowledged versions".to_owned()
                }
                (found, should) => format!("{found} are stored, but {should} are expected"),
            };
            problems.push(Problem { thing: format!("resources of type {type_key}"), fault });
        }
        if self.indexes != should.indexes {
            let fault = "some entries are missing or wrong".to_owned();
            problems.push(Problem { thing: "the indexes of owners, labels and references".to_owned(), fault });
        }
        // If the resources of a type differ, its usage is not reported again.
        let differ = |type_key: &TypeKey| self.types.get(type_key) != should.types.get(type_key);
        problems.extend(self.usage.differences(&should.usage, differ));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"rg\0K\0p\0n\0a\0";

    #[test]
    fn a_set_has_one_hash_whatever_the_order() {
        let (mut left, mut other) = (Sums::default(), Sums::default());
        for version in 1..9 {
            left.step(Step::Add, KEY, version);
            other.step(Step::Add, KEY, 9 - version);
        }
        left.step(Step::Add, b"og\0K\0p\0n\0a\0u\0child", 7);
        other.step(Step::Add, b"og\0K\0p\0n\0a\0u\0child", 0);
        assert_eq!(left, other);
        assert_eq!(Totals::from_numbers(left.totals().numbers()), left.totals());
        for version in 1..9 {
            left.step(Step::Remove, KEY, version);
        }
        assert_eq!(left.types().count(), 0, "nothing is left of a type that has none");
    }

    #[test]
    fn lost_or_old_resources_are_differences_that_name_the_type() {
        let (mut found, mut should) = (Sums::default(), Sums::default());
        should.step(Step::Add, KEY, 2);
        let differences = |found: &Sums, should: &Sums| -> Vec<_> {
            found.differences(should).iter().map(ToString::to_string).collect()
        };
        assert_eq!(differences(&found, &should), ["resources of type g.K: 0 are stored, but 1 are expected"]);
        found.step(Step::Add, KEY, 1);
        assert!(differences(&found, &should)[0].contains("the acknowledged versions"));
    }
}
