//! Whether the last resource of a type is gone, after each deletion and without a count of them.
//!
//! Of a type that loses a resource, one that is there is remembered. As long as it is there, nothing need be looked for. When it
//! goes, the next one in key order is, and after the last key the first. Keys that were removed stay in memory until the next
//! checkpoint, and a look that began at the first key each time would pass all of them over for each deletion; this one passes
//! them once, in whatever order they go.

use std::collections::{HashMap, HashSet};

use super::{keys, stage::Change, table::Table};
use crate::{StoreError, TypeKey};

/// What is remembered: of each type that lost a resource, the key of one that is there.
#[derive(Debug, Default)]
pub(crate) struct Last {
    known: HashMap<TypeKey, Vec<u8>>,
}

impl Last {
    /// The types that have no resource left after these changes, which the table shows already.
    pub(crate) fn gone(&mut self, table: &Table, changes: &[Change]) -> Vec<TypeKey> {
        let deleted = changes.iter().filter(|change| change.now.is_none()).map(|change| &change.type_key);
        let deleted: HashSet<&TypeKey> = deleted.collect();
        let mut gone = Vec::new();
        for type_key in deleted {
            match self.find(table, type_key) {
                Ok(Some(key)) => drop(self.known.insert(type_key.clone(), key)),
                Ok(None) => {
                    self.known.remove(type_key);
                    gone.push(type_key.clone());
                }
                // The commit is durable and shown; a type too many in a list is the smaller evil.
                Err(error) => tracing::warn!(%type_key, %error, "whether there is a resource left is not known"),
            }
        }
        gone
    }

    /// The key of a resource that is there.
    fn find(&self, table: &Table, type_key: &TypeKey) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(base) = keys::of_type(type_key) else { return Ok(None) };
        let end = keys::after(&base);
        let from = self.known.get(type_key).unwrap_or(&base).clone();
        let first = |from: Vec<u8>, to: Vec<u8>| table.range(from..to).next().transpose();
        let found = match first(from.clone(), end)? {
            Some(found) => Some(found),
            None => first(base, from)?,
        };
        Ok(found.map(|(key, _)| key.to_vec()))
    }
}
