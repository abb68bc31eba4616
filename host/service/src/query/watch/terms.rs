//! The requirements of a query, as terms of the store, so that unrelated changes do not wake a watch.

use std::{
    num::NonZeroU32,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use mortise_query::{Candidate, Fact, Path, RecentlyDecoded, Schema, Subject};
use mortise_resource::{EncodedResource, types::Gvk};
use mortise_store::{Term, TermField, TermSubject};
use parking_lot::Mutex;
use prost_reflect::MessageDescriptor;

use crate::{
    query::{compile::Search, queries::Queries},
    registry::{Registry, ResourceType},
};

/// Values of a term; a fact with more values gives no term.
const MAX_TERM_VALUES: usize = 100;
/// Bytes of the values and the subject of a term, which the store holds while the watch is open.
const MAX_TERM_BYTES: usize = 1 << 10;
/// Bytes of a resource whose fields are read during a commit; each watch reads larger ones itself.
const MAX_RESOURCE_BYTES: usize = 16 << 10;

/// Returns the term of a fact, if the store supports it.
pub(super) fn term(queries: &Queries, search: &Search, fact: &Fact) -> Option<Term> {
    let (registry, decoded) = (&queries.core.registry, &queries.decoded);
    let (subject, text) = match &fact.subject {
        Subject::Name => (TermSubject::Name, ""),
        Subject::Label(label) => (TermSubject::Label(label.clone()), label.as_str()),
        Subject::Field(path) => (TermSubject::Field(field(&search.kind, registry, decoded, path)?), path.as_str()),
        // The tenancy has a term of its own.
        Subject::Partition | Subject::Namespace | Subject::Uid | Subject::LabelPresence(_) => return None,
    };
    is_bounded(text, fact).then(|| Term { subject, values: fact.values.clone() })
}

fn is_bounded(subject: &str, fact: &Fact) -> bool {
    let bytes = subject.len() + fact.values.iter().map(String::len).sum::<usize>();
    fact.values.len() <= MAX_TERM_VALUES && bytes <= MAX_TERM_BYTES
}

/// Returns the subject for a field of the type as registered now. Once the type is registered with another meaning, the
/// field is unreadable: the next change wakes the watches, which compile their queries again.
fn field(
    kind: &Arc<ResourceType>,
    registry: &Arc<ArcSwap<Registry>>,
    decoded: &Arc<RecentlyDecoded>,
    path: &str,
) -> Option<TermField> {
    let schema = Schema::new(Some(kind.schema.message().clone()));
    let path = Path::parse(path, &schema).ok()?;
    // Two registrations may read differently. A registration at the address of a deleted one gets a reader that reads
    // the same, or nothing.
    let id = format!("{:p} {path}", Arc::as_ptr(kind));
    let registered = Registered::new(kind, registry.clone());
    let decoded = decoded.clone();
    Some(TermField::new(&id, move |resource: &EncodedResource| {
        if !resource.has_type(&registered.gvk) {
            return Some(Vec::new());
        }
        // Queries see data of another schema version as the plugin upgrades it, and a meta where none is stored.
        let is_readable = resource.schema_version() == registered.schema_version.get()
            && resource.has_meta()
            && resource.bytes().len() <= MAX_RESOURCE_BYTES
            && registered.means_the_same();
        is_readable.then(|| Candidate::sharing(resource, &schema, &decoded).index_values(&path).ok()).flatten()
    }))
}

/// A type as registered. It does not hold the plugin, which may be replaced meanwhile.
struct Registered {
    gvk: Gvk,
    message: MessageDescriptor,
    schema_version: NonZeroU32,
    registry: Arc<ArcSwap<Registry>>,
    /// Last seen registration, and whether stored data has the same meaning in it.
    latest: Mutex<(Weak<ResourceType>, bool)>,
}

impl Registered {
    fn new(kind: &Arc<ResourceType>, registry: Arc<ArcSwap<Registry>>) -> Self {
        Self {
            gvk: kind.gvk.clone(),
            message: kind.schema.message().clone(),
            schema_version: kind.schema_version,
            registry,
            latest: Mutex::new((Arc::downgrade(kind), true)),
        }
    }

    /// Whether stored data has the same meaning for the type as registered now.
    fn means_the_same(&self) -> bool {
        let registry = self.registry.load();
        let Ok(now) = registry.resolve_type(&self.gvk) else { return false };
        let is_now = |known: &Weak<ResourceType>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(now));
        let mut latest = self.latest.lock();
        if !is_now(&latest.0) {
            *latest = (Arc::downgrade(now), now.reads_as(&self.message, self.schema_version));
        }
        latest.1
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::{goten::Meta, pb, types};

    use super::*;

    #[test]
    fn terms_are_bounded_in_values_and_bytes() {
        let fact = |values: usize, bytes: usize| Fact {
            subject: Subject::Name,
            values: (0..values).map(|n| format!("{n:0bytes$}")).collect(),
        };
        assert!(is_bounded("", &fact(MAX_TERM_VALUES, 3)) && !is_bounded("", &fact(MAX_TERM_VALUES + 1, 3)));
        assert!(is_bounded("", &fact(1, MAX_TERM_BYTES)) && !is_bounded("", &fact(1, MAX_TERM_BYTES + 1)));
        assert!(!is_bounded("k", &fact(1, MAX_TERM_BYTES)));
    }

    #[test]
    fn a_field_is_read_where_it_can_be_said_at_once() {
        let builtin = || Registry::builtin().unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(builtin()));
        let kind = registry.load().resolve_type(&types::namespace()).unwrap().clone();
        let field = field(&kind, &registry, &Arc::default(), "metadata.k").unwrap();
        let resource = |gvk: Gvk, bytes: usize, schema_version: u32, meta: Option<Meta>| {
            let id = pb::Id { r#type: Some(gvk.to_pb()), name: "n".into(), ..pb::Id::default() };
            let metadata = [("k".to_owned(), "v".to_owned()), ("other".to_owned(), "x".repeat(bytes))].into();
            let meta = meta.map(Box::new);
            let resource = pb::Resource { id: Some(id), metadata, schema_version, meta, ..pb::Resource::default() };
            EncodedResource::encode(&resource).unwrap()
        };
        let meta = || Some(Meta::default());
        let small = resource(types::namespace(), 10, 1, meta());
        assert_eq!(field.values(&small), Some(vec!["v".to_owned()]));
        assert_eq!(field.values(&resource(types::namespace(), MAX_RESOURCE_BYTES, 1, meta())), None, "large");
        assert_eq!(field.values(&resource(types::namespace(), 10, 2, meta())), None, "of another schema version");
        assert_eq!(field.values(&resource(types::namespace(), 10, 1, None)), None, "without a meta");
        assert_eq!(field.values(&resource(types::plugin(), 10, 1, meta())), Some(Vec::new()), "of another type");
        // As after a reload.
        registry.store(Arc::new(builtin()));
        assert!(!Arc::ptr_eq(registry.load().resolve_type(&types::namespace()).unwrap(), &kind));
        assert_eq!(field.values(&small), Some(vec!["v".to_owned()]));
        assert!(!kind.reads_as(kind.schema.message(), NonZeroU32::MAX));
    }
}
