//! New ids and timestamps, parts of ids, and the query for a whole type.

use jiff::{Timestamp, Zoned, tz::TimeZone};
use mortise_resource::{IdRef, pb, tenancy::WILDCARD, types};
use mortise_store::{Query, TypeKey};
use ulid::Ulid;

/// Makes a new ULID, for uids and generations.
pub(crate) fn ulid() -> String {
    Ulid::generate().to_string()
}

/// Returns the current time, as RFC 3339 in the server's time zone, to the second.
pub(crate) fn rfc3339() -> String {
    let now = Timestamp::try_from(mortise_clock::date())
        .map_or_else(|_| Zoned::now(), |now| now.to_zoned(TimeZone::system()));
    now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string().replace("+00:00", "Z")
}

/// Returns the current time, as a protobuf timestamp.
pub(crate) fn timestamp() -> prost_types::Timestamp {
    mortise_clock::timestamp()
}

/// Returns the current time, as a protobuf timestamp with the precision of a uid, milliseconds.
pub(crate) fn milliseconds() -> prost_types::Timestamp {
    mortise_clock::timestamp_millis()
}

/// Returns the query for the resources of a type in every tenancy.
pub(crate) fn query_everywhere(wanted: &pb::Type) -> Query {
    let tenancy = pb::Tenancy { partition: WILDCARD.to_owned(), namespace: WILDCARD.to_owned() };
    Query { type_key: TypeKey::from(wanted), tenancy, name_prefix: String::new() }
}

/// Returns the type of an id. Ids from the store and checked ones have a type.
pub(crate) fn type_of(id: &pb::Id) -> pb::Type {
    id.r#type.clone().unwrap_or_default()
}

/// Returns the uid of a resource; empty without one.
pub(crate) fn uid_of(resource: &pb::Resource) -> &str {
    resource.id.as_ref().map(|id| id.uid.as_str()).unwrap_or_default()
}

/// Returns the tenancy of everything in a unit: in a partition, or else in a namespace.
pub(crate) fn within_unit(unit: IdRef<'_>) -> pb::Tenancy {
    match unit.kind == types::partition().kind {
        true => pb::Tenancy { partition: unit.name.to_owned(), namespace: WILDCARD.to_owned() },
        false => pb::Tenancy { partition: unit.partition.to_owned(), namespace: unit.name.to_owned() },
    }
}

/// Returns the tenancy of a checked id.
pub(crate) fn tenancy_of(id: &pb::Id) -> &pb::Tenancy {
    static NO_TENANCY: pb::Tenancy = pb::Tenancy { partition: String::new(), namespace: String::new() };
    id.tenancy.as_ref().unwrap_or(&NO_TENANCY)
}

#[cfg(test)]
mod tests {
    #[test]
    fn shapes() {
        assert!(mortise_resource::ulid::is_valid(&super::ulid()));
        let text = super::rfc3339();
        assert!(text.parse::<jiff::Timestamp>().is_ok(), "{text}");
        assert!(!text.contains('.'), "to the second: {text}");
    }
}
