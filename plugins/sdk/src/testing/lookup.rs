//! Results of hooks' searches.

use std::{cell::RefCell, rc::Rc};

use mortise_query::{Schema, in_memory};
use mortise_resource::{
    data::{SearchRequest, SearchResponse},
    manifest::{self, Manifest},
    pb,
};
use prost::Message as _;
use prost_reflect::DescriptorPool;

use super::{
    failures::{decode, refused},
    store::{Store, is_type},
};
use crate::Failure;

thread_local! {
    static LOOKUP: RefCell<Option<Lookup>> = const { RefCell::new(None) };
}

/// Resources of a [`World`](super::World), and their descriptors.
#[derive(Clone)]
pub(super) struct Lookup {
    pub(super) manifest: Rc<Manifest>,
    pub(super) files: Rc<prost_types::FileDescriptorSet>,
    pub(super) store: Rc<RefCell<Store>>,
}

impl Lookup {
    /// Runs `body`, whose hooks find these resources. Holds for this thread.
    pub(super) fn within<T>(&self, body: impl FnOnce() -> T) -> T {
        /// Restores the outer lookup, also when the body panics.
        struct Restore(Option<Lookup>);
        impl Drop for Restore {
            fn drop(&mut self) {
                LOOKUP.set(self.0.take());
            }
        }
        let _restore = Restore(LOOKUP.replace(Some(self.clone())));
        body()
    }

    /// Schema for paths in queries of a type.
    pub(super) fn schema(&self, of: &pb::Type) -> Schema {
        let is = |one: &&manifest::ResourceType| {
            (&one.group, &one.group_version, &one.kind) == (&of.group, &of.group_version, &of.kind)
        };
        let pool = DescriptorPool::from_file_descriptor_set((*self.files).clone()).unwrap_or_default();
        let message = self.manifest.types.iter().find(is);
        Schema::new(message.and_then(|one| pool.get_message_by_name(&one.message)))
    }

    /// Resources of a type in a tenancy with a prefix of the name.
    pub(super) fn list(&self, of: &pb::Type, tenancy: &pb::Tenancy, name_prefix: &str) -> Vec<pb::Resource> {
        let fits = |wanted: &str, is: &str| wanted == "*" || wanted == is;
        let here = |id: &pb::Id| {
            let at = id.tenancy.clone().unwrap_or_default();
            fits(&tenancy.partition, &at.partition)
                && fits(&tenancy.namespace, &at.namespace)
                && id.name.starts_with(name_prefix)
        };
        let store = self.store.borrow();
        store.all().filter(|one| is_type(one, of) && one.id.as_ref().is_some_and(here)).cloned().collect()
    }

    pub(super) fn search(&self, request: &SearchRequest) -> Result<SearchResponse, Failure> {
        let of = request.r#type.clone().unwrap_or_default();
        let here = self.list(&of, &request.tenancy.clone().unwrap_or_default(), &request.parent);
        in_memory::search(here, request, &self.schema(&of)).map_err(|fault| refused(&fault))
    }
}

/// Answers a search of a hook; outside of a world it fails.
pub(crate) fn search(request: &[u8]) -> Result<Vec<u8>, Failure> {
    let Some(lookup) = LOOKUP.with_borrow(Option::clone) else {
        let text = "a hook searched outside of a world; call it within World::with_lookups";
        return Err(Failure::new(Failure::INVALID, text));
    };
    Ok(lookup.search(&decode(request)?)?.encode_to_vec())
}
