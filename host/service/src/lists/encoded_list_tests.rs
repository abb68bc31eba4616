//! A list whose caller was judged once for all resources, and whose rights change while the list is read.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use mortise_resource::{
    IdRef,
    authorizer::{Authorizer, Names, Verb},
    pb, types,
};
use mortise_store::{Backend, Consistency, Options as StoreOptions, Query, SledBackend, TypeKey};
use prost::Message as _;

use super::*;
use crate::{call::Caller, core::Options, lists::Selection, registry::Registry, service::ResourceService};

/// Namespaces that are written; `default` exists, too.
const NAMES: usize = 99;

/// A caller who loses the right to read everything.
struct Fickle {
    may_read: AtomicBool,
    /// Number of changes of the rights.
    changes: AtomicU64,
}

impl Fickle {
    fn change(&self, may_read: bool) {
        self.may_read.store(may_read, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

impl Authorizer for Fickle {
    fn is_allowed(&self, _permission: &str, _name: &str) -> bool {
        self.may_read.load(Ordering::SeqCst)
    }

    fn allows_every(&self, _verb: Verb, _of: IdRef<'_>, permission: &str, names: Names<'_>) -> bool {
        assert_eq!((permission, names), ("operator:read", Names::One("")));
        self.may_read.load(Ordering::SeqCst)
    }

    fn caller(&self) -> &str {
        "the tester"
    }

    fn fingerprint(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }
}

/// Lists all namespaces; the caller's rights change after the first page. Returns the number of resources of the first
/// page, and of all.
async fn list(may_read_at_first: bool, may_read_later: bool) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let store = SledBackend::open(StoreOptions::new(dir.path().join("store"))).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(store);
    let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
    let service = ResourceService::new(backend, registry.clone(), Options::default());
    let kind = types::namespace().to_pb();
    for number in 0..NAMES {
        let id = pb::Id { name: format!("n-{number}"), r#type: Some(kind.clone()), ..pb::Id::default() };
        let resource = Some(pb::Resource { id: Some(id), ..pb::Resource::default() });
        service.write(&Caller::host(Consistency::Consistent), pb::WriteRequest { resource }).await.unwrap();
    }
    let rights = Arc::new(Fickle { may_read: AtomicBool::new(may_read_at_first), changes: AtomicU64::new(0) });
    let caller = Caller::new(rights.clone(), Consistency::Consistent);
    let tenancy = pb::Tenancy { partition: "default".into(), namespace: String::new() };
    let query = Query { type_key: TypeKey::from(&kind), tenancy, name_prefix: String::new() };
    let resolved = registry.load().resolve(&kind).unwrap().clone();
    let mut list = CheckedList::new(Selection::Type(resolved, query), registry.load_full(), &caller);
    let pages = Pages::open(&mut list, &service.lists).await.unwrap();
    assert_eq!(matches!(pages, Pages::Copies(_)), may_read_at_first, "judged once");
    let share = service.lists.bytes.acquire(caller.queue_key(), 1 << 20).await.unwrap();
    let mut encoder = Encoder { list, pages, pieces: VecDeque::new(), bytes: 0, share };
    let count = |encoder: &Encoder| {
        let lists = encoder.pieces.iter().map(|piece| pb::ListResponse::decode(piece.clone()).unwrap());
        assert_eq!(encoder.bytes, encoder.pieces.iter().map(Bytes::len).sum::<usize>());
        lists.map(|list| list.resources.len()).sum::<usize>()
    };
    assert!(encoder.page(false).await.unwrap());
    let first = count(&encoder);
    rights.change(may_read_later);
    while encoder.page(false).await.unwrap() {}
    (first, count(&encoder))
}

#[tokio::test]
async fn each_resource_is_judged_once_the_rights_have_changed() {
    let (first, all) = list(true, true).await;
    assert!(first > 0 && first < all, "{first}");
    assert_eq!(all, NAMES);
    assert_eq!(list(true, false).await, (first, first), "the rest may not be read");
    assert_eq!(list(false, true).await, (0, all - first), "what was passed is not shown");
}
