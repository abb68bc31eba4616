//! Mappers: from a changed resource to the resources of the managed type that have to be reconciled.
//!
//! A mapper with a result that may change with the resource (a reference, an index, its own code) maps former versions
//! as well, so that the old target is reconciled too; it is asked again about a version on which it failed. In Consul a
//! mapper sees the new target only, and the old one is orphaned.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use mortise_resource::{EncodedResource, pb};

use crate::{
    cache::{Keys, References, target, undecodable},
    key::GroupKind,
    reconciler::Context,
    request::ReconcileError,
};

/// A mapper with its own code.
#[async_trait]
pub trait Map: Send + Sync + 'static {
    /// Maps a resource to resources of the managed type. A mapper that writes has to report its writes to the context,
    /// as a reconcile has. Results of another type are logged and skipped. The resource may be deleted, or be a former
    /// version.
    ///
    /// # Errors
    /// Any error. This version of the resource is mapped again after a wait, a former version 15 times at most; other
    /// resources are not delayed.
    async fn map(&self, context: &Context, resource: &pb::Resource) -> Result<Vec<pb::Id>, ReconcileError>;

    /// Whether to map former versions too. `false` is cheaper, and right when the result depends on the resource's id
    /// and owner alone.
    fn follows(&self) -> bool {
        true
    }
}

/// Rules by which changes of a watched type lead to requests.
#[derive(Clone)]
pub enum Mapper {
    /// The owner, if it is of the managed type.
    Owner,
    /// The resource of the managed type with the same name and tenancy, and any uid.
    SameName,
    /// The targets of its references.
    References(References),
    /// The cached resources under keys that are made of the resource.
    Index {
        /// The cached type to look in. It should be the managed type, since other results are skipped.
        kind: pb::Type,
        /// The index to look in.
        index: String,
        /// Makes the keys; every index key that begins with one of them matches.
        keys: Keys,
    },
    /// The mapper's own code.
    Custom(Arc<dyn Map>),
}

impl Mapper {
    /// Whether former versions have to be mapped too.
    pub(crate) fn follows(&self) -> bool {
        match self {
            // Owner, name and tenancy of a resource never change.
            Self::Owner | Self::SameName => false,
            Self::References(_) | Self::Index { .. } => true,
            Self::Custom(map) => map.follows(),
        }
    }

    /// Maps a resource.
    pub(crate) fn map<'a>(
        &'a self,
        context: &'a Context,
        resource: &'a EncodedResource,
    ) -> BoxFuture<'a, Result<Vec<pb::Id>, ReconcileError>> {
        async move {
            let managed = context.managed();
            Ok(match self {
                Self::Owner => {
                    let managed = GroupKind::from(managed);
                    let fits = |owner: &&pb::Id| owner.r#type.as_ref().is_some_and(|t| managed.matches(t));
                    resource.decode_owner().map_err(undecodable)?.iter().filter(fits).cloned().collect()
                }
                Self::SameName => {
                    let same = |id: &pb::Id| pb::Id { uid: String::new(), r#type: Some(managed.clone()), ..id.clone() };
                    resource.decode_id().map_err(undecodable)?.iter().map(same).collect()
                }
                Self::References(find) => {
                    find(&resource.decode().map_err(undecodable)?)?.into_iter().map(target).collect()
                }
                Self::Index { kind: resource_type, index, keys } => {
                    let mut ids = Vec::new();
                    for key in keys(&resource.decode().map_err(undecodable)?)? {
                        let found = context.cache().list(resource_type, index, &key);
                        let found = found.map_err(|e| ReconcileError::because(e.to_string(), e))?;
                        for resource in found {
                            ids.extend(resource.decode_id().map_err(undecodable)?);
                        }
                    }
                    ids
                }
                Self::Custom(map) => map.map(context, &resource.decode().map_err(undecodable)?).await?,
            })
        }
        .boxed()
    }
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::SameName => f.write_str("same name"),
            Self::References(_) => f.write_str("references"),
            Self::Index { index, .. } => write!(f, "index {index:?}"),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}
