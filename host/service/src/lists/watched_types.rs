//! The number of open watches by the watched type, over all versions of its group.
//!
//! Cost: a lock at the beginning and at the end of each watch.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use mortise_resource::types::Gvk;
use parking_lot::Mutex;

/// Open watches by group and kind. Types without a watch have no entry.
type Counts = BTreeMap<(String, String), usize>;

/// The numbers. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct WatchedTypes(Arc<Mutex<Counts>>);

/// A counted watch. Dropping it ends the count.
pub(super) struct WatchedType {
    types: WatchedTypes,
    key: (String, String),
}

impl WatchedTypes {
    /// Counts a watch of a type.
    pub(super) fn open(&self, wanted: &Gvk) -> WatchedType {
        let key = (wanted.group.clone(), wanted.kind.clone());
        *self.0.lock().entry(key.clone()).or_default() += 1;
        WatchedType { types: self.clone(), key }
    }

    /// Returns the numbers, sorted by group and kind.
    pub(super) fn counts(&self) -> Vec<((String, String), usize)> {
        self.0.lock().iter().map(|(key, count)| (key.clone(), *count)).collect()
    }
}

impl Drop for WatchedType {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.types.0.lock().entry(self.key.clone()) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_count_from_their_beginning_to_their_end() {
        let types = WatchedTypes::default();
        let (old, new) = (Gvk::new("demo", "v1", "Album"), Gvk::new("demo", "v2", "Album"));
        let first = types.open(&old);
        let second = types.open(&new);
        let other = types.open(&Gvk::new("demo", "v2", "Artist"));
        let key = |kind: &str| ("demo".to_owned(), kind.to_owned());
        assert_eq!(types.counts(), [(key("Album"), 2), (key("Artist"), 1)]);
        drop((first, other));
        assert_eq!(types.counts(), [(key("Album"), 1)]);
        drop(second);
        assert!(types.counts().is_empty());
    }
}
