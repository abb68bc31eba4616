//! A merged walk over the tree and the maps in front of it.
//!
//! The walk holds the maps from its start, so it finds their entries even after they were copied to the tree and
//! dropped; it may or may not see newer ones. So each record is as at some moment since the start, and a record that
//! exists the whole time is not missed.
//!
//! # Cost
//! Like the tree's own walk while the maps have nothing in the range; otherwise one lock and one search for every
//! [`PAGE_ENTRIES`] entries of a map, and two comparisons for each entry: of the maps, and with the tree.

use std::{cmp::Ordering, collections::VecDeque, iter::Peekable, ops::Bound, sync::Arc};

use sled::IVec;

use crate::engine::tree::memtable::{Layers, Memtable, State};

/// Entries that are taken from a map at a time.
const PAGE_ENTRIES: usize = 64;
/// Most removed keys that one step skips.
const MAX_SKIPPED_KEYS: usize = 32;

/// A walk over one of the maps.
struct Cursor {
    memtable: Arc<Memtable>,
    page: VecDeque<(IVec, State)>,
    /// Start of the next page; `None` at the end.
    from: Option<Bound<Vec<u8>>>,
    to: Bound<Vec<u8>>,
}

/// A step of a walk.
#[derive(Debug)]
pub(crate) enum Step {
    /// An entry: its key and its value.
    Entry(IVec, IVec),
    /// Only removed keys, up to and with this one; so a caller that bounds its steps bounds the work, and one that begins
    /// another walk goes on behind it.
    Removed(IVec),
}

/// A walk over keys and values.
pub(crate) struct Merge {
    newer: Cursor,
    older: Option<Cursor>,
    tree: Peekable<sled::Iter>,
}

impl Step {
    /// Returns the entry; `None` for removed keys.
    pub(crate) fn entry(self) -> Option<(IVec, IVec)> {
        match self {
            Self::Entry(key, value) => Some((key, value)),
            Self::Removed(_) => None,
        }
    }
}

impl Merge {
    /// Starts a walk over the range in the maps and the tree. The maps must be older than the tree's iterator.
    pub(crate) fn new(layers: &Layers, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>, tree: sled::Iter) -> Self {
        let cursor = |memtable: &Arc<Memtable>| Cursor {
            memtable: memtable.clone(),
            page: VecDeque::new(),
            from: Some(from.clone()),
            to: to.clone(),
        };
        let (newer, older) = layers.by_age();
        Self { newer: cursor(newer), older: older.map(cursor), tree: tree.peekable() }
    }
}

impl Cursor {
    fn peek(&mut self) -> Option<&IVec> {
        if self.page.is_empty()
            && let Some(from) = self.from.take()
        {
            let (from, to) = (from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
            let page = self.memtable.page(from, to, PAGE_ENTRIES);
            if page.len() == PAGE_ENTRIES {
                self.from = page.last().map(|(key, _)| Bound::Excluded(key.to_vec()));
            }
            self.page = page.into();
        }
        self.page.front().map(|(key, _)| key)
    }
}

impl Iterator for Merge {
    type Item = sled::Result<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut removed = None;
        for _ in 0..MAX_SKIPPED_KEYS {
            let Self { newer, older, tree } = self;
            let first = first_map(newer, older.as_mut());
            let Some(key) = first.peek() else { return next_of_tree(tree) };
            let order = match tree.peek() {
                Some(Ok((in_tree, _))) => in_tree.cmp(key),
                Some(Err(_)) => Ordering::Less,
                None => Ordering::Greater,
            };
            match order {
                Ordering::Less => return next_of_tree(tree),
                Ordering::Equal => drop(tree.next()),
                Ordering::Greater => {}
            }
            match first.page.pop_front() {
                Some((key, Some(value))) => return Some(Ok(Step::Entry(key, value))),
                Some((key, None)) => removed = Some(key),
                None => {}
            }
        }
        removed.map(|key| Ok(Step::Removed(key)))
    }
}

/// Returns the cursor with the smaller key. If both have it, the state of the older map is dropped.
fn first_map<'c>(newer: &'c mut Cursor, older: Option<&'c mut Cursor>) -> &'c mut Cursor {
    let Some(older) = older else { return newer };
    let order = match (newer.peek(), older.peek()) {
        (Some(newer), Some(older)) => newer.cmp(older),
        (None, Some(_)) => Ordering::Greater,
        (_, None) => Ordering::Less,
    };
    match order {
        Ordering::Less => newer,
        Ordering::Greater => older,
        Ordering::Equal => {
            older.page.pop_front();
            newer
        }
    }
}

fn next_of_tree(tree: &mut Peekable<sled::Iter>) -> Option<sled::Result<Step>> {
    tree.next().map(|item| item.map(|(key, value)| Step::Entry(key, value)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::tree::{memtable::Recent, write_batch::WriteBatch};

    /// A walk over random edits, some copied to the tree and some in either map, equals that over a plain map.
    #[test]
    fn a_walk_equals_that_over_one_map() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let db = sled::Config::new().temporary(true).open().unwrap();
            let (recent, mut model) = (Recent::default(), BTreeMap::new());
            for layer in 0..3 {
                let mut batch = WriteBatch::default();
                for _ in 0..random.usize(0..300) {
                    let key = vec![random.u8(0..3), random.u8(..)];
                    if random.bool() {
                        let value = vec![random.u8(..), layer];
                        batch.insert(key.clone(), value.clone());
                        model.insert(key, value);
                    } else {
                        batch.remove(key.clone());
                        model.remove(&key);
                    }
                }
                match layer {
                    0 => {
                        for edit in batch.edits() {
                            match &edit.value {
                                Some(value) => drop(db.insert(&edit.key, value).unwrap()),
                                None => drop(db.remove(&edit.key).unwrap()),
                            }
                        }
                    }
                    1 => {
                        recent.active().apply(&batch);
                        recent.freeze();
                    }
                    _ => recent.active().apply(&batch),
                }
            }
            for _ in 0..10 {
                let mut bound = || {
                    let key = vec![random.u8(0..4), random.u8(..)];
                    [Bound::Included(key.clone()), Bound::Excluded(key), Bound::Unbounded][random.usize(0..3)].clone()
                };
                let (from, to) = (bound(), bound());
                let ordered = match (&from, &to) {
                    (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
                    (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a < b,
                };
                if !ordered {
                    continue;
                }
                let range = (from.clone(), to.clone());
                let walk = Merge::new(&recent.layers(), &from, &to, db.range::<Vec<u8>, _>(range.clone()));
                let walked: Vec<_> =
                    walk.filter_map(|step| step.unwrap().entry()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                let expected: Vec<_> = model.range(range).map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_eq!(walked, expected);
            }
        }
    }
}
