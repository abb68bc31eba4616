//! Changes of a watch that are applied together: what each name came to.

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

/// What became of a name.
#[derive(Default)]
struct Entry {
    /// It is so now; `None`: it is not there.
    put: Option<Box<pb::Resource>>,
    /// Incarnations that went before, any of which may be the one that is here.
    gone: Vec<pb::Id>,
}

/// Changes, in no order: of each name what it came to.
#[derive(Default)]
pub(crate) struct Changeset {
    changes: HashMap<Key, Entry>,
    number: usize,
    bytes: usize,
}

impl Changeset {
    pub(crate) fn put(&mut self, resource: pb::Resource) {
        self.bytes += resource.encoded_len();
        let id = resource.id.clone().unwrap_or_default();
        self.entry(id).put = Some(Box::new(resource));
    }

    pub(crate) fn remove(&mut self, id: pb::Id) {
        self.bytes += id.encoded_len();
        let entry = self.entry(id.clone());
        entry.put = None;
        entry.gone.push(id);
    }

    fn entry(&mut self, id: pb::Id) -> &mut Entry {
        self.number += 1;
        let tenancy = id.tenancy.unwrap_or_default();
        self.changes.entry((tenancy.partition, tenancy.namespace, id.name)).or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether what is held is to be applied now.
    pub(crate) fn is_full(&self) -> bool {
        self.number >= MAX_CHANGES || self.bytes >= MAX_BYTES
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The changes. What is there replaces what went before; of what is not there each incarnation is removed. Whether
    /// the owner deleted it is not known before it is asked.
    pub(crate) fn take(&mut self) -> Vec<CopyChange> {
        let changes = std::mem::take(self).changes.into_values();
        let all = changes.flat_map(|Entry { put, gone }| {
            let gone = if put.is_some() { Vec::new() } else { gone };
            let removals = gone.into_iter().map(|id| CopyChange::Remove { id, deleted: false });
            put.map(CopyChange::Put).into_iter().chain(removals)
        });
        all.collect()
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
    fn every_incarnation_that_went_is_removed() {
        let mut changes = Changeset::default();
        changes.remove(resource("a", "1").id.unwrap());
        changes.put(resource("a", "2"));
        changes.remove(resource("a", "2").id.unwrap());
        let uids: Vec<_> = changes.take().iter().map(|change| change.id().uid).collect();
        assert_eq!(uids, ["1", "2"], "what is here may be the first, since it was away meanwhile");
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
