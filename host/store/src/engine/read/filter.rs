//! Which resources a scan is about, as a predicate over resources.

use mortise_resource::{pb, tenancy};

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
    pub(crate) fn matches(&self, resource: &pb::Resource) -> bool {
        match self {
            Self::Query(query) => matches_query(query, resource),
            Self::Owner(owner) => resource.owner.as_ref().is_some_and(|id| same_incarnation(id, owner)),
        }
    }
}

fn matches_query(query: &Query, resource: &pb::Resource) -> bool {
    let unit = |wanted: &str, found: &str| wanted == tenancy::WILDCARD || wanted == found;
    let Some(id) = &resource.id else { return false };
    let (group, kind) = kind(id);
    let (partition, namespace) = units(id);
    group == query.type_key.group
        && kind == query.type_key.kind
        && unit(&query.tenancy.partition, partition)
        && unit(&query.tenancy.namespace, namespace)
        && id.name.starts_with(&query.name_prefix)
}

/// Whether two ids name one incarnation, GroupVersion aside. An absent tenancy is an empty one, as in keys.
pub(crate) fn same_incarnation(a: &pb::Id, b: &pb::Id) -> bool {
    a.uid == b.uid && a.name == b.name && kind(a) == kind(b) && units(a) == units(b)
}

fn kind(id: &pb::Id) -> (&str, &str) {
    id.r#type.as_ref().map_or(("", ""), |t| (&t.group, &t.kind))
}

fn units(id: &pb::Id) -> (&str, &str) {
    id.tenancy.as_ref().map_or(("", ""), |t| (&t.partition, &t.namespace))
}
