//! The store of a course: the real queue and publisher, with a log and a table in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use mortise_resource::{EncodedResource, pb};
use tokio::sync::oneshot;

use super::record::Logged;
use crate::{
    TypeKey,
    engine::{
        commit::queue::Queue,
        read::{hub::HubLimits, published_head::PublishedHead, publisher::Publisher},
        tree::{change::Change, keys},
    },
    locks,
};

/// Names of the resources.
pub(super) const NAMES: [&str; 4] = ["a1", "a2", "b1", "b2"];

/// A batch: the resources to write (true) or delete.
pub(super) type Batch = Vec<(&'static str, bool)>;

/// A batch, and the channel for the sequence of its last change.
pub(super) type Job = (Batch, oneshot::Sender<u64>);

/// The store.
pub(super) struct Store {
    pub(super) queue: Queue<Job>,
    pub(super) publisher: Arc<Publisher>,
    /// Each read of a key, and each change of one, is a step.
    table: locks::Mutex<BTreeMap<Vec<u8>, EncodedResource>>,
    /// Durable changes. A plain lock: the record takes no steps.
    log: Mutex<Vec<Logged>>,
}

pub(super) fn type_key() -> TypeKey {
    TypeKey { group: "g".to_owned(), kind: "K".to_owned() }
}

/// Returns the key of a resource.
pub(super) fn key(name: &str) -> Vec<u8> {
    keys::resource(&id(name)).unwrap()
}

/// Returns the version of a resource.
pub(super) fn version(resource: &EncodedResource) -> u64 {
    resource.version().parse().unwrap()
}

fn id(name: &str) -> pb::Id {
    pb::Id {
        uid: "u".to_owned(),
        name: name.to_owned(),
        r#type: Some(pb::Type { group: "g".to_owned(), group_version: "v1".to_owned(), kind: "K".to_owned() }),
        tenancy: Some(pb::Tenancy { partition: "default".to_owned(), namespace: "default".to_owned() }),
    }
}

impl Store {
    /// Makes an empty store.
    pub(super) fn new(places: usize, limits: HubLimits, max_bytes: usize) -> Self {
        let publisher = Publisher::new([].into(), PublishedHead::default(), limits, max_bytes);
        Self {
            queue: Queue::new(places),
            publisher: Arc::new(publisher),
            table: locks::Mutex::default(),
            log: Mutex::default(),
        }
    }

    /// Returns the durable changes.
    pub(super) fn log(&self) -> Vec<Logged> {
        self.log.lock().unwrap().clone()
    }

    /// Reads the version of a resource.
    pub(super) fn read(&self, name: &str) -> Option<u64> {
        self.table.lock().get(&key(name)).map(version)
    }

    /// Returns the first resource behind a key.
    pub(super) fn read_behind(&self, last: &[u8]) -> Option<(Vec<u8>, EncodedResource)> {
        let table = self.table.lock();
        let behind = (std::ops::Bound::Excluded(last.to_vec()), std::ops::Bound::Unbounded);
        table.range(behind).next().map(|(key, found)| (key.clone(), found.clone()))
    }

    /// Does the work of the commit thread: takes groups, makes them durable, publishes, answers.
    pub(super) fn commit_until_closed(&self) {
        let (mut content, mut sequence, mut expected) = (BTreeMap::new(), 0, 1);
        while let Some(jobs) = self.queue.take(expected) {
            expected = jobs.len();
            let (mut changes, mut answers) = (Vec::new(), Vec::new());
            for (batch, answer) in jobs {
                let commit = sequence + 1;
                for (name, is_write) in batch {
                    let prior: Option<EncodedResource> = content.get(&key(name)).cloned();
                    if !is_write && prior.is_none() {
                        continue;
                    }
                    sequence += 1;
                    let now = is_write.then(|| written(name, sequence));
                    match &now {
                        Some(now) => content.insert(key(name), now.clone()),
                        None => content.remove(&key(name)),
                    };
                    let before = prior.as_ref().map(version);
                    let logged = Logged { sequence, commit, name, before, now: is_write.then_some(sequence) };
                    self.log.lock().unwrap().push(logged);
                    changes.push(Change {
                        key: key(name),
                        type_key: type_key(),
                        seq: sequence,
                        commit,
                        is_event: true,
                        prior,
                        now,
                    });
                }
                answers.push((answer, sequence));
            }
            self.publisher.publish(&changes, || self.show(&changes));
            for (answer, sequence) in answers {
                // The caller may be gone.
                answer.send(sequence).ok();
            }
        }
        self.publisher.close();
    }

    /// Shows the last state of each changed key, one key after the other.
    fn show(&self, changes: &[Change]) {
        let last: BTreeMap<_, _> = changes.iter().map(|change| (&change.key, &change.now)).collect();
        for (key, now) in last {
            let mut table = self.table.lock();
            match now {
                Some(now) => table.insert(key.clone(), now.clone()),
                None => table.remove(key),
            };
        }
    }
}

fn written(name: &str, version: u64) -> EncodedResource {
    let resource = pb::Resource { id: Some(id(name)), version: version.to_string(), ..pb::Resource::default() };
    EncodedResource::encode(&resource).unwrap()
}
