//! Edits of the table that belong together: all of them happen, or none.

use sled::IVec;

/// What happens to one key.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// The key.
    pub(crate) key: IVec,
    /// Its value from now on; `None` removes it.
    pub(crate) value: Option<IVec>,
    /// Whether the key was never used before. Removing it later then leaves nothing to be remembered.
    pub(crate) first: bool,
}

/// Edits in order: the last one about a key counts.
#[derive(Debug, Default)]
pub(crate) struct WriteBatch {
    edits: Vec<Edit>,
}

impl WriteBatch {
    /// Puts a value under a key.
    pub(crate) fn insert(&mut self, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.edits.push(Edit { key: key.into(), value: Some(value.into()), first: false });
    }

    /// Puts a value under a key that never had one, nor ever will again once it is removed.
    pub(crate) fn insert_first(&mut self, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.edits.push(Edit { key: key.into(), value: Some(value.into()), first: true });
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove(&mut self, key: impl Into<IVec>) {
        self.edits.push(Edit { key: key.into(), value: None, first: false });
    }

    /// The edits, in order.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// As sled takes it.
    pub(crate) fn into_sled(self) -> sled::Batch {
        let mut batch = sled::Batch::default();
        for Edit { key, value, .. } in self.edits {
            put(&mut batch, key, value);
        }
        batch
    }
}

/// Adds to a batch of sled what becomes of a key.
pub(crate) fn put(batch: &mut sled::Batch, key: IVec, value: Option<IVec>) {
    match value {
        Some(value) => batch.insert(key, value),
        None => batch.remove(key),
    }
}
