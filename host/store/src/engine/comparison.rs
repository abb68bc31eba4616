//! Checks of a snapshot's records against each other and its head: run when a backup is written, whenever it is read,
//! and when a store is made of one.
//!
//! Each record fits the snapshot; the head's number of resources of each type and their hash match; so do the number
//! and bytes of events, and no event comes twice; the newest event of a resource is that of its version, or a deletion.
//!
//! # Limits
//! The comparison holds events, some 10 bytes each, and their resources, some 200 bytes each, so the history bounds its
//! memory.

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
    /// Sequence of the newest event of each resource, and whether that was a deletion.
    newest: HashMap<Vec<u8>, (u64, bool)>,
    /// Versions of the resources that have events in the history.
    recent: HashMap<Vec<u8>, u64>,
}

/// A record with its key in a store.
pub(crate) struct KeyedRecord {
    /// Key of the record in a store.
    pub(crate) key: Vec<u8>,
    pub(crate) resource: pb::Resource,
    /// Key of the resource in the record.
    about: Vec<u8>,
    type_key: TypeKey,
}

impl Comparison {
    /// Starts a comparison with a snapshot's head.
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

    /// Adds a record.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`] when the record does not fit a snapshot of this head, or is an event that was added
    /// already.
    pub fn add(&mut self, record: &Record) -> Result<(), StoreError> {
        self.add_keyed(record).map(drop)
    }

    /// Adds a record; returns it with its key.
    pub(crate) fn add_keyed(&mut self, record: &Record) -> Result<KeyedRecord, StoreError> {
        let keyed = keyed_record(&self.head, record)?;
        let KeyedRecord { about, type_key, .. } = &keyed;
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
                    let (record, fault) = (keys::describe(&keyed.key), "it comes twice".to_owned());
                    return Err(StoreError::BadRecord { record, fault });
                }
                self.event_bytes += record.payload.len() as u64;
                let (newest, deleted) = self.newest.entry(about.clone()).or_default();
                if record.sequence >= *newest {
                    (*newest, *deleted) = (record.sequence, record.kind == RecordKind::Delete);
                }
            }
        }
        Ok(keyed)
    }

    /// Returns the head with which records are compared.
    pub(crate) fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Compares the added records with the head.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`], naming the missing or excess record.
    pub fn finish(&self) -> Result<(), StoreError> {
        let bad = |record: String, fault: String| Err(StoreError::BadRecord { record, fault });
        let of_all = |fault: String| bad("the snapshot".to_owned(), fault);
        let head = &self.head;
        for type_key in self.resources.keys().chain(head.resources.keys()) {
            let [found, recorded] =
                [&self.resources, &head.resources].map(|counts| counts.get(type_key).copied().unwrap_or(0));
            if found != recorded {
                let fault = format!("{found} found, {recorded} expected");
                return bad(format!("resources of type {type_key}"), fault);
            }
        }
        let events = self.events.len() as u64;
        if (events, self.event_bytes) != (head.events(), head.event_bytes) {
            return of_all(format!(
                "it says {} events of {} bytes, but has {events} of {}",
                head.events(),
                head.event_bytes,
                self.event_bytes
            ));
        }
        for (about, (event, deleted)) in &self.newest {
            match self.recent.get(about) {
                Some(_) if *deleted => {
                    return bad(keys::describe(about), format!("event {event} deleted it"));
                }
                Some(version) if version != event => {
                    let fault = format!("its version is {version}, but its newest event is {event}");
                    return bad(keys::describe(about), fault);
                }
                None if !deleted => {
                    let fault = format!("event {event} is not a deletion, but the resource is missing in that version");
                    return bad(keys::describe(about), fault);
                }
                _ => {}
            }
        }
        if let Some((about, version)) = self.recent.iter().find(|(about, _)| !self.newest.contains_key(*about)) {
            return bad(keys::describe(about), format!("the event of its version {version} is missing"));
        }
        if head.resources_hash.is_some_and(|hash| hash != self.hash) {
            return of_all("some resources or versions differ from those of the hash".to_owned());
        }
        Ok(())
    }
}

/// Checks a record by itself: whether a snapshot of this head can have it.
fn keyed_record(head: &SnapshotHead, record: &Record) -> Result<KeyedRecord, StoreError> {
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
        return Err(bad(format!("its sequence is outside {first} to {}", head.sequence)));
    }
    let key = if record.kind == RecordKind::Resource { about.clone() } else { keys::event(record.sequence) };
    Ok(KeyedRecord { key, resource, about, type_key })
}
