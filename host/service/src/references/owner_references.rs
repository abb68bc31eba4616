//! Owner references of `meta`: whether one holds.

use mortise_resource::{BadEncoding, Error, goten::OwnerReference, pb};
use mortise_store::StoreError;

use super::{check::References, key::ResourceKey};
use crate::registry::Registry;

/// The reason for which it is not known whether an owner reference holds.
pub(crate) enum ReferenceError {
    Store(StoreError),
    /// The references of the owner's type cannot be recorded.
    Records(Error),
}

impl From<StoreError> for ReferenceError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<BadEncoding> for ReferenceError {
    fn from(fault: BadEncoding) -> Self {
        Self::Store(fault.into())
    }
}

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
        let of = |version: &str| pb::Type {
            group: owner.group.clone(),
            group_version: version.to_owned(),
            kind: owner.kind.clone(),
        };
        if !reference.version.is_empty() && registry.get(&of(&reference.version)).is_none() {
            return Ok(false);
        }
        if !reference.requires_owner_reference {
            return Ok(true);
        }
        if let Some(kind) = registry.get(&of(stored.id().group_version)) {
            self.passes.ensure(kind).await.map_err(ReferenceError::Records)?;
        }
        let Some(stored) = owner.stored(&self.core).await? else { return Ok(false) };
        Ok(stored.references()?.iter().any(|one| !one.field.is_empty() && ResourceKey::from(one) == *dependent))
    }
}
