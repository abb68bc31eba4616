//! Changes of a watch that are applied together: the last one of each resource.

use std::collections::HashMap;

use mortise_resource::pb;
use mortise_service::CopyChange;
use prost::Message as _;

/// Changes that are held before they are applied without the rest of what belongs together.
pub(crate) const MAX_CHANGES: usize = 4_096;
/// Bytes of them.
pub(crate) const MAX_BYTES: usize = 4 << 20;

/// The name of a resource within its type.
type Key = (String, String, String);

/// Changes, in no order: each is about another resource.
#[derive(Default)]
pub(crate) struct Changeset {
    changes: HashMap<Key, CopyChange>,
    bytes: usize,
}

impl Changeset {
    pub(crate) fn put(&mut self, resource: pb::Resource) {
        self.bytes += resource.encoded_len();
        self.add(CopyChange::Put(Box::new(resource)));
    }

    /// `deleted` is not known before the peer was asked.
    pub(crate) fn remove(&mut self, id: pb::Id) {
        self.bytes += id.encoded_len();
        self.add(CopyChange::Remove { id, deleted: false });
    }

    fn add(&mut self, change: CopyChange) {
        let id = change.id();
        let tenancy = id.tenancy.unwrap_or_default();
        self.changes.insert((tenancy.partition, tenancy.namespace, id.name), change);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether what is held is to be applied now.
    pub(crate) fn is_full(&self) -> bool {
        self.changes.len() >= MAX_CHANGES || self.bytes >= MAX_BYTES
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn take(&mut self) -> Vec<CopyChange> {
        std::mem::take(self).changes.into_values().collect()
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
        let mut taken = changes.take();
        taken.sort_by_key(|change| change.id().name);
        assert!(matches!(&*taken, [CopyChange::Put(a), CopyChange::Remove { id: b, .. }]
            if a.id.as_ref().unwrap().uid == "2" && b.uid == "3"));
        assert!(changes.is_empty());
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
        changes.put(resource(&"x".repeat(MAX_BYTES), "1"));
        assert!(changes.is_full());
    }
}
