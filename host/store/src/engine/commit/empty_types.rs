//! Whether the last resource of a type is gone, after each deletion and without a count of them.
//!
//! Of a type that loses a resource, one that is there is remembered. As long as it is there, nothing need be looked
//! for. When it goes, the next one in key order is, and after the last key the first. Keys that were removed stay in
//! memory until the next checkpoint, and a look that began at the first key each time would pass all of them over for
//! each deletion; this one passes them once, in whatever order they go. Of a type that was seen to have none, all that
//! were made since are remembered, up to [`FEW`], so that one that is emptied again and again is not looked through
//! each time.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::engine::{
    tree::change::Change,
    tree::{keys, table::Table},
};
use crate::{StoreError, TypeKey};

/// As many keys of a type are remembered.
const FEW: usize = 256;

/// What is remembered of each type that lost a resource.
#[derive(Debug, Default)]
pub(crate) struct EmptyTypes {
    known: HashMap<TypeKey, KnownKeys>,
}

#[derive(Debug)]
enum KnownKeys {
    /// The key of one that was there.
    One(Vec<u8>),
    /// The keys of all that there are.
    All(BTreeSet<Vec<u8>>),
}

impl EmptyTypes {
    /// The types that have no resource left after these changes, which the table shows already.
    pub(crate) fn after(&mut self, table: &Table, changes: &[Change]) -> Vec<TypeKey> {
        let mut deleted = HashSet::new();
        for change in changes {
            self.note(change);
            if change.now.is_none() {
                deleted.insert(&change.type_key);
            }
        }
        let mut gone = Vec::new();
        for type_key in deleted {
            match self.is_empty(table, type_key) {
                Ok(true) => gone.push(type_key.clone()),
                Ok(false) => {}
                // The commit is durable and shown; a type too many in a list is the smaller evil.
                Err(error) => tracing::warn!(%type_key, %error, "whether there is a resource left is not known"),
            }
        }
        gone
    }

    /// Keeps up with a type of which all keys are known.
    fn note(&mut self, change: &Change) {
        let Some(known) = self.known.get_mut(&change.type_key) else { return };
        let KnownKeys::All(all) = known else { return };
        match change.now {
            Some(_) if all.len() >= FEW => *known = KnownKeys::One(change.key.clone()),
            Some(_) => drop(all.insert(change.key.clone())),
            None => drop(all.remove(&change.key)),
        }
    }

    /// Whether a type has no resource; remembers what it saw.
    fn is_empty(&mut self, table: &Table, type_key: &TypeKey) -> Result<bool, StoreError> {
        let Ok(base) = keys::of_type(type_key) else { return Ok(true) };
        let from = match self.known.get(type_key) {
            Some(KnownKeys::All(all)) => return Ok(all.is_empty()),
            Some(KnownKeys::One(key)) => key.clone(),
            None => base.clone(),
        };
        let end = keys::after(&base);
        let first = |from: Vec<u8>, to: Vec<u8>| table.range(from..to).next().transpose();
        let found = match first(from.clone(), end)? {
            Some(found) => Some(found),
            None => first(base, from)?,
        };
        let known = match &found {
            Some((key, _)) => KnownKeys::One(key.to_vec()),
            None => KnownKeys::All(BTreeSet::new()),
        };
        self.known.insert(type_key.clone(), known);
        Ok(found.is_none())
    }
}
