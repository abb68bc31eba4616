//! Owner references of `meta`: whether an owner reference holds.

use mortise_resource::{goten::OwnerReference, pb};

use super::{check::References, error::ReferenceError, key::ResourceKey};
use crate::registry::Registry;

impl References {
    /// Whether an owner reference holds.
    pub(crate) async fn holds(
        &self,
        registry: &Registry,
        reference: &OwnerReference,
        owner: &ResourceKey,
        dependent: &ResourceKey,
    ) -> Result<bool, ReferenceError> {
        let Some(stored) = owner.stored(&self.core).await? else { return Ok(false) };
        let artist = |version: &str| pb::Type {
            group: owner.group.clone(),
            group_version: version.to_owned(),
            kind: owner.kind.clone(),
        };
        if !reference.version.is_empty() && registry.get(&artist(&reference.version)).is_none() {
            return Ok(false);
        }
        if !reference.requires_owner_reference {
            return Ok(true);
        }
        if let Some(kind) = registry.get(&artist(stored.id().group_version)) {
            self.passes.ensure(kind).await.map_err(ReferenceError::Records)?;
        }
        let Some(stored) = owner.stored(&self.core).await? else { return Ok(false) };
        Ok(stored
            .references()?
            .iter()
            .any(|reference| !reference.field.is_empty() && ResourceKey::from(reference) == *dependent))
    }
}
