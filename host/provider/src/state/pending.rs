//! Changes that must be made before the server has the resource of a state; the state's private data records them.

use mortise_resource::pb;
use serde::{Deserialize, Serialize};

/// A pending change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pending {
    /// A resource that is to change its type.
    Move {
        /// The resource in its old type.
        from: Origin,
    },
    /// Something outside that is to become a resource.
    Import {
        /// Its name outside.
        external_id: String,
    },
}

/// The id of a resource in its old type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    group: String,
    group_version: String,
    kind: String,
    partition: String,
    namespace: String,
    name: String,
    uid: String,
}

impl Origin {
    /// Records the id.
    #[must_use]
    pub fn of(id: &pb::Id) -> Self {
        let kind = id.r#type.clone().unwrap_or_default();
        let tenancy = id.tenancy.clone().unwrap_or_default();
        Self {
            group: kind.group,
            group_version: kind.group_version,
            kind: kind.kind,
            partition: tenancy.partition,
            namespace: tenancy.namespace,
            name: id.name.clone(),
            uid: id.uid.clone(),
        }
    }

    /// The id.
    #[must_use]
    pub fn to_id(&self) -> pb::Id {
        pb::Id {
            r#type: Some(pb::Type {
                group: self.group.clone(),
                group_version: self.group_version.clone(),
                kind: self.kind.clone(),
            }),
            tenancy: Some(pb::Tenancy { partition: self.partition.clone(), namespace: self.namespace.clone() }),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}
