//! The references of a resource in both directions, as its caller may see them. Resources that the caller may not read
//! are counted without their names.
//!
//! # Limits
//! [`MAX_LINKS`] links in each direction, and [`MAX_READ_RESOURCES`] resources read.

use std::collections::{BTreeSet, VecDeque};

use mortise_resource::{
    EncodedResource, EncodingError, Error,
    data::{GetTreeResponse, OnDelete, ReferenceRecord, TreeLink, tree_link::By},
    pb,
};
use mortise_store::StoreError;

use super::{
    check::References,
    key::ResourceKey,
    records::{is_owner_record, is_past},
};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    registry::Registry,
    rules::is_readable,
};

/// Links in each direction.
const MAX_LINKS: usize = 1_000;
/// All behaviours of references, for a search of every referrer.
const ALL_BEHAVIOURS: [OnDelete; 7] = [
    OnDelete::Unspecified,
    OnDelete::Block,
    OnDelete::Unset,
    OnDelete::Cascade,
    OnDelete::AsyncUnset,
    OnDelete::AsyncCascade,
    OnDelete::AllowDangling,
];
/// Resources read, those that the caller may not see included.
const MAX_READ_RESOURCES: usize = 10_000;

/// A walk along links.
pub(crate) struct Walk<'w> {
    core: &'w Core,
    references: &'w References,
    registry: &'w Registry,
    caller: &'w Caller,
    found: GetTreeResponse,
    looked_at: usize,
}

impl<'w> Walk<'w> {
    pub(crate) fn new(references: &'w References, registry: &'w Registry, caller: &'w Caller) -> Self {
        Self { core: &references.core, references, registry, caller, found: GetTreeResponse::default(), looked_at: 0 }
    }

    /// Returns the links of a resource, up to a distance.
    pub(crate) async fn walk(mut self, root: EncodedResource, depth: u32) -> Result<GetTreeResponse, Error> {
        self.up(root.clone(), depth).await?;
        self.down(root, depth).await?;
        Ok(self.found)
    }

    /// Counts a read resource. Returns whether the limit is reached.
    fn is_at_the_bound(&mut self) -> bool {
        self.looked_at += 1;
        self.found.is_cut |= self.looked_at > MAX_READ_RESOURCES;
        self.looked_at > MAX_READ_RESOURCES
    }

    async fn up(&mut self, root: EncodedResource, depth: u32) -> Result<(), Error> {
        let mut seen = BTreeSet::from([ResourceKey::from(root.id())]);
        let mut open = VecDeque::from([(ResourceKey::from(root.id()), 1)]);
        while let Some((from, distance)) = open.pop_front() {
            let Some(from) = from.stored(self.core).await.map_err(|e| follow_fault(&e))? else { continue };
            let dependent = from.decode_id()?;
            let owner = from.decode_owner()?.map(|owner| (ResourceKey::from(&owner), By::Owner(true), None));
            let records = from.references()?;
            let recorded = records.iter().filter(|record| !is_past(record)).map(|record| match record.field.as_str() {
                "" => (ResourceKey::from(record), By::OwnerReference(true), None),
                field => (ResourceKey::from(record), By::Field(field.to_owned()), Some(record.on_delete())),
            });
            for (key, by, on_delete) in owner.into_iter().chain(recorded) {
                if self.is_at_the_bound() {
                    return Ok(());
                }
                // An owner that was created again is not the owner.
                let is_its = |record: &&ReferenceRecord| is_owner_record(record) && ResourceKey::from(*record) == key;
                let bound = records.iter().find(is_its).filter(|_| matches!(by, By::OwnerReference(_)));
                let bound = bound.map(|record| record.owner_uid.clone()).unwrap_or_default();
                // A target that the caller may not read looks like a missing one.
                let target = match key.stored(self.core).await.map_err(|e| follow_fault(&e))? {
                    Some(target) if !bound.is_empty() && target.uid() != bound => None,
                    Some(target) if is_readable(self.registry, self.caller, &target).await => Some(target),
                    _ => None,
                };
                if self.found.up.len() >= MAX_LINKS {
                    self.found.is_cut = true;
                    return Ok(());
                }
                let id = match &target {
                    Some(target) => target.decode_id()?,
                    None => Some(key.id()),
                };
                self.found.up.push(link(dependent.clone(), id, by, on_delete, distance));
                if target.is_some() && distance < depth && seen.insert(key.clone()) {
                    open.push_back((key, distance + 1));
                }
            }
        }
        Ok(())
    }

    async fn down(&mut self, root: EncodedResource, depth: u32) -> Result<(), Error> {
        let mut seen = BTreeSet::from([ResourceKey::from(root.id())]);
        let mut open = VecDeque::from([(ResourceKey::from(root.id()), 1)]);
        while let Some((from, distance)) = open.pop_front() {
            let Some(from) = from.stored(self.core).await.map_err(|e| follow_fault(&e))? else { continue };
            let (key, target) = (ResourceKey::from(from.id()), from.decode_id()?.unwrap_or_default());
            for kind in self.registry.referring_to(&key.group, &key.kind) {
                self.references.passes.ensure(kind).await?;
            }
            let backend = &self.core.backend;
            let mut scans = vec![(backend.scan_owned(&target).await.map_err(|e| follow_fault(&e))?, None)];
            for on_delete in ALL_BEHAVIOURS {
                let scan = backend.scan_referrers(&key.expected(), on_delete).await;
                scans.push((scan.map_err(|e| follow_fault(&e))?, Some(on_delete)));
            }
            for (mut scan, on_delete) in scans {
                while let Some(page) = scan.next().await.map_err(|e| follow_fault(&e))? {
                    for dependent in page {
                        if self.is_at_the_bound() {
                            return Ok(());
                        }
                        if !is_readable(self.registry, self.caller, &dependent).await {
                            self.found.hidden = self.found.hidden.saturating_add(1);
                            continue;
                        }
                        if self.found.down.len() >= MAX_LINKS {
                            self.found.is_cut = true;
                            return Ok(());
                        }
                        let (by, on_delete) = match on_delete {
                            // The record of an entry that does not count.
                            Some(how @ OnDelete::AllowDangling) if field_of(&dependent, &key, how)?.is_empty() => {
                                continue;
                            }
                            None => (By::Owner(true), None),
                            Some(OnDelete::Unspecified) => (By::OwnerReference(true), None),
                            Some(how) => (By::Field(field_of(&dependent, &key, how)?), Some(how)),
                        };
                        let id = dependent.decode_id()?;
                        self.found.down.push(link(id, Some(target.clone()), by, on_delete, distance));
                        let key = ResourceKey::from(dependent.id());
                        if distance < depth && seen.insert(key.clone()) {
                            open.push_back((key, distance + 1));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn link(
    dependent: Option<pb::Id>,
    target: Option<pb::Id>,
    by: By,
    on_delete: Option<OnDelete>,
    distance: u32,
) -> TreeLink {
    TreeLink { dependent, target, on_delete: on_delete.unwrap_or_default().into(), distance, by: Some(by) }
}

/// Returns the first field by which a resource refers to another with this behaviour.
pub(crate) fn field_of(
    referrer: &EncodedResource,
    target: &ResourceKey,
    on_delete: OnDelete,
) -> Result<String, EncodingError> {
    let records = referrer.references()?;
    let record = records
        .into_iter()
        .find(|reference| reference.on_delete() == on_delete && ResourceKey::from(reference) == *target);
    Ok(record.map(|record| record.field).unwrap_or_default())
}

/// Returns the error for a fault of the store during the walk.
pub(crate) fn follow_fault(error: &StoreError) -> Error {
    store_fault("failed to follow references", error)
}
