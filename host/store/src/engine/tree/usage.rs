//! Usage of tenancies: resources and bytes of each type, kept with every commit, for the quotas.
//!
//! Each type in each tenancy has one record: the number of its resources, and the sum of the lengths of their
//! encodings, as in their heads: no payload is read or decoded for it, in a store of any age. A record is written in
//! the edits that change the resources, and removed with the last one. The records are part of the
//! [sums](crate::engine::tree::sums), and compared together with them. The counters hold the bytes over all records, so
//! the next opening notices a lost or old record.
//!
//! # Cost
//! Some 2 µs for each type and tenancy that a group of commits changes, and one edit of about 60 bytes; 50 ns and no
//! edit for an update that keeps its length (both with 100,000 tenancies; `cost_of_usage` measures them). A walk over
//! all resources takes 500 ns more for each, a report 20 ms for 100,000 tenancies.
//!
//! # Limits
//! Chunks, keys, indexes and events do not count. Each type in each tenancy takes some 200 bytes of memory; only the
//! quotas of namespaces and partitions bound their number.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    ops::Bound,
};

use mortise_resource::pb;

use crate::{
    StoreError, TypeKey,
    check::Problem,
    engine::tree::{keys, record, table::Table, write_batch::WriteBatch},
    follower::DraftedGrowth,
    quota::{Quota, QuotaExceeded, Quotas, TenancyText, TenancyUsage, TypeUsage, Usage},
};

/// A number of resources, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    resources: u64,
    bytes: u64,
}

/// A change of an amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Delta {
    resources: i64,
    bytes: i64,
}

impl Amount {
    /// Adds a change; a damaged store may have less than is removed, which the comparison finds.
    fn plus(self, by: Delta) -> Self {
        Self {
            resources: self.resources.saturating_add_signed(by.resources),
            bytes: self.bytes.saturating_add_signed(by.bytes),
        }
    }
}

impl Delta {
    fn plus(self, other: Self) -> Self {
        Self {
            resources: self.resources.saturating_add(other.resources),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn negated(self) -> Self {
        Self { resources: self.resources.saturating_neg(), bytes: self.bytes.saturating_neg() }
    }
}

/// Changes of tenancies by commits.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// Changes by key of the usage record.
    types: BTreeMap<Vec<u8>, Delta>,
}

impl Growth {
    /// Notes a change of the resource under `key`: the lengths of its encodings, `None` without a resource.
    pub(crate) fn note(&mut self, key: &[u8], before: Option<u32>, now: Option<u32>) {
        let resources = i64::from(now.is_some()) - i64::from(before.is_some());
        let bytes = i64::from(now.unwrap_or(0)) - i64::from(before.unwrap_or(0));
        if (resources, bytes) != (0, 0)
            && let Some(key) = keys::usage(key)
        {
            self.add(key, Delta { resources, bytes });
        }
    }

    /// Adds the changes of another growth.
    pub(crate) fn extend(&mut self, other: Self) {
        if self.types.is_empty() {
            *self = other;
        } else {
            other.types.into_iter().for_each(|(key, by)| self.add(key, by));
        }
    }

    fn add(&mut self, key: Vec<u8>, by: Delta) {
        let delta = self.types.entry(key).or_default();
        *delta = delta.plus(by);
    }

    /// Returns what grows, without what shrinks, after `earlier`, which this growth began with.
    pub(crate) fn drafted(&self, earlier: &DraftedGrowth) -> DraftedGrowth {
        let before = Self::from(earlier);
        let grown = |(key, now): (&Vec<u8>, &Delta)| {
            let by = now.plus(before.of_type(key).negated());
            let by = (by.resources.max(0), by.bytes.max(0));
            (by != (0, 0)).then(|| (key.clone(), by))
        };
        DraftedGrowth(self.types.iter().filter_map(grown).collect())
    }

    /// Whether there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    fn of_type(&self, key: &[u8]) -> Delta {
        self.types.get(key).copied().unwrap_or_default()
    }

    fn of_tenancy(&self, tenancy: &[u8]) -> Delta {
        let from = self.types.range::<[u8], _>((Bound::Included(tenancy), Bound::Unbounded));
        let within = from.take_while(|(key, _)| key.starts_with(tenancy));
        within.fold(Delta::default(), |sum, (_, by)| sum.plus(*by))
    }
}

impl From<&DraftedGrowth> for Growth {
    fn from(growth: &DraftedGrowth) -> Self {
        let delta = |(key, &(resources, bytes)): (&Vec<u8>, &(i64, i64))| (key.clone(), Delta { resources, bytes });
        Self { types: growth.0.iter().map(delta).collect() }
    }
}

/// A multiset of numbers that knows its largest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tally(BTreeMap<u64, u64>);

impl Tally {
    fn replace(&mut self, before: u64, after: u64) {
        if before == after {
            return;
        }
        if let Some(times) = self.0.get_mut(&before) {
            *times -= 1;
            if *times == 0 {
                self.0.remove(&before);
            }
        }
        if after > 0 {
            *self.0.entry(after).or_default() += 1;
        }
    }

    fn largest(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(number, _)| *number)
    }
}

/// Usage of all tenancies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UsageSums {
    /// Amount of each type in each tenancy, by key of the usage record.
    types: BTreeMap<Vec<u8>, Amount>,
    /// Amount of each tenancy, by prefix of its usage keys.
    tenancies: BTreeMap<Vec<u8>, Amount>,
    /// Number of resources of each type in each tenancy.
    counts: Tally,
    /// Bytes of each tenancy.
    sizes: Tally,
    total: Amount,
}

impl UsageSums {
    /// Adds the resource under `key` with an encoding of `len` bytes.
    pub(crate) fn add_read(&mut self, key: &[u8], len: u32) {
        if let Some(key) = keys::usage(key) {
            self.change(&key, Delta { resources: 1, bytes: i64::from(len) });
        }
    }

    /// Adds the changes of commits.
    pub(crate) fn grow(&mut self, growth: &Growth) {
        growth.types.iter().for_each(|(key, by)| self.change(key, *by));
    }

    /// Takes back the changes of commits.
    pub(crate) fn shrink(&mut self, growth: &Growth) {
        growth.types.iter().for_each(|(key, by)| self.change(key, by.negated()));
    }

    fn change(&mut self, key: &[u8], by: Delta) {
        let (before, after) = change(&mut self.types, key, by);
        self.counts.replace(before.resources, after.resources);
        let (before, after) = change(&mut self.tenancies, keys::usage_tenancy(key), by);
        self.sizes.replace(before.bytes, after.bytes);
        self.total = self.total.plus(by);
    }

    /// Checks a batch against the quotas, on top of the present amounts and `pending`, the growth by earlier batches.
    /// `grows` returns whether a batch that adds bytes to a tenancy grows by the measure of limits.
    ///
    /// # Errors
    /// The first quota that the batch exceeds.
    pub(crate) fn check(
        &self,
        quotas: Quotas,
        pending: &Growth,
        batch: &Growth,
        grows: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Box<QuotaExceeded>> {
        let refused = |quota, key: &[u8], used, by: i64, limit| {
            let (tenancy, type_key) = described(key);
            let type_key = (quota == Quota::Resources).then_some(type_key);
            Err(Box::new(QuotaExceeded { quota, type_key, tenancy, used, added: by.unsigned_abs(), limit }))
        };
        let mut judged: &[u8] = &[];
        for (key, by) in &batch.types {
            let used = amount(&self.types, key).plus(pending.of_type(key)).resources;
            if by.resources > 0 && used.saturating_add_signed(by.resources) > quotas.resources {
                return refused(Quota::Resources, key, used, by.resources, quotas.resources);
            }
            let tenancy = keys::usage_tenancy(key);
            if tenancy == judged {
                continue;
            }
            judged = tenancy;
            let by = batch.of_tenancy(tenancy);
            let used = amount(&self.tenancies, tenancy).plus(pending.of_tenancy(tenancy)).bytes;
            if by.bytes > 0 && used.saturating_add_signed(by.bytes) > quotas.bytes && grows(tenancy) {
                return refused(Quota::Bytes, key, used, by.bytes, quotas.bytes);
            }
        }
        Ok(())
    }

    /// Adds the usage records that changed to a batch.
    pub(crate) fn write(&self, growth: &Growth, batch: &mut WriteBatch) {
        growth.types.keys().for_each(|key| self.write_record(key, batch));
    }

    /// Adds every usage record to a batch, and the removal of any other in the table.
    pub(crate) fn write_all(&self, table: &Table, batch: &mut WriteBatch) -> Result<(), StoreError> {
        for item in table.range(vec![keys::USAGE]..vec![keys::USAGE + 1]) {
            batch.remove(item?.0);
        }
        self.types.keys().for_each(|key| self.write_record(key, batch));
        Ok(())
    }

    fn write_record(&self, key: &[u8], batch: &mut WriteBatch) {
        match self.types.get(key) {
            Some(Amount { resources, bytes }) => batch.insert(key, record::encode_numbers(key, [*resources, *bytes])),
            None => batch.remove(key),
        }
    }

    /// Reads the stored records.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a record is damaged, or the records do not add up to `bytes` and the `counts` of
    /// the types.
    pub(crate) fn read(table: &Table, bytes: u64, counts: &BTreeMap<TypeKey, u64>) -> Result<Self, StoreError> {
        let (mut sums, mut found) = (Self::default(), BTreeMap::<TypeKey, u64>::new());
        for item in table.range(vec![keys::USAGE]..vec![keys::USAGE + 1]) {
            let (key, value) = item?;
            let read = keys::usage_parts(&key).zip(record::decode_numbers(&key, &value));
            let (_, [resources, bytes]) = read.ok_or_else(|| table.damaged(&key, "the checksum does not match"))?;
            // A number out of range does not add up to the counters, below.
            let by = |number| i64::try_from(number).unwrap_or(i64::MAX);
            sums.change(&key, Delta { resources: by(resources), bytes: by(bytes) });
            let count = found.entry(described(&key).1).or_default();
            *count = count.saturating_add(resources);
        }
        if sums.total.bytes != bytes || found != *counts {
            let what = "the usage of tenancies does not add up to its own: some is lost, or old";
            return Err(table.damaged(keys::META, what));
        }
        Ok(sums)
    }

    /// Returns the differences between the present content and the expected usage, except those of types that are
    /// `known`.
    pub(crate) fn differences(&self, should: &Self, known: impl Fn(&TypeKey) -> bool) -> Vec<Problem> {
        let keys: BTreeSet<_> = self.types.keys().chain(should.types.keys()).collect();
        let mut problems = Vec::new();
        for key in keys {
            let (found, should) = (amount(&self.types, key), amount(&should.types, key));
            let (tenancy, type_key) = described(key);
            if found != should && !known(&type_key) {
                let text = |amount: Amount| format!("{} resources of {} bytes", amount.resources, amount.bytes);
                let fault = format!("{} are stored, but {} are expected", text(found), text(should));
                problems
                    .push(Problem { thing: format!("usage of type {type_key} in {}", TenancyText(&tenancy)), fault });
            }
        }
        problems
    }

    /// Returns the bytes of all resources.
    pub(crate) fn bytes(&self) -> u64 {
        self.total.bytes
    }

    /// Returns the most resources of one type in one tenancy, and the most bytes of one tenancy.
    pub(crate) fn largest_use(&self) -> (u64, u64) {
        (self.counts.largest(), self.sizes.largest())
    }

    /// Reports the usage, with `limit` tenancies and as many types in tenancies.
    pub(crate) fn report(&self, quotas: Quotas, limit: usize) -> Usage {
        let tenancy = |(key, amount): (&Vec<u8>, &Amount)| {
            let Amount { resources, bytes } = *amount;
            TenancyUsage { tenancy: described(key).0, resources, bytes }
        };
        let type_in_tenancy = |(key, amount): (&Vec<u8>, &Amount)| {
            let (Amount { resources, bytes }, (tenancy, type_key)) = (*amount, described(key));
            TypeUsage { tenancy, type_key, resources, bytes }
        };
        Usage {
            quotas,
            tenancies: self.tenancies.len() as u64,
            resources: self.total.resources,
            bytes: self.total.bytes,
            largest: largest(&self.tenancies, limit, |amount| amount.bytes).map(tenancy).collect(),
            most: largest(&self.types, limit, |amount| amount.resources).map(type_in_tenancy).collect(),
        }
    }
}

fn amount(map: &BTreeMap<Vec<u8>, Amount>, key: &[u8]) -> Amount {
    map.get(key).copied().unwrap_or_default()
}

/// Changes an amount, and removes it at zero. Returns the amounts before and after.
fn change(map: &mut BTreeMap<Vec<u8>, Amount>, key: &[u8], by: Delta) -> (Amount, Amount) {
    let before = amount(map, key);
    let after = before.plus(by);
    if after == Amount::default() {
        map.remove(key);
    } else if let Some(amount) = map.get_mut(key) {
        *amount = after;
    } else {
        map.insert(key.to_vec(), after);
    }
    (before, after)
}

/// Returns the `limit` entries with the largest numbers, in descending order.
fn largest(
    map: &BTreeMap<Vec<u8>, Amount>,
    limit: usize,
    number: impl Fn(&Amount) -> u64,
) -> impl Iterator<Item = (&Vec<u8>, &Amount)> {
    let mut kept = BinaryHeap::new();
    for (key, amount) in map {
        // Among equal numbers the first stay, so most entries are skipped without a look at their keys.
        if kept.len() < limit {
            kept.push((Reverse(number(amount)), key));
        } else if let Some(mut least) = kept.peek_mut()
            && number(amount) > least.0.0
        {
            *least = (Reverse(number(amount)), key);
        }
    }
    kept.into_sorted_vec().into_iter().filter_map(|(_, key)| map.get_key_value(key))
}

/// Returns the tenancy and type in a usage key; a prefix of a tenancy has an empty type.
fn described(key: &[u8]) -> (pb::Tenancy, TypeKey) {
    let text = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
    let mut parts = text.split('\0').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    (pb::Tenancy { partition: next(), namespace: next() }, TypeKey { group: next(), kind: next() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str, namespace: &str, name: &str) -> Vec<u8> {
        format!("rg\0{kind}\0p\0{namespace}\0{name}\0").into_bytes()
    }

    fn growth(notes: &[(&[u8], Option<u32>, Option<u32>)]) -> Growth {
        let mut growth = Growth::default();
        notes.iter().for_each(|(key, before, now)| growth.note(key, *before, *now));
        growth
    }

    #[test]
    fn removed_resources_leave_no_usage() {
        let mut sums = UsageSums::default();
        let there = growth(&[(&key("K", "n", "a"), None, Some(7)), (&key("L", "n", "b"), None, Some(9))]);
        sums.grow(&there);
        assert_eq!((sums.largest_use(), sums.bytes()), ((1, 16), 16));
        sums.grow(&growth(&[(&key("K", "n", "a"), Some(7), None)]));
        assert_eq!((sums.largest_use(), sums.types.len(), sums.tenancies.len()), ((1, 9), 1, 1));
        sums.grow(&growth(&[(&key("L", "n", "b"), Some(9), None)]));
        assert_eq!(sums, UsageSums::default());
        sums.grow(&there);
        sums.shrink(&there);
        assert_eq!(sums, UsageSums::default(), "what is taken back leaves nothing");
    }

    #[test]
    fn a_report_has_the_largest_and_all_of_the_totals() {
        let mut sums = UsageSums::default();
        for (count, (namespace, len)) in (1..).zip([("a", 1_000), ("b", 10), ("c", 300), ("ca", 200)]) {
            for name in 0..count {
                sums.add_read(&key("K", namespace, &name.to_string()), len);
            }
        }
        let report = sums.report(Quotas::default(), 2);
        assert_eq!((report.tenancies, report.resources, report.bytes), (4, 10, 2_720));
        let largest: Vec<_> =
            report.largest.iter().map(|entry| (entry.tenancy.namespace.as_str(), entry.bytes)).collect();
        assert_eq!(largest, [("a", 1_000), ("c", 900)]);
        let most: Vec<_> =
            report.most.iter().map(|entry| (entry.tenancy.namespace.as_str(), entry.resources)).collect();
        assert_eq!(most, [("ca", 4), ("c", 3)]);
        assert_eq!(report.most[0].type_key.to_string(), "g.K");
        assert_eq!(sums.report(Quotas::default(), 0).largest, []);
    }

    /// Tenancies: two namespaces, one a prefix of the other, and the partition's own.
    #[test]
    fn tenancies_do_not_run_into_each_other() {
        let batch = growth(&[
            (&key("K", "", "a"), None, Some(1)),
            (&key("K", "c", "a"), None, Some(10)),
            (&key("L", "c", "a"), None, Some(100)),
            (&key("K", "ca", "a"), None, Some(1_000)),
        ]);
        let bytes = |namespace: &str| {
            let key = keys::usage(&key("K", namespace, "a")).unwrap();
            batch.of_tenancy(keys::usage_tenancy(&key)).bytes
        };
        assert_eq!([bytes(""), bytes("c"), bytes("ca"), bytes("d")], [1, 110, 1_000, 0]);
    }

    /// `cargo test --release -p mortise-store -- --ignored --nocapture cost_of_usage`
    #[test]
    #[ignore = "prints the cost of counting, and asserts nothing; by hand, in a release build"]
    fn cost_of_usage() {
        const ROUNDS: u32 = 1_000_000;
        let mut sums = UsageSums::default();
        for n in 0..100_000 {
            sums.add_read(&key("K", &format!("n-{n}"), "a"), 600 + n % 1_000);
        }
        let measure = |what: &str, mut step: Box<dyn FnMut(u32) + '_>| {
            let begun = std::time::Instant::now();
            (0..ROUNDS).for_each(&mut step);
            println!("{what}: {:?}", begun.elapsed() / ROUNDS);
        };
        let keys: Vec<_> = (0..1_000).map(|n| key("K", &format!("n-{}", n * 97), "a")).collect();
        let commit = |sums: &mut UsageSums, n: u32, before: Option<u32>, now: Option<u32>| {
            let mut batch = Growth::default();
            batch.note(&keys[n as usize % keys.len()], before, now);
            sums.check(Quotas::default(), &Growth::default(), &batch, |_| true).unwrap();
            let mut growth = Growth::default();
            growth.extend(batch);
            sums.grow(&growth);
            let mut batch = WriteBatch::default();
            sums.write(&growth, &mut batch);
            std::hint::black_box((&batch, sums.largest_use()));
        };
        measure("a put that grows", Box::new(|n| commit(&mut sums, n, Some(600), Some(601 + n % 7))));
        measure("a put that keeps its length", Box::new(|n| commit(&mut sums, n, Some(600), Some(600))));
        measure(
            "one more of a walk",
            Box::new(|n| sums.add_read(&keys[n as usize / 1_000 % keys.len()], 600 + n % 100)),
        );
        measure(
            "a commit's own part of a report",
            Box::new(|n| {
                if n % 10_000 == 0 {
                    std::hint::black_box(sums.report(Quotas::default(), 10));
                }
            }),
        );
    }
}
