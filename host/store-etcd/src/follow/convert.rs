//! Events of etcd as commits of the copy.

use mortise_store::{
    ExpectedId,
    follower::{FollowedChange, FollowedCommit},
};
use prost::Message;

use crate::{
    client::{Event, WatchResponse, event::EventType},
    keys::{Key, Keys},
    record::{HeadRecord, ResourceRecord},
};

/// Change of one key that is content.
enum Found {
    Put(Box<ResourceRecord>),
    Delete(ExpectedId),
}

/// Answers of a watch, cut into revisions.
pub(super) struct Revisions {
    keys: Keys,
    /// True if a plan has changed since the last look.
    plans_changed: bool,
    /// Events of the last revision, which may be incomplete.
    pending: Vec<Event>,
}

impl Revisions {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, plans_changed: false, pending: Vec::new() }
    }

    /// Returns whether a plan of a plugin, or a report about it, has changed since the last call.
    pub(super) fn take_plans_changed(&mut self) -> bool {
        std::mem::take(&mut self.plans_changed)
    }

    /// Adds an answer. Returns the complete revisions, with the number of the last; `None` without a complete one.
    pub(super) fn add(&mut self, answer: WatchResponse) -> Option<(Vec<FollowedCommit>, i64)> {
        let is_plan = |event: &Event| event.kv.as_ref().is_some_and(|kv| self.keys.parse(&kv.key) == Key::Plan);
        self.plans_changed |= answer.events.iter().any(is_plan);
        self.pending.extend(answer.events);
        let last = self.pending.last().map(revision)?;
        let complete = match answer.fragment {
            // The last revision may go on in the next part.
            true => self.pending.iter().take_while(|event| revision(event) < last).count(),
            false => self.pending.len(),
        };
        let complete: Vec<_> = self.pending.drain(..complete).collect();
        let upto = complete.last().map(revision)?;
        let commits = complete.chunk_by(|a, b| revision(a) == revision(b)).map(|events| self.commit(events));
        Some((commits.collect(), upto))
    }

    fn commit(&self, events: &[Event]) -> FollowedCommit {
        let Some(revision) = events.first().map(revision) else { return FollowedCommit::default() };
        let mut head = HeadRecord::default();
        let mut found = Vec::new();
        for event in events {
            let Some(kv) = &event.kv else { continue };
            let is_put = event.r#type() == EventType::Put;
            match self.keys.parse(&kv.key) {
                Key::Head if is_put => head = HeadRecord::decode(&*kv.value).unwrap_or_default(),
                Key::Resource(_) if is_put => match ResourceRecord::decode(&*kv.value) {
                    Ok(record) => found.push(Found::Put(Box::new(record))),
                    Err(error) => {
                        let key = String::from_utf8_lossy(&kv.key);
                        tracing::error!(%key, %error, "a value in etcd is not as Mortise writes it, and is passed over");
                    }
                },
                Key::Resource(id) => found.push(Found::Delete(id)),
                Key::Head | Key::Plan | Key::Other => {}
            }
        }
        let versions = self.keys.versions;
        // A deletion by another program has no place in the head, and comes last.
        let mut places = head.deletion_places.into_iter();
        let change = |found| match found {
            Found::Put(record) => {
                let (sequence, deletion) = (record.sequence(versions, revision), record.deletion(versions, revision));
                let is_rewrite = record.kept_sequence > 0;
                let resource = Box::new(record.resource?);
                Some(match is_rewrite {
                    true => FollowedChange::Rewrite { sequence, resource },
                    false => FollowedChange::Put { sequence, deletion, resource },
                })
            }
            Found::Delete(id) => Some(FollowedChange::Delete {
                sequence: versions.sequence(revision, places.next().unwrap_or(0xff)),
                id,
            }),
        };
        let mut changes: Vec<_> = found.into_iter().filter_map(change).collect();
        changes.sort_by_key(|change| match change {
            // Its sequence is an old one; the order among the changes of other resources does not matter.
            FollowedChange::Rewrite { .. } => 0,
            FollowedChange::Put { sequence, .. } | FollowedChange::Delete { sequence, .. } => *sequence,
        });
        FollowedCommit { changes }
    }
}

fn revision(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;
    use mortise_store::TypeKey;

    use super::*;
    use crate::client::KeyValue;

    fn id(name: &str) -> ExpectedId {
        ExpectedId {
            type_key: TypeKey { group: "g".into(), kind: "K".into() },
            partition: String::new(),
            namespace: String::new(),
            name: name.into(),
            uid: String::new(),
        }
    }

    fn event(r#type: EventType, key: Vec<u8>, value: Vec<u8>, mod_revision: i64) -> Event {
        let kv = KeyValue { key: key.into(), value: value.into(), mod_revision, ..KeyValue::default() };
        Event { r#type: r#type.into(), kv: Some(kv) }
    }

    fn put(keys: &Keys, name: &str, place: u32, revision: i64) -> Event {
        let resource = Some(pb::Resource { generation: name.into(), ..pb::Resource::default() });
        let record = ResourceRecord { place, resource, ..ResourceRecord::default() };
        event(EventType::Put, keys.resource(&id(name)), record.encode_to_vec(), revision)
    }

    fn sequences(commits: &[FollowedCommit]) -> Vec<Vec<u64>> {
        let sequence = |change: &FollowedChange| match change {
            FollowedChange::Put { sequence, .. }
            | FollowedChange::Rewrite { sequence, .. }
            | FollowedChange::Delete { sequence, .. } => *sequence,
        };
        commits.iter().map(|commit| commit.changes.iter().map(sequence).collect()).collect()
    }

    #[test]
    fn a_revision_that_was_cut_waits_for_its_rest() {
        let keys = Keys::new("/m/");
        let mut revisions = Revisions::new(keys.clone());
        let part = |events, fragment| WatchResponse { events, fragment, ..WatchResponse::default() };
        let (commits, upto) = revisions.add(part(vec![put(&keys, "a", 0, 4), put(&keys, "b", 0, 5)], true)).unwrap();
        assert_eq!((sequences(&commits), upto), (vec![vec![1024]], 4));
        assert_eq!(revisions.add(part(vec![put(&keys, "c", 1, 5)], true)), None);
        let (commits, upto) = revisions.add(part(vec![put(&keys, "d", 2, 5), put(&keys, "e", 0, 6)], false)).unwrap();
        assert_eq!((sequences(&commits), upto), (vec![vec![1280, 1281, 1282], vec![1536]], 6));
        assert_eq!(revisions.add(part(vec![], false)), None);
    }

    #[test]
    fn deletions_have_the_places_of_the_head_and_come_in_order() {
        let keys = Keys::new("/m/");
        let gone = |name| event(EventType::Delete, keys.resource(&id(name)), Vec::new(), 2);
        let head = HeadRecord { deletion_places: vec![0, 2], server: String::new() };
        let head = event(EventType::Put, keys.head(), head.encode_to_vec(), 2);
        let events = vec![gone("a"), put(&keys, "b", 1, 2), gone("c"), gone("by hand"), head];
        let answer = WatchResponse { events, ..WatchResponse::default() };
        let (commits, _) = Revisions::new(keys.clone()).add(answer).unwrap();
        assert_eq!(sequences(&commits), [vec![512, 513, 514, 767]]);
    }
}
