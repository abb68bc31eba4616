//! What a query requires of whatever matches, as the store takes it: so that a watch is not woken by changes that do not
//! concern it.

use std::{
    num::NonZeroU32,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use mortise_query::{Candidate, Fact, Path, Schema, Subject};
use mortise_resource::{EncodedResource, types::Gvk};
use mortise_store::{Term, TermField, TermSubject};
use parking_lot::Mutex;
use prost_reflect::MessageDescriptor;

use crate::{
    query::compile::Search,
    registry::{Registry, ResourceType},
    service::ResourceService,
};

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

/// A field of the type as it is registered now. Once the type is registered with another meaning nothing can be said any
/// more: the next change wakes the watches, which then compile their queries anew.
fn field(service: &ResourceService, search: &Search, path: &str) -> Option<TermField> {
    let schema = Schema::new(Some(search.kind.schema.message().clone()));
    let path = Path::parse(path, &schema).ok()?;
    // Two registrations may read differently. One with the address of one that is gone gets a reader that says the same,
    // or nothing.
    let id = format!("{:p} {path}", Arc::as_ptr(&search.kind));
    let registered = Registered::new(&search.kind, service.registry.clone());
    let decoded = service.decoded.clone();
    Some(TermField::new(&id, move |resource: &EncodedResource| {
        if !resource.is_of(&registered.gvk) {
            return Some(Vec::new());
        }
        // Queries see data of another schema version as the plugin upgrades it, and a meta where none is stored.
        let is_readable = resource.schema_version() == registered.schema_version.get()
            && resource.has_meta()
            && resource.bytes().len() <= MAX_BYTES
            && registered.means_the_same();
        is_readable.then(|| Candidate::sharing(resource, &schema, &decoded).index_values(&path).ok()).flatten()
    }))
}

/// A type as it was registered. It holds no plugin, which may be replaced meanwhile.
struct Registered {
    gvk: Gvk,
    message: MessageDescriptor,
    schema_version: NonZeroU32,
    registry: Arc<ArcSwap<Registry>>,
    /// The registration that was seen last, and whether stored data means the same to it.
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

    /// Whether stored data means the same to the type as it is registered now.
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
