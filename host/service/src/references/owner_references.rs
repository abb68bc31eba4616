//! Owner references of `meta`: the owner for which an entry holds.
//!
//! An entry is bound to the incarnation of its owner that was the first one there, and no other ever takes its place.

use mortise_resource::{EncodedResource, data::ReferenceRecord, goten::OwnerReference, pb};

use super::{check::References, error::ReferenceError, key::ResourceKey};
use crate::{core::Core, registry::Registry, rules::region};

/// An owner that an entry is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BoundOwner {
    pub(crate) uid: String,
    /// Its region, if it is another one.
    pub(crate) region: String,
}

/// Whether the owner of an entry is in another region: absence here says nothing about it.
pub(crate) fn is_elsewhere(core: &Core, entry: &OwnerReference, known: Option<&ReferenceRecord>) -> bool {
    let Some(here) = core.region() else { return false };
    let is_other = |region: &str| !region.is_empty() && region != here;
    is_other(&entry.region) || known.is_some_and(|known| is_other(&known.owner_region))
}

impl References {
    /// Returns the owner for which an entry holds; `None` if it does not hold. `known` is the record of the entry.
    pub(crate) async fn owner_for(
        &self,
        registry: &Registry,
        entry: &OwnerReference,
        known: Option<&ReferenceRecord>,
        owner: &ResourceKey,
        dependent: &ResourceKey,
    ) -> Result<Option<BoundOwner>, ReferenceError> {
        let Some(stored) = owner.stored(&self.core).await? else { return Ok(None) };
        let bound = known.map(|known| known.owner_uid.as_str()).unwrap_or_default();
        if [bound, &entry.uid].iter().any(|uid| !uid.is_empty() && *uid != stored.uid()) {
            return Ok(None);
        }
        let region = self.region_of(&stored)?;
        let here = self.core.region().unwrap_or_default();
        if !here.is_empty()
            && !entry.region.is_empty()
            && entry.region != *if region.is_empty() { here } else { &region }
        {
            return Ok(None);
        }
        let owners_type = |version: &str| pb::Type {
            group: owner.group.clone(),
            group_version: version.to_owned(),
            kind: owner.kind.clone(),
        };
        if bound.is_empty() && !entry.version.is_empty() && registry.get(&owners_type(&entry.version)).is_none() {
            return Ok(None);
        }
        let found = BoundOwner { uid: stored.uid().to_owned(), region };
        if !entry.requires_owner_reference {
            return Ok(Some(found));
        }
        if let Some(kind) = registry.get(&owners_type(stored.id().group_version)) {
            self.passes.ensure(kind).await.map_err(ReferenceError::Records)?;
        }
        let stored = owner.stored(&self.core).await?.filter(|stored| stored.uid() == found.uid);
        let Some(stored) = stored else { return Ok(None) };
        let refers = |record: &ReferenceRecord| !record.field.is_empty() && ResourceKey::from(record) == *dependent;
        Ok(stored.references()?.iter().any(refers).then_some(found))
    }

    /// Returns the region of a resource, if it is another one.
    fn region_of(&self, stored: &EncodedResource) -> Result<String, ReferenceError> {
        let Some(here) = self.core.region() else { return Ok(String::new()) };
        let meta = stored.decode_meta()?;
        let region = region::syncing_of(meta.as_ref()).map(|syncing| syncing.owning_region.clone()).unwrap_or_default();
        Ok(if region == here { String::new() } else { region })
    }
}
