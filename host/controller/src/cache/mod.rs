//! The cache of a controller: the resources of the types that it watches. Only its watches change it: a write shows up
//! when its event arrives.
//!
//! Resources are shared bytes, never copied; the watches of clients share the same bytes. Types are distinguished by
//! group and kind; the GroupVersion does not count, as in the store.
//!
//! # Cost
//! A lookup is O(log n), a list O(log n) and its result. A change of a resource calls each index of its type once; the
//! resource is decoded once for them, unless all are by owner. A resource takes about 90 bytes besides itself and its
//! key, each key of an index about as much as the key and 60 bytes.

mod index;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use mortise_resource::{EncodedResource, IdRef, pb};
use parking_lot::RwLock;

pub use self::index::{By, ID, Index, IndexKey, Keys, References};
pub(crate) use self::index::{target, undecodable};
use crate::{
    key::{GroupKind, Key, text_of},
    request::ReconcileError,
};

/// The error of a lookup. The texts are Consul's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The controller neither manages nor watches the type.
    #[error("the resource type specified is not indexed")]
    NotIndexed,
    /// The request has no type.
    #[error("the resource type was not specified")]
    NoType,
    /// The type has no such index.
    #[error("operation on resource type {group_kind} failed: No index with name {index:?} exists")]
    NoIndex {
        /// Group and kind.
        group_kind: String,
        /// The index asked for.
        index: String,
    },
}

/// The cached resources of one controller's run.
#[derive(Default)]
pub struct Cache {
    kinds: Vec<CachedType>,
}

struct CachedType {
    group_kind: GroupKind,
    indexes: Vec<Index>,
    held: RwLock<Contents>,
}

#[derive(Default)]
struct Contents {
    by_id: BTreeMap<Key, CacheEntry>,
    /// Entries of each index.
    by_index: Vec<BTreeSet<(Arc<[u8]>, Key)>>,
}

struct CacheEntry {
    resource: Arc<EncodedResource>,
    /// Entries of the resource in the indexes: number of the index, and key.
    keys: Box<[(usize, Arc<[u8]>)]>,
}

/// The effect of a change.
pub(crate) struct CacheChange {
    pub(crate) key: Key,
    /// The resource that was cached before.
    pub(crate) old: Option<Arc<EncodedResource>>,
    /// Indexes that failed, by name; the resource is cached all the same, and entered in the others.
    pub(crate) faults: Vec<(Arc<str>, ReconcileError)>,
}

impl Cache {
    /// Makes an empty cache for these types with their indexes. If a type occurs more than once, its indexes add up.
    pub(crate) fn new<'a>(types: impl IntoIterator<Item = (&'a pb::Type, &'a [Index])>) -> Self {
        let mut kinds: Vec<CachedType> = Vec::new();
        for (resource_type, indexes) in types {
            if let Some(kind) = kinds.iter_mut().find(|kind| kind.group_kind.matches(resource_type)) {
                kind.indexes.extend_from_slice(indexes);
            } else {
                kinds.push(CachedType {
                    group_kind: GroupKind::from(resource_type),
                    indexes: indexes.to_vec(),
                    held: RwLock::default(),
                });
            }
        }
        for kind in &mut kinds {
            kind.held.get_mut().by_index.resize_with(kind.indexes.len(), BTreeSet::new);
        }
        Self { kinds }
    }

    /// Gets one resource, in any GroupVersion and with any uid.
    ///
    /// # Errors
    /// The type is missing or not cached.
    pub fn get(&self, id: &pb::Id) -> Result<Option<Arc<EncodedResource>>, CacheError> {
        let resource_type = id.r#type.as_ref().ok_or(CacheError::NoType)?;
        Ok(self.kind(resource_type)?.held.read().by_id.get(text_of(id).as_str()).map(|cached| cached.resource.clone()))
    }

    /// The first resource whose key in an index begins with `key`.
    ///
    /// # Errors
    /// The type is not cached, or has no such index.
    pub fn get_by(
        &self,
        resource_type: &pb::Type,
        index: &str,
        key: &IndexKey,
    ) -> Result<Option<Arc<EncodedResource>>, CacheError> {
        let mut found = self.find(resource_type, index, key, 1)?;
        Ok(found.pop())
    }

    /// The resources whose key in an index begins with `key`, in the order of their keys. A resource with several such
    /// keys comes once for each.
    ///
    /// # Errors
    /// The type is not cached, or has no such index.
    pub fn list(
        &self,
        resource_type: &pb::Type,
        index: &str,
        key: &IndexKey,
    ) -> Result<Vec<Arc<EncodedResource>>, CacheError> {
        self.find(resource_type, index, key, usize::MAX)
    }

    /// Resources as in [`Cache::list`], of one tenancy, with names from `names.0` on and before `names.1` (empty: no
    /// end), at most `most` of them. A key that is a whole value costs as much as is found, other ones as much as is
    /// under the key.
    ///
    /// # Errors
    /// The type is not cached, or has no such index.
    pub fn page(
        &self,
        resource_type: &pb::Type,
        tenancy: &pb::Tenancy,
        (index, key): (&str, &IndexKey),
        names: (&str, &str),
        most: usize,
    ) -> Result<Vec<Arc<EncodedResource>>, CacheError> {
        let kind = self.kind(resource_type)?;
        let held = kind.held.read();
        let first = Key::new(&tenancy.partition, &tenancy.namespace, names.0);
        let is_within = |key: &Key| {
            key >= &first
                && (key.partition(), key.namespace()) == (&*tenancy.partition, &*tenancy.namespace)
                && (names.1.is_empty() || key.name() < names.1)
        };
        let Some(number) = kind.number(index)? else {
            let Ok(text) = std::str::from_utf8(&key.0) else { return Ok(Vec::new()) };
            let from = held.by_id.range::<str, _>((Bound::Included(text.max(first.as_str())), Bound::Unbounded));
            let within = from.take_while(|(key, _)| key.as_str().starts_with(text));
            let named = within.filter(|(key, _)| is_within(key)).take(most);
            return Ok(named.map(|(_, cached)| cached.resource.clone()).collect());
        };
        let from = (Arc::from(key.0.as_slice()), first.clone());
        let entries = held.by_index.get(number).into_iter().flat_map(|index| index.range(from.clone()..));
        // Keys under one value are in order, so the first behind the range ends it.
        let end = Key::new(&tenancy.partition, &tenancy.namespace, names.1);
        let is_behind = |value: &[u8], name: &Key| value == key.0 && !names.1.is_empty() && *name >= end;
        let within = entries.take_while(|(value, name)| value.starts_with(&key.0) && !is_behind(value, name));
        let named = within.filter(|(_, key)| is_within(key)).take(most);
        Ok(named.filter_map(|(_, key)| held.by_id.get(key)).map(|cached| cached.resource.clone()).collect())
    }

    /// The number of cached resources of a type.
    ///
    /// # Errors
    /// The type is not cached.
    pub fn count(&self, resource_type: &pb::Type) -> Result<usize, CacheError> {
        Ok(self.kind(resource_type)?.held.read().by_id.len())
    }

    /// Whether a resource of a type is cached under this key.
    pub(crate) fn has(&self, resource_type: &pb::Type, key: &Key) -> bool {
        self.kind(resource_type).is_ok_and(|kind| kind.held.read().by_id.contains_key(key))
    }

    /// The resource that is cached under a key.
    pub(crate) fn at(&self, resource_type: &pb::Type, key: &Key) -> Option<Arc<EncodedResource>> {
        self.kind(resource_type).ok()?.held.read().by_id.get(key).map(|cached| cached.resource.clone())
    }

    /// All resources of a type, as of one moment.
    pub(crate) fn all(&self, resource_type: &pb::Type) -> Vec<(Key, Arc<EncodedResource>)> {
        let Ok(kind) = self.kind(resource_type) else { return Vec::new() };
        kind.held.read().by_id.iter().map(|(key, cached)| (key.clone(), cached.resource.clone())).collect()
    }

    /// Caches a resource. Each type has one caller at a time.
    pub(crate) fn upsert(&self, resource_type: &pb::Type, resource: &Arc<EncodedResource>) -> CacheChange {
        let text = text_of(resource.id());
        let Ok(kind) = self.kind(resource_type) else {
            return CacheChange { key: Key::from_text(text), old: None, faults: Vec::new() };
        };
        // Indexes are user code; no lock is held while they run.
        let mut faults = Vec::new();
        let mut keys: Vec<(usize, Arc<[u8]>)> = Vec::new();
        let decoded = OnceCell::new();
        for (number, index) in kind.indexes.iter().enumerate() {
            match catch_unwind(AssertUnwindSafe(|| index.keys(resource, &decoded))) {
                Ok(Ok(found)) => keys.extend(found.into_iter().map(|key| (number, Arc::from(key.0)))),
                Ok(Err(e)) => faults.push((index.name.clone(), e)),
                Err(panic) => faults.push((index.name.clone(), ReconcileError::panicked(&*panic))),
            }
        }
        let mut held = kind.held.write();
        let key = held.by_id.get_key_value(text.as_str()).map(|(key, _)| key.clone());
        let key = key.unwrap_or_else(|| Key::from_text(text));
        held.unindex(&key);
        for (number, value) in &keys {
            if let Some(index) = held.by_index.get_mut(*number) {
                index.insert((value.clone(), key.clone()));
            }
        }
        let cached = CacheEntry { resource: resource.clone(), keys: keys.into() };
        let old = held.by_id.insert(key.clone(), cached).map(|cached| cached.resource);
        CacheChange { key, old, faults }
    }

    /// Removes a resource. Each type has one caller at a time.
    pub(crate) fn remove(&self, resource_type: &pb::Type, id: IdRef<'_>) -> CacheChange {
        let key = Key::of(id);
        let mut old = None;
        if let Ok(kind) = self.kind(resource_type) {
            let mut held = kind.held.write();
            held.unindex(&key);
            old = held.by_id.remove(&key).map(|cached| cached.resource);
        }
        CacheChange { key, old, faults: Vec::new() }
    }

    fn find(
        &self,
        key_type: &pb::Type,
        index: &str,
        key: &IndexKey,
        most: usize,
    ) -> Result<Vec<Arc<EncodedResource>>, CacheError> {
        let kind = self.kind(key_type)?;
        let held = kind.held.read();
        let Some(number) = kind.number(index)? else {
            // Keys of resources are text; bytes that are not text match no key.
            let Ok(text) = std::str::from_utf8(&key.0) else { return Ok(Vec::new()) };
            let from = held.by_id.range::<str, _>((Bound::Included(text), Bound::Unbounded));
            let within = from.take_while(|(key, _)| key.as_str().starts_with(text));
            return Ok(within.take(most).map(|(_, cached)| cached.resource.clone()).collect());
        };
        let from = (Arc::from(key.0.as_slice()), Key::from_text(String::new()));
        let entries = held.by_index.get(number).into_iter().flat_map(|index| index.range(from.clone()..));
        let within = entries.take_while(|(value, _)| value.starts_with(&key.0));
        Ok(within.take(most).filter_map(|(_, key)| held.by_id.get(key)).map(|c| c.resource.clone()).collect())
    }

    fn kind(&self, resource_type: &pb::Type) -> Result<&CachedType, CacheError> {
        self.kinds.iter().find(|kind| kind.group_kind.matches(resource_type)).ok_or(CacheError::NotIndexed)
    }
}

impl CachedType {
    /// The position of an index; `None` for `id`.
    fn number(&self, index: &str) -> Result<Option<usize>, CacheError> {
        if index == ID {
            return Ok(None);
        }
        let number = self.indexes.iter().position(|known| &*known.name == index);
        number
            .map(Some)
            .ok_or_else(|| CacheError::NoIndex { group_kind: self.group_kind.to_string(), index: index.to_owned() })
    }
}

impl Contents {
    fn unindex(&mut self, key: &Key) {
        let Some(cached) = self.by_id.get_mut(key) else { return };
        for (number, value) in std::mem::take(&mut cached.keys) {
            if let Some(index) = self.by_index.get_mut(number) {
                index.remove(&(value, key.clone()));
            }
        }
    }
}
