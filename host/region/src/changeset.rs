//! Changes of a watch that are applied together, merged by name.

use std::collections::HashMap;

use mortise_resource::pb;
use mortise_service::ReplicatedChange;
use prost::Message as _;

/// Changes after which a set is applied, even if more changes belong to it.
pub(crate) const MAX_CHANGES: usize = 4_096;
/// Bytes after which a set is applied.
pub(crate) const MAX_CHANGE_BYTES: usize = 4 << 20;

/// The name of a resource within its type.
type Key = (String, String, String);

/// The merged changes of a name.
#[derive(Default)]
struct Entry {
    /// The present state; `None`: the resource left the watch.
    put: Option<Box<pb::Resource>>,
    /// Its incarnations that left the watch.
    gone: DepartedResource,
}

/// Incarnations of a name that left the watch; the local replica may be any of them.
#[derive(Debug, Default)]
pub(crate) struct DepartedResource {
    pub(crate) ids: Vec<pb::Id>,
    /// The last state before it left. This is still the right state if the resource was given to another region.
    pub(crate) last: Option<Box<pb::Resource>>,
}

/// Changes without an order, merged by name.
#[derive(Default)]
pub(crate) struct Changeset {
    changes: HashMap<Key, Entry>,
    /// Number of the taken changes, merged ones included.
    number: usize,
    /// Their bytes.
    bytes: usize,
}

impl Changeset {
    /// Takes a resource that the watch shows now.
    pub(crate) fn put(&mut self, resource: pb::Resource) {
        self.bytes += resource.encoded_len();
        let id = resource.id.clone().unwrap_or_default();
        self.entry(id).put = Some(Box::new(resource));
    }

    /// Takes an incarnation that left the watch.
    pub(crate) fn remove(&mut self, id: pb::Id) {
        self.bytes += id.encoded_len();
        let entry = self.entry(id.clone());
        let put = entry.put.take().or_else(|| entry.gone.last.take());
        entry.gone.last = put.filter(|put| put.id.as_ref().is_some_and(|put| put.uid == id.uid));
        entry.gone.ids.push(id);
    }

    fn entry(&mut self, id: pb::Id) -> &mut Entry {
        self.number += 1;
        let tenancy = id.tenancy.unwrap_or_default();
        self.changes.entry((tenancy.partition, tenancy.namespace, id.name)).or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the changes have to be applied now.
    pub(crate) fn is_full(&self) -> bool {
        self.number >= MAX_CHANGES || self.bytes >= MAX_CHANGE_BYTES
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes the changes: present resources, which replace earlier incarnations, and the names that left. The owner has
    /// to be asked about the latter.
    pub(crate) fn take(&mut self) -> (Vec<ReplicatedChange>, Vec<DepartedResource>) {
        let (mut puts, mut left) = (Vec::new(), Vec::new());
        for Entry { put, gone } in std::mem::take(self).changes.into_values() {
            match put {
                Some(put) => puts.push(ReplicatedChange::Put(put)),
                None => left.push(gone),
            }
        }
        (puts, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str, uid: &str) -> pb::Resource {
        let id = pb::Id { name: name.into(), uid: uid.into(), ..pb::Id::default() };
        pb::Resource { id: Some(id), ..pb::Resource::default() }
    }

    #[test]
    fn the_last_change_of_a_name_counts() {
        let mut changes = Changeset::default();
        changes.put(resource("a", "1"));
        changes.remove(resource("a", "1").id.unwrap());
        changes.put(resource("a", "2"));
        changes.put(resource("b", "3"));
        changes.remove(resource("b", "3").id.unwrap());
        let (puts, left) = changes.take();
        assert!(matches!(&*puts, [ReplicatedChange::Put(a)] if a.id.as_ref().unwrap().uid == "2"));
        assert!(matches!(&*left, [DepartedResource { ids, last: Some(_) }] if ids[0].uid == "3"));
        assert!(changes.is_empty());
    }

    #[test]
    fn every_incarnation_that_went_is_removed() {
        let mut changes = Changeset::default();
        changes.remove(resource("a", "1").id.unwrap());
        changes.put(resource("a", "2"));
        changes.remove(resource("a", "2").id.unwrap());
        let (_, left) = changes.take();
        let uids: Vec<_> = left[0].ids.iter().map(|id| id.uid.as_str()).collect();
        assert_eq!(uids, ["1", "2"], "what is here may be the first, since it was away meanwhile");
        assert_eq!(left[0].last.as_ref().unwrap().id.as_ref().unwrap().uid, "2");
    }

    #[test]
    fn it_is_full_by_number_and_by_bytes() {
        let mut changes = Changeset::default();
        for number in 0..MAX_CHANGES {
            assert!(!changes.is_full());
            changes.put(resource(&number.to_string(), "1"));
        }
        assert!(changes.is_full());
        changes.clear();
        changes.put(resource(&"x".repeat(MAX_CHANGE_BYTES), "1"));
        assert!(changes.is_full());
    }
}
