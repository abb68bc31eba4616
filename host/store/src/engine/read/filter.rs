//! Filters of scans, as predicates over resources.

use mortise_resource::{
    EncodedResource, IdRef,
    data::{OnDelete, ReferenceRecord},
    pb, tenancy,
};

use crate::{ExpectedId, Query, ScanPart, Term, TermSubject};

/// Selection of a list, a watch, or a list by owner or by referenced resource.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    /// Resources of a type, in a tenancy, by prefix of the name.
    Query(Query),
    /// A part of a query.
    Part(Query, ScanPart),
    /// Children of an incarnation.
    Owner(pb::Id),
    /// Resources that refer to a resource with this behaviour.
    Referrer(ExpectedId, OnDelete),
}

impl Filter {
    /// Whether the resource is selected.
    pub(crate) fn matches(&self, resource: &EncodedResource) -> bool {
        match self {
            Self::Query(query) => matches_query(query, resource),
            Self::Part(query, part) => matches_query(query, resource) && matches_part(part, resource),
            // An owner that does not decode matches no id.
            Self::Owner(owner) => matches!(
                resource.decode_owner(), Ok(Some(id)) if IdRef::from(&id).is_same_incarnation(IdRef::from(owner))
            ),
            // Records that do not decode refer to nothing.
            Self::Referrer(target, on_delete) => resource.references().is_ok_and(|records| {
                records.iter().any(|record| record.on_delete() == *on_delete && is_about(record, target))
            }),
        }
    }
}

/// Appends the requirements of a query on the place of its resources to terms, which may select better.
pub(crate) fn with_place(terms: &[Term], query: &Query) -> Vec<Term> {
    let Query { tenancy: pb::Tenancy { partition, namespace }, name_prefix, .. } = query;
    let mut terms = terms.to_vec();
    match [partition, namespace].map(|unit| unit != tenancy::WILDCARD) {
        [true, true] => terms.push(Term::for_tenancy(&query.tenancy)),
        [true, false] => terms.push(Term::one(TermSubject::Partition, partition.clone())),
        [false, true] => terms.push(Term::one(TermSubject::Namespace, namespace.clone())),
        [false, false] => {}
    }
    if !name_prefix.is_empty() && !terms.iter().any(|term| term.subject == TermSubject::Name) {
        terms.push(Term::one(TermSubject::NamePrefix, name_prefix.clone()));
    }
    terms
}

fn is_about(record: &ReferenceRecord, target: &ExpectedId) -> bool {
    (&record.group, &record.kind) == (&target.type_key.group, &target.type_key.kind)
        && (&record.partition, &record.namespace) == (&target.partition, &target.namespace)
        && record.name == target.name
}

fn matches_query(query: &Query, resource: &EncodedResource) -> bool {
    let Query { type_key, tenancy: pb::Tenancy { partition, namespace }, name_prefix } = query;
    resource.has_kind(&type_key.group, &type_key.kind)
        && (partition == tenancy::WILDCARD || partition == resource.partition())
        && (namespace == tenancy::WILDCARD || namespace == resource.namespace())
        && (name_prefix.is_empty() || resource.name().starts_with(name_prefix))
}

fn matches_part(ScanPart { label, after }: &ScanPart, resource: &EncodedResource) -> bool {
    let place = || (resource.partition(), resource.namespace(), resource.name());
    after.as_ref().is_none_or(|after| place() > (&after.partition, &after.namespace, &after.name))
        && label.as_ref().is_none_or(|(label, value)| {
            // The last of duplicate labels counts, as in the index.
            resource.labels().filter(|(key, _)| key == label).last().is_some_and(|(_, found)| found == value)
        })
}
