//! From a changed resource to the resources of the managed type that have to be looked at.
//!
//! A mapper that follows something that may change (a reference, an index, code of its own) is asked about what the
//! resource was before as well, so that what was derived from the old target is put right too. In Consul it sees the new
//! target only, and the old one is orphaned.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use mortise_resource::pb;

use crate::{
    cache::Cache,
    index::{Keys, References, target},
    key::Slot,
    request::ReconcileError,
};

/// A mapper with code of its own.
#[async_trait]
pub trait Map: Send + Sync + 'static {
    /// Which resources of the managed type to reconcile. Results of another type are logged and left out. The resource
    /// may have been deleted, or be an older version of what is there now.
    ///
    /// # Errors
    /// Whatever went wrong; this resource is mapped again after a while, the others are not held up.
    async fn map(&self, cache: &Arc<Cache>, resource: &Arc<pb::Resource>) -> Result<Vec<pb::Id>, ReconcileError>;

    /// Whether to ask about former versions too. `false` is cheaper, and right when the answer depends on nothing but the
    /// resource's id and owner.
    fn follows(&self) -> bool {
        true
    }
}

/// How events of a watched type lead to requests.
#[derive(Clone)]
pub enum Mapper {
    /// Its owner.
    Owner,
    /// Its owner if that is of this type, which must be the managed one.
    OwnerOf(pb::Type),
    /// The resource of the managed type with the same name and tenancy, whatever its uid.
    SameName,
    /// What it refers to.
    References(References),
    /// What is found in the cache under keys made of the resource.
    Index {
        /// The cached type to look in.
        of: pb::Type,
        /// The index to look in.
        index: String,
        /// Makes the keys. Found is what begins with one of them.
        keys: Keys,
        /// How the found ones lead to requests; `None` if they are of the managed type, and meant themselves.
        then: Option<Box<Mapper>>,
    },
    /// Code.
    Custom(Arc<dyn Map>),
}

impl Mapper {
    /// Whether former versions may lead elsewhere.
    pub(crate) fn follows(&self) -> bool {
        match self {
            // Owner, name and tenancy of a resource never change.
            Self::Owner | Self::OwnerOf(_) | Self::SameName => false,
            Self::References(_) | Self::Index { .. } => true,
            Self::Custom(map) => map.follows(),
        }
    }

    /// Which resources to reconcile.
    pub(crate) fn map<'a>(
        &'a self,
        managed: &'a pb::Type,
        cache: &'a Arc<Cache>,
        resource: &'a Arc<pb::Resource>,
    ) -> BoxFuture<'a, Result<Vec<pb::Id>, ReconcileError>> {
        async move {
            Ok(match self {
                Self::Owner => resource.owner.iter().cloned().collect(),
                Self::OwnerOf(of) => {
                    let slot = Slot::from(of);
                    let fits = |owner: &&pb::Id| owner.r#type.as_ref().is_some_and(|t| slot.holds(t));
                    resource.owner.iter().filter(fits).cloned().collect()
                }
                Self::SameName => {
                    let same = |id: &pb::Id| pb::Id { uid: String::new(), r#type: Some(managed.clone()), ..id.clone() };
                    resource.id.iter().map(same).collect()
                }
                Self::References(find) => find(resource)?.into_iter().map(target).collect(),
                Self::Index { of, index, keys, then } => {
                    let mut ids = Vec::new();
                    for key in keys(resource)? {
                        let found = cache.list(of, index, &key);
                        let found = found.map_err(|e| ReconcileError::because(e.to_string(), e))?;
                        for resource in &found {
                            match then {
                                None => ids.extend(resource.id.clone()),
                                Some(then) => ids.extend(then.map(managed, cache, resource).await?),
                            }
                        }
                    }
                    ids
                }
                Self::Custom(map) => map.map(cache, resource).await?,
            })
        }
        .boxed()
    }
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::OwnerOf(of) => write!(f, "owner of type {}", mortise_resource::types::gvk(of)),
            Self::SameName => f.write_str("same name"),
            Self::References(_) => f.write_str("references"),
            Self::Index { index, then, .. } => write!(f, "index {index:?}, then {then:?}"),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}
