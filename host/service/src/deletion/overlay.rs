//! A supposed state of the store: the stored resources, with changes that a preview supposes.

use std::collections::HashMap;

use mortise_resource::{EncodedResource, EncodingError, data::OnDelete};
use mortise_store::StoreError;

use crate::{core::Core, references::ResourceKey};

/// Supposed changes; none by default.
#[derive(Default)]
pub(super) struct Overlay {
    /// Changed resources; `None` for those that are gone.
    changed: HashMap<ResourceKey, Option<EncodedResource>>,
    bytes: usize,
}

impl Overlay {
    /// Supposes a resource to be so; `None` for gone.
    pub(super) fn set(&mut self, key: ResourceKey, now: Option<EncodedResource>) {
        let bytes = |resource: Option<&EncodedResource>| resource.map_or(0, |resource| resource.bytes().len());
        self.bytes += bytes(now.as_ref());
        let before = self.changed.insert(key, now).flatten();
        self.bytes -= bytes(before.as_ref());
    }

    /// Returns the number of changed resources, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.changed.len(), self.bytes)
    }

    /// Returns a resource as supposed; `None` if it is gone.
    pub(super) fn now(&self, stored: EncodedResource) -> Option<EncodedResource> {
        if self.changed.is_empty() {
            return Some(stored);
        }
        match self.changed.get(&ResourceKey::from(stored.id())) {
            Some(now) => now.clone(),
            None => Some(stored),
        }
    }

    /// Returns a referrer as supposed; `None` if it is gone, or refers to the target no longer.
    pub(super) fn referrer(
        &self,
        stored: EncodedResource,
        target: &ResourceKey,
        on_delete: OnDelete,
    ) -> Result<Option<EncodedResource>, EncodingError> {
        if self.changed.is_empty() {
            return Ok(Some(stored));
        }
        let Some(now) = self.now(stored) else { return Ok(None) };
        let refers = now
            .references()?
            .iter()
            .any(|record| record.on_delete() == on_delete && ResourceKey::from(record) == *target);
        Ok(refers.then_some(now))
    }

    /// Reads a resource as supposed.
    pub(super) async fn read(&self, core: &Core, key: &ResourceKey) -> Result<Option<EncodedResource>, StoreError> {
        match self.changed.get(key) {
            Some(now) => Ok(now.clone()),
            None => key.stored(core).await,
        }
    }
}
