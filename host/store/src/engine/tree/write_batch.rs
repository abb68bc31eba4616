//! Edits of the table that happen together or not at all.

use sled::IVec;

/// An edit of one key.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// Key.
    pub(crate) key: IVec,
    /// New value; `None` removes the key.
    pub(crate) value: Option<IVec>,
    /// Whether the key was never used before. A later removal then leaves no trace to store.
    pub(crate) first: bool,
}

/// Edits in order: the last edit of a key counts.
#[derive(Debug, Default)]
#[cfg_attr(feature = "planted-faults", derive(Clone))]
pub(crate) struct WriteBatch {
    edits: Vec<Edit>,
}

impl WriteBatch {
    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.edits.push(Edit { key: key.into(), value: Some(value.into()), first: false });
    }

    /// Sets the value of a key that never had one, and will never have one after its removal.
    pub(crate) fn insert_first(&mut self, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.edits.push(Edit { key: key.into(), value: Some(value.into()), first: true });
    }

    /// Removes a key, if it exists.
    pub(crate) fn remove(&mut self, key: impl Into<IVec>) {
        self.edits.push(Edit { key: key.into(), value: None, first: false });
    }

    /// Returns the edits, in order.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Converts the edits to a batch of sled.
    pub(crate) fn into_sled(self) -> sled::Batch {
        let mut batch = sled::Batch::default();
        for Edit { key, value, .. } in self.edits {
            put(&mut batch, key, value);
        }
        batch
    }
}

/// Adds an edit of a key to a batch of sled.
pub(crate) fn put(batch: &mut sled::Batch, key: IVec, value: Option<IVec>) {
    match value {
        Some(value) => batch.insert(key, value),
        None => batch.remove(key),
    }
}
