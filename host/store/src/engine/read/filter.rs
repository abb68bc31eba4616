//! Which resources a scan is about, as a predicate over resources.

use mortise_resource::{EncodedResource, IdRef, pb, tenancy};

use crate::Query;

/// What a list, a watch or a list by owner asks for.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    /// Of a type, in a tenancy, by prefix.
    Query(Query),
    /// Children of an incarnation.
    Owner(pb::Id),
}

impl Filter {
    /// Whether the resource is asked for.
    pub(crate) fn matches(&self, resource: &EncodedResource) -> bool {
        match self {
            Self::Query(query) => matches_query(query, resource),
            // An owner that does not decode is nobody's.
            Self::Owner(owner) => matches!(
                resource.decode_owner(), Ok(Some(id)) if IdRef::from(&id).is_same_incarnation(IdRef::from(owner))
            ),
        }
    }
}

fn matches_query(query: &Query, resource: &EncodedResource) -> bool {
    let Query { type_key, tenancy: pb::Tenancy { partition, namespace }, name_prefix } = query;
    resource.is_of_kind(&type_key.group, &type_key.kind)
        && (partition == tenancy::WILDCARD || partition == resource.partition())
        && (namespace == tenancy::WILDCARD || namespace == resource.namespace())
        && (name_prefix.is_empty() || resource.name().starts_with(name_prefix))
}
