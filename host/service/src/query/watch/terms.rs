//! What a query requires of whatever matches, as the store takes it: so that a watch is not woken by changes that do not
//! concern it.

use std::sync::Arc;

use mortise_query::{Candidate, Fact, Path, Schema, Subject};
use mortise_resource::EncodedResource;
use mortise_store::{Term, TermField, TermSubject};

use crate::{query::compile::Search, service::ResourceService};

/// Values of a term; a fact with more is none.
const MAX_VALUES: usize = 100;
/// Bytes of a resource whose fields are read where commits wait for it; larger ones are read by each watch for itself.
const MAX_BYTES: usize = 16 << 10;

/// The term of a fact, if the store can have it.
pub(super) fn term(service: &ResourceService, search: &Search, fact: &Fact) -> Option<Term> {
    let subject = match &fact.subject {
        Subject::Name => TermSubject::Name,
        Subject::Label(label) => TermSubject::Label(label.clone()),
        Subject::Field(path) => TermSubject::Field(field(service, search, path)?),
        // The tenancy is a term of its own.
        Subject::Partition | Subject::Namespace | Subject::Uid | Subject::LabelPresence(_) => return None,
    };
    (fact.values.len() <= MAX_VALUES).then(|| Term { subject, values: fact.values.clone() })
}

/// A field of the type as it is registered now. Once the type is registered anew nothing can be said any more: the next
/// change wakes the watches, which then compile their queries anew.
fn field(service: &ResourceService, search: &Search, path: &str) -> Option<TermField> {
    let schema = Schema::new(Some(search.kind.schema.message().clone()));
    let path = Path::parse(path, &schema).ok()?;
    // As long as somebody holds the pointer, no other registration has its address.
    let id = format!("{:p} {path}", Arc::as_ptr(&search.kind));
    let (gvk, schema_version) = (search.kind.gvk.clone(), search.kind.schema_version.get());
    let (of, registry, decoded) = (Arc::downgrade(&search.kind), service.registry.clone(), service.decoded.clone());
    Some(TermField::new(&id, move |resource: &EncodedResource| {
        if !resource.is_of(&gvk) {
            return Some(Vec::new());
        }
        let is_current = |kind| std::ptr::eq(Arc::as_ptr(kind), of.as_ptr());
        // Queries see data of another schema version as the plugin upgrades it, and a meta where none is stored.
        let is_readable = resource.schema_version() == schema_version
            && resource.has_meta()
            && resource.bytes().len() <= MAX_BYTES
            && registry.load().resolve_type(&gvk).is_ok_and(is_current);
        is_readable.then(|| Candidate::sharing(resource, &schema, &decoded).index_values(&path).ok()).flatten()
    }))
}
