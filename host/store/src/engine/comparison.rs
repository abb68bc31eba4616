//! What the records of a snapshot must agree in: a backup makes this comparison when it is written and whenever it is
//! read, and so does a store that is made of one.
//!
//! Each record is one that the snapshot can have; resources are as many of each type as the head says, and their keys
//! and versions come to its hash; events are as many, and as long, and each comes once; the newest event about a resource
//! is the one of its version, or says that it was deleted.
//!
//! # Limits
//! It remembers events, some 10 bytes each, and the resources that they are about, some 200 bytes each, so its memory is
//! bounded by the history.

use std::collections::{BTreeMap, HashMap, HashSet};

use mortise_resource::pb;
use prost::Message as _;

use crate::{
    Record, RecordKind, SnapshotHead, StoreError, TypeKey,
    engine::{commit::commit_group, tree::keys},
    set_hash::{SetHash, Step},
};

/// The records of a snapshot so far, in any order.
#[derive(Debug)]
pub struct Comparison {
    head: SnapshotHead,
    resources: BTreeMap<TypeKey, u64>,
    hash: SetHash,
    events: HashSet<u64>,
    event_bytes: u64,
    /// By resource: the newest event about it, and whether that was a deletion.
    newest: HashMap<Vec<u8>, (u64, bool)>,
    /// Versions of the resources that the history is about.
    recent: HashMap<Vec<u8>, u64>,
}

/// A record in its place.
pub(crate) struct Place {
    /// The key that the record has in a store.
    pub(crate) key: Vec<u8>,
    pub(crate) resource: pb::Resource,
    /// The key of the resource that it is about.
    about: Vec<u8>,
    type_key: TypeKey,
}

impl Comparison {
    /// Of a snapshot that is to hold what its head says.
    #[must_use]
    pub fn new(head: SnapshotHead) -> Self {
        Self {
            head,
            resources: BTreeMap::new(),
            hash: SetHash::default(),
            events: HashSet::new(),
            event_bytes: 0,
            newest: HashMap::new(),
            recent: HashMap::new(),
        }
    }

    /// Takes a record in.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`] when no snapshot of this head has such a record, or has it twice: an event that was
    /// added already.
    pub fn add(&mut self, record: &Record) -> Result<(), StoreError> {
        self.place(record).map(drop)
    }

    /// As [`Comparison::add`]. Answers where it belongs.
    pub(crate) fn place(&mut self, record: &Record) -> Result<Place, StoreError> {
        let place = place(&self.head, record)?;
        let Place { about, type_key, .. } = &place;
        match record.kind {
            RecordKind::Resource => {
                *self.resources.entry(type_key.clone()).or_default() += 1;
                self.hash.step(Step::Add, about, record.sequence);
                if record.sequence >= self.head.first_event {
                    self.recent.insert(about.clone(), record.sequence);
                }
            }
            RecordKind::Upsert | RecordKind::Delete => {
                if !self.events.insert(record.sequence) {
                    let (record, fault) = (keys::describe(&place.key), "it comes twice".to_owned());
                    return Err(StoreError::BadRecord { record, fault });
                }
                self.event_bytes += record.payload.len() as u64;
                let (newest, deleted) = self.newest.entry(about.clone()).or_default();
                if record.sequence >= *newest {
                    (*newest, *deleted) = (record.sequence, record.kind == RecordKind::Delete);
                }
            }
        }
        Ok(place)
    }

    /// What the snapshot is to hold.
    pub(crate) fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Compares what came with what was to come.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`], naming what is missing or too much.
    pub fn finish(&self) -> Result<(), StoreError> {
        let bad = |record: String, fault: String| Err(StoreError::BadRecord { record, fault });
        let of_all = |fault: String| bad("the snapshot".to_owned(), fault);
        let head = &self.head;
        for type_key in self.resources.keys().chain(head.resources.keys()) {
            let [found, said] = [&self.resources, &head.resources].map(|of| of.get(type_key).copied().unwrap_or(0));
            if found != said {
                let fault = format!("{found} are there, and {said} should be");
                return bad(format!("resources of type {type_key}"), fault);
            }
        }
        let events = self.events.len() as u64;
        if (events, self.event_bytes) != (head.events(), head.event_bytes) {
            return of_all(format!(
                "it says {} events of {} bytes, and has {events} of {}",
                head.events(),
                head.event_bytes,
                self.event_bytes
            ));
        }
        for (about, (event, deleted)) in &self.newest {
            match self.recent.get(about) {
                Some(_) if *deleted => {
                    return bad(keys::describe(about), format!("event {event} says that it was deleted"));
                }
                Some(version) if version != event => {
                    let fault = format!("its version is {version}, the newest event about it is {event}");
                    return bad(keys::describe(about), fault);
                }
                None if !deleted => {
                    let fault = format!("event {event} about it is no deletion, and it is not there in that version");
                    return bad(keys::describe(about), fault);
                }
                _ => {}
            }
        }
        if let Some((about, version)) = self.recent.iter().find(|(about, _)| !self.newest.contains_key(*about)) {
            return bad(keys::describe(about), format!("the event about its version {version} is missing"));
        }
        if head.resources_hash.is_some_and(|hash| hash != self.hash) {
            return of_all("as many resources are there as should be, but not these in these versions".to_owned());
        }
        Ok(())
    }
}

/// Judges a record by itself: whether it is one that a snapshot of this head can have.
fn place(head: &SnapshotHead, record: &Record) -> Result<Place, StoreError> {
    let name = || match record.kind {
        RecordKind::Resource => format!("the resource of commit {}", record.sequence),
        RecordKind::Upsert | RecordKind::Delete => format!("event {}", record.sequence),
    };
    let bad = |fault: String| StoreError::BadRecord { record: name(), fault };
    let resource =
        pb::Resource::decode(record.payload.as_slice()).map_err(|e| bad(format!("it does not decode: {e}")))?;
    let (about, type_key) = commit_group::complete(&resource).map_err(|e| bad(e.to_string()))?;
    let version = resource.version.parse::<u64>().ok();
    let good = match record.kind {
        RecordKind::Resource | RecordKind::Upsert => version == Some(record.sequence),
        RecordKind::Delete => version.is_some_and(|version| version < record.sequence),
    };
    if !good {
        return Err(bad(format!("its version is {:?}", resource.version)));
    }
    let first = if record.kind == RecordKind::Resource { 1 } else { head.first_event };
    if !(first..=head.sequence).contains(&record.sequence) {
        return Err(bad(format!("it is outside of {first} to {}", head.sequence)));
    }
    let key = if record.kind == RecordKind::Resource { about.clone() } else { keys::event(record.sequence) };
    Ok(Place { key, resource, about, type_key })
}
