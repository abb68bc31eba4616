//! Recent edits in memory, durable in the write-ahead log but not yet in the tree: two maps in front of the tree.
//!
//! The commit thread adds each group to the *active* map. When that is full it becomes the *frozen* map, which never
//! changes, and a new active map takes its place. The checkpoint thread copies the frozen map to the tree and then
//! drops it. A key is looked up in the active map, the frozen map, and the tree; the first that knows it is right.
//!
//! # Why a lookup finds a current value
//! A reader takes both maps at once ([`Recent::layers`]), and then the tree. Keys unknown to both maps at that moment
//! were in the tree; a later change of the tree is newer, and was current at some moment of the lookup. The copying to
//! the tree is invisible, since the frozen map stays in front until all of it is copied.
//!
//! # Cost
//! Memory: a checkpoint begins at the bound in [`Options`](crate::engine::options::Options), and writers wait when
//! there is twice as much before it has ended; so both maps together hold at most four times the bound, and one more
//! group each. Running scans hold the maps from their start, at most four long scans at a time. A lookup is two
//! searches in a B-tree, under a lock that the commit thread holds while it adds a group, about a microsecond for each
//! edit.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use sled::IVec;

use crate::engine::tree::write_batch::WriteBatch;

/// Bytes of an entry besides key and value: its place in the map, and the heads of two allocations.
const ENTRY_BYTES: usize = 96;

/// Value of a key; `None` for a removed key.
pub(crate) type State = Option<IVec>;

#[derive(Debug)]
struct Entry {
    state: State,
    /// Whether the layers below do not know the key.
    first: bool,
}

/// A map of recent edits.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    entries: RwLock<BTreeMap<IVec, Entry>>,
    bytes: AtomicUsize,
}

impl Memtable {
    /// Returns the state of a key, if the map knows it.
    pub(crate) fn get(&self, key: &[u8]) -> Option<State> {
        self.entries.read().get(key).map(|entry| entry.state.clone())
    }

    /// Returns up to `count` keys of a range, in order, with their states.
    pub(crate) fn page(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, count: usize) -> Vec<(IVec, State)> {
        // Such a range is empty, and a B-tree would panic on it.
        if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) = (from, to)
            && (a > b || (a == b && !matches!((from, to), (Bound::Included(_), Bound::Included(_)))))
        {
            return Vec::new();
        }
        let entries = self.entries.read();
        let range = entries.range::<[u8], _>((from, to));
        range.take(count).map(|(key, entry)| (key.clone(), entry.state.clone())).collect()
    }

    /// Returns the approximate size, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.read().is_empty()
    }

    /// Adds edits, for every reader at once. Only for the commit thread.
    pub(crate) fn apply(&self, batch: &WriteBatch) {
        let mut entries = self.entries.write();
        let (mut more, mut less) = (0, 0);
        let size = |key: &IVec, state: &State| ENTRY_BYTES + key.len() + state.as_ref().map_or(0, |value| value.len());
        for edit in batch.edits() {
            match entries.get_mut(&edit.key) {
                Some(entry) => {
                    less += size(&edit.key, &entry.state);
                    if edit.value.is_none() && entry.first {
                        entries.remove(&edit.key);
                        continue;
                    }
                    entry.state.clone_from(&edit.value);
                }
                None => {
                    let entry = Entry { state: edit.value.clone(), first: edit.first };
                    entries.insert(edit.key.clone(), entry);
                }
            }
            more += size(&edit.key, &edit.value);
        }
        self.bytes.store((self.bytes() + more).saturating_sub(less), Ordering::Relaxed);
    }
}

/// The maps in front of the tree at one moment.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    active: Arc<Memtable>,
    frozen: Option<Arc<Memtable>>,
}

impl Layers {
    /// Returns the map for new commits, and the older one that is being copied to the tree.
    pub(crate) fn by_age(&self) -> (&Arc<Memtable>, Option<&Arc<Memtable>>) {
        (&self.active, self.frozen.as_ref())
    }

    /// Returns the state of a key, if one of the maps knows it.
    pub(crate) fn get(&self, key: &[u8]) -> Option<State> {
        self.active.get(key).or_else(|| self.frozen.as_ref()?.get(key))
    }
}

/// The current maps in front of the tree.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    layers: ArcSwap<Layers>,
}

impl Recent {
    /// Returns the maps of this moment.
    pub(crate) fn layers(&self) -> arc_swap::Guard<Arc<Layers>> {
        self.layers.load()
    }

    /// Returns the map for new commits.
    pub(crate) fn active(&self) -> Arc<Memtable> {
        self.layers.load().active.clone()
    }

    /// Puts states in front of the tree that it lacks, at an opening, over present states.
    pub(crate) fn add_below_active(&self, states: BTreeMap<IVec, State>) {
        let size =
            |(key, state): (&IVec, &State)| ENTRY_BYTES + key.len() + state.as_ref().map_or(0, |value| value.len());
        let bytes = states.iter().map(size).sum::<usize>();
        let frozen = self.frozen().unwrap_or_default();
        frozen.entries.write().extend(states.into_iter().map(|(key, state)| (key, Entry { state, first: false })));
        frozen.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.layers.store(Arc::new(Layers { active: Arc::default(), frozen: Some(frozen) }));
    }

    /// Returns the map that is being copied to the tree.
    pub(crate) fn frozen(&self) -> Option<Arc<Memtable>> {
        self.layers.load().frozen.clone()
    }

    /// Freezes the active map and begins another. Only for the commit thread, after [`Recent::forget`] of the last one.
    pub(crate) fn freeze(&self) -> Arc<Memtable> {
        let frozen = self.active();
        self.layers.store(Arc::new(Layers { active: Arc::default(), frozen: Some(frozen.clone()) }));
        frozen
    }

    /// Drops the frozen map, which the tree now has in full.
    pub(crate) fn forget(&self) {
        // The commit thread does not freeze while there is a frozen map, so the active map stays.
        self.layers.store(Arc::new(Layers { active: self.active(), frozen: None }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(edits: &[(&str, Option<&str>)]) -> WriteBatch {
        let mut batch = WriteBatch::default();
        for (key, value) in edits {
            match value {
                Some(value) => batch.insert(*key, *value),
                None => batch.remove(*key),
            }
        }
        batch
    }

    fn got(recent: &Recent, key: &str) -> Option<Option<String>> {
        let state = recent.layers().get(key.as_bytes())?;
        Some(state.map(|value| String::from_utf8(value.to_vec()).unwrap()))
    }

    #[test]
    fn the_newer_map_is_right_and_a_removal_is_remembered() {
        let recent = Recent::default();
        recent.active().apply(&batch(&[("a", Some("1")), ("b", Some("1")), ("b", None)]));
        let frozen = recent.freeze();
        recent.active().apply(&batch(&[("a", None), ("c", Some("2"))]));
        assert_eq!(got(&recent, "a"), Some(None));
        assert_eq!(got(&recent, "b"), Some(None));
        assert_eq!(got(&recent, "c"), Some(Some("2".into())));
        assert_eq!(got(&recent, "d"), None);
        assert_eq!(frozen.get(b"a").unwrap().unwrap(), "1", "what is frozen stays");
        recent.forget();
        assert_eq!((got(&recent, "a"), got(&recent, "b")), (Some(None), None));
    }

    #[test]
    fn keys_first_added_and_removed_here_leave_no_trace() {
        let (recent, mut first) = (Recent::default(), WriteBatch::default());
        first.insert_first("e1", "event");
        recent.active().apply(&first);
        recent.active().apply(&batch(&[("e1", None)]));
        assert!(recent.active().is_empty() && recent.active().bytes() == 0);
        recent.active().apply(&first);
        recent.freeze();
        recent.active().apply(&batch(&[("e1", None)]));
        assert_eq!(got(&recent, "e1"), Some(None), "the map below has it");
    }

    #[test]
    fn bytes_follow_the_content() {
        let memtable = Memtable::default();
        memtable.apply(&batch(&[("a", Some("12345678")), ("a", Some("1"))]));
        assert_eq!(memtable.bytes(), ENTRY_BYTES + 2);
        memtable.apply(&batch(&[("a", None)]));
        assert_eq!(memtable.bytes(), ENTRY_BYTES + 1);
    }

    #[test]
    fn pages_keep_to_their_bounds() {
        let memtable = Memtable::default();
        memtable.apply(&batch(&[("a", Some("1")), ("b", None), ("c", Some("3"))]));
        let keys = |from, to, count| -> Vec<_> {
            memtable.page(from, to, count).into_iter().map(|(key, _)| key.to_vec()).collect()
        };
        assert_eq!(keys(Bound::Unbounded, Bound::Unbounded, 2), [b"a", b"b"]);
        assert_eq!(keys(Bound::Excluded(b"a"), Bound::Excluded(b"c"), 9), [b"b"]);
        assert_eq!(keys(Bound::Included(b"c"), Bound::Excluded(b"a"), 9), [[0; 0]; 0]);
        assert_eq!(keys(Bound::Excluded(b"b"), Bound::Excluded(b"b"), 9), [[0; 0]; 0]);
        assert_eq!(keys(Bound::Included(b"b"), Bound::Included(b"b"), 9), [b"b"]);
    }
}
