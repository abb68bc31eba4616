//! What is to be done before the server has what a state says.

use mortise_resource::pb;
use serde::{Deserialize, Serialize};

/// What a state is of that the server does not have yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pending {
    /// A resource that is to change its type.
    Move {
        /// As the server has it.
        from: Origin,
    },
    /// Something outside that is to become a resource.
    Import {
        /// What the outside calls it.
        external_id: String,
    },
}

/// A resource in its old type.
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
    /// Of its id.
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

    /// Its id.
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
