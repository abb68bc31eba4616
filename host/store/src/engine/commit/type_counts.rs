//! How many resources there are of each type, exactly, without a counter on the disk.
//!
//! Nobody counts until somebody asks. Then the commit thread goes over the keys in slices, between which it commits;
//! since nothing else writes, what lies before the slice it has come to is known exactly, and each commit corrects it.
//! Once the end is reached, it stays known. Never run through: nobody paid.

use std::collections::BTreeMap;

use crate::engine::{
    tree::change::Change,
    tree::{keys, table::Table},
};
use crate::{StoreError, TypeKey};

/// Keys that are counted at a time, some two milliseconds: commits wait for one slice at most.
const SLICE: usize = 4096;

/// The count so far.
pub(crate) struct TypeCounts {
    counts: BTreeMap<TypeKey, u64>,
    /// Resources whose keys are smaller are counted.
    upto: Vec<u8>,
}

impl TypeCounts {
    /// Of nothing.
    pub(crate) fn new() -> Self {
        Self { counts: BTreeMap::new(), upto: vec![keys::RESOURCE] }
    }

    /// The counts, if they are complete.
    pub(crate) fn known(&self) -> Option<&BTreeMap<TypeKey, u64>> {
        (self.upto == END).then_some(&self.counts)
    }

    /// Counts one slice. With no write in flight.
    pub(crate) fn step(&mut self, table: &Table) -> Result<(), StoreError> {
        if self.upto == END {
            return Ok(());
        }
        let mut last = None;
        for item in table.range(self.upto.clone()..END.to_vec()).take(SLICE) {
            let (key, _) = item?;
            let [group, kind, ..] = keys::split(&key).ok_or_else(|| table.damaged(&key, "its key is not one"))?;
            let same = |(type_key, _): &(TypeKey, u64)| type_key.group == group && type_key.kind == kind;
            match &mut last {
                Some(last) if same(last) => last.1 += 1,
                other => {
                    self.add(other.take());
                    *other = Some((TypeKey { group: group.to_owned(), kind: kind.to_owned() }, 1));
                }
            }
            self.upto.clear();
            self.upto.extend_from_slice(&key);
            // The first key after this one.
            self.upto.push(0);
        }
        if last.is_none() {
            self.upto = END.to_vec();
        }
        self.add(last);
        Ok(())
    }

    /// Takes what was committed into account.
    pub(crate) fn note(&mut self, changes: &[Change]) {
        for change in changes.iter().filter(|change| change.key < self.upto) {
            match (&change.prior, &change.now) {
                (None, Some(_)) => *self.counts.entry(change.type_key.clone()).or_default() += 1,
                (Some(_), None) => {
                    if let Some(count) = self.counts.get_mut(&change.type_key) {
                        *count = count.saturating_sub(1);
                        if *count == 0 {
                            self.counts.remove(&change.type_key);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, counted: Option<(TypeKey, u64)>) {
        if let Some((type_key, count)) = counted {
            *self.counts.entry(type_key).or_default() += count;
        }
    }
}

/// The first key behind all resources.
const END: &[u8] = &[keys::RESOURCE + 1];
