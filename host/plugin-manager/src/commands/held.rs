//! Resources that finalizers hold when their plugin is removed.
//!
//! The name of a finalizer does not show its owner. So all finalizers but the host's count, on resources of the types
//! that the plugin brought or its controllers managed.
//!
//! Cost: decodes the stored resources of these types, up to [`MAX_READ`], page by page. The list ends at [`MAX_LISTED`]
//! or [`MAX_BYTES`]. Safe to cancel.

use std::{collections::BTreeSet, sync::Arc};

use mortise_resource::{data, meta};
use mortise_service::registry::Registry;
use mortise_store::{Backend, StoreError, TypeKey};
use prost::Message as _;

use crate::load::{canary::query_everywhere, types::manifests_of};

/// Most listed resources.
const MAX_LISTED: usize = 100;
/// Bytes of the list after which it ends.
const MAX_BYTES: usize = 256 << 10;
/// Most resources that are read.
const MAX_READ: usize = 100_000;

/// Returns the types whose resources may have finalizers of the plugin.
pub(super) fn types(registry: &Registry, plugin: &str) -> BTreeSet<TypeKey> {
    let manifests = manifests_of(registry, plugin);
    let of_manifest = manifests.iter().flat_map(|manifest| {
        let managed = manifest.controllers.iter().map(|controller| &controller.manages);
        manifest.types.iter().map(|decl| &decl.gvk).chain(managed)
    });
    of_manifest.map(|gvk| TypeKey::from(&gvk.to_pb())).collect()
}

/// Lists the held resources in order. The answer also says whether it is incomplete.
///
/// # Errors
/// Faults of the store.
pub(super) async fn list(
    backend: &Arc<dyn Backend>,
    types: BTreeSet<TypeKey>,
) -> Result<(Vec<data::HeldResource>, bool), StoreError> {
    let (mut held, mut bytes, mut read) = (Vec::new(), 0, 0);
    for type_key in types {
        let mut stored = backend.scan(&query_everywhere(type_key)).await?;
        while let Some(page) = stored.next().await? {
            for resource in &page {
                if held.len() == MAX_LISTED || bytes > MAX_BYTES || read == MAX_READ {
                    return Ok((held, true));
                }
                read += 1;
                // A resource that cannot be decoded shows no finalizers; `mortise check` names it.
                let Ok(resource) = resource.decode() else { continue };
                let names = meta::finalizers(&resource.metadata).into_iter();
                let finalizers: Vec<_> =
                    names.filter(|name| !name.starts_with(meta::HOST_FINALIZERS)).map(str::to_owned).collect();
                if !finalizers.is_empty() {
                    let resource = data::HeldResource { id: resource.id, finalizers };
                    bytes += resource.encoded_len();
                    held.push(resource);
                }
            }
        }
    }
    Ok((held, false))
}
