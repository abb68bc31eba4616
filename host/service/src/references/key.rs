//! A resource by its place, without GroupVersion and incarnation, as references name it.

use std::fmt;

use mortise_resource::{EncodedResource, IdRef, data::ReferenceRecord, pb, types};
use mortise_store::{ExpectedId, StoreError, TypeKey};

use crate::core::Core;

/// The place of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceKey {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) partition: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl From<IdRef<'_>> for ResourceKey {
    fn from(IdRef { group, kind, partition, namespace, name, .. }: IdRef<'_>) -> Self {
        let [group, kind, partition, namespace, name] = [group, kind, partition, namespace, name].map(str::to_owned);
        Self { group, kind, partition, namespace, name }
    }
}

impl From<&pb::Id> for ResourceKey {
    fn from(id: &pb::Id) -> Self {
        Self::from(IdRef::from(id))
    }
}

impl From<&ReferenceRecord> for ResourceKey {
    fn from(ReferenceRecord { group, kind, partition, namespace, name, .. }: &ReferenceRecord) -> Self {
        let id = IdRef { group, kind, partition, namespace, name, ..IdRef::default() };
        Self::from(id)
    }
}

impl ResourceKey {
    /// Returns its id, without a GroupVersion.
    pub(crate) fn id(&self) -> pb::Id {
        pb::Id {
            uid: String::new(),
            name: self.name.clone(),
            r#type: Some(pb::Type { group: self.group.clone(), group_version: String::new(), kind: self.kind.clone() }),
            tenancy: Some(pb::Tenancy { partition: self.partition.clone(), namespace: self.namespace.clone() }),
        }
    }

    /// Reads the resource that is stored there, in any GroupVersion.
    pub(crate) async fn stored(&self, core: &Core) -> Result<Option<EncodedResource>, StoreError> {
        core.stored(&self.id()).await
    }

    /// Returns the id for an expectation of the store.
    pub(crate) fn expected(&self) -> ExpectedId {
        ExpectedId {
            type_key: TypeKey { group: self.group.clone(), kind: self.kind.clone() },
            partition: self.partition.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: String::new(),
        }
    }

    /// Whether a resource has this key.
    pub(crate) fn is(&self, resource: &EncodedResource) -> bool {
        *self == Self::from(resource.id())
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let described = types::describe(&self.id());
        // The key has no GroupVersion.
        f.write_str(&described.replacen("..", ".", 1))
    }
}
