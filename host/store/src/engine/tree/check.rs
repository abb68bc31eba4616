//! The check of a whole store while nothing changes it: run by the commit thread, or on a closed store.
//!
//! The check walks the table once, in key order, so it holds little in memory: the versions and events with chunks, and
//! the newest event of each resource in the history.
//!
//! Checked: every record's checksum, key and content; versions against sequences and counters; chunks against heads,
//! both ways; the indexes against resources, both ways; events without gaps, counted right, and agreeing with the
//! resources; no unknown keys; no file under `blobs/`.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use mortise_resource::{EncodedResource, pb};

use crate::engine::tree::{
    checkpoint_position::CheckpointPosition,
    keys,
    record::{self, Head, Kind, Meta},
    sums::Sums,
    table::Table,
};
use crate::{StoreError, check::Problem, set_hash::Step};

/// Checks the store with the counters `meta`; `blobs` is sled's directory for large values.
pub(crate) fn walk(table: &Table, blobs: &Path, meta: Meta) -> Result<Vec<Problem>, StoreError> {
    let mut check = Check::new(table, meta);
    // Chunks come first in key order, before the heads that refer to them.
    let mut chunks = Vec::new();
    for item in table.range(Vec::new()..) {
        let (key, value) = item?;
        match key.first() {
            Some(&keys::CHUNK) => match keys::chunk_parts(&key) {
                Some(parts) => chunks.push(parts),
                None => check.problem(&key, "its key is malformed"),
            },
            Some(&keys::EVENT) => check.event(&key, value),
            Some(&keys::RESOURCE) => {
                // A record that cannot be read is reported below.
                check.found.add_read(table, &key, &value).ok();
                check.resource(&key, value);
            }
            Some(&keys::OWNER) => {
                check.found.step(Step::Add, &key, 0);
                check.index_entry(&key, keys::child(&key), ["child", "owner"]);
            }
            Some(&keys::LABEL) => {
                check.found.step(Step::Add, &key, 0);
                check.index_entry(&key, keys::labelled_resource(&key), ["resource", "label"]);
            }
            Some(&keys::REFERENCE) => {
                check.found.step(Step::Add, &key, 0);
                check.index_entry(&key, keys::referrer(&key), ["resource", "reference"]);
            }
            Some(&keys::SUM) => {
                if keys::sum_type(&key).is_none() {
                    check.problem(&key, "its key is malformed");
                }
            }
            Some(&keys::USAGE) => {
                if keys::usage_parts(&key).is_none() {
                    check.problem(&key, "its key is malformed");
                }
            }
            _ if *key == *keys::META => {
                if Meta::decode(&value) != Some(meta) {
                    check.problem(&key, "it differs from the last written one");
                }
            }
            _ if *key == *keys::CHECKPOINT => {
                if CheckpointPosition::decode(&value).is_none() {
                    check.problem(&key, "the checksum does not match");
                }
            }
            // Compared with the file of the same id elsewhere.
            _ if *key == *keys::STORE_ID => {}
            _ => check.problem(&key, "a store has no such key"),
        }
    }
    check.chunks(&chunks);
    check.totals();
    check.sums();
    check.blobs(blobs)?;
    Ok(check.problems)
}

struct Check<'t> {
    table: &'t Table,
    meta: Meta,
    problems: Vec<Problem>,
    /// Number of chunks that heads refer to, by sequence and space.
    wanted: HashMap<(u64, u8), u32>,
    /// Sequence of the newest event of each resource, and whether that was a deletion.
    newest: HashMap<Vec<u8>, (u64, bool)>,
    events: u64,
    event_bytes: u64,
    /// Sums of the resources and indexes that were read.
    found: Sums,
}

impl<'t> Check<'t> {
    fn new(table: &'t Table, meta: Meta) -> Self {
        Self {
            table,
            meta,
            problems: Vec::new(),
            wanted: HashMap::new(),
            newest: HashMap::new(),
            events: 0,
            event_bytes: 0,
            found: Sums::default(),
        }
    }

    fn problem(&mut self, key: &[u8], fault: impl Into<String>) {
        self.problems.push(Problem { thing: keys::describe(key), fault: fault.into() });
    }

    /// Reads head and content of a record; `None` after noting a problem.
    fn record(&mut self, key: &[u8], value: sled::IVec) -> Option<(Head, pb::Resource)> {
        let read = || {
            let head = self.table.head(key, &value)?;
            let payload = self.table.payload(key, value.clone())?;
            self.table.decoder().decode(key, payload).map(|resource| (head, resource))
        };
        match read() {
            Ok((head, resource)) => {
                if head.chunks() > 0 {
                    self.wanted.insert((head.seq, head.kind.space()), head.chunks());
                }
                Some((head, resource))
            }
            Err(error) => {
                self.problem(key, error.to_string());
                None
            }
        }
    }

    fn event(&mut self, key: &[u8], value: sled::IVec) {
        let Some((head, resource)) = self.record(key, value) else { return };
        let deletion = head.kind == Kind::Delete;
        if keys::event_seq(key) != Some(head.seq) || head.kind == Kind::Resource {
            self.problem(key, "its head belongs to another record");
        }
        if !self.meta.events().contains(&head.seq) {
            self.problem(key, "it is outside the history");
        }
        let version = resource.version.parse::<u64>().ok();
        if version.is_none_or(|version| if deletion { version >= head.seq } else { version != head.seq }) {
            self.problem(key, format!("its resource has version {:?}", resource.version));
        }
        self.events += 1;
        self.event_bytes += u64::from(head.len);
        if let Some(Ok(about)) = resource.id.as_ref().map(keys::resource) {
            self.newest.insert(about, (head.seq, deletion));
        } else {
            self.problem(key, "its resource has no usable id");
        }
    }

    fn resource(&mut self, key: &[u8], value: sled::IVec) {
        let newest = self.newest.remove(key);
        let Some((head, resource)) = self.record(key, value) else { return };
        if head.kind != Kind::Resource || resource.version != head.seq.to_string() {
            self.problem(key, format!("its head is of commit {}, its version is {:?}", head.seq, resource.version));
        }
        if head.seq > self.meta.last_seq {
            self.problem(key, format!("its version {} is beyond the last commit {}", head.seq, self.meta.last_seq));
        }
        if resource.id.as_ref().and_then(|id| keys::resource(id).ok()).as_deref() != Some(key) {
            self.problem(key, "its id does not match its key");
        }
        match newest {
            Some((seq, true)) => self.problem(key, format!("event {seq} deleted it")),
            Some((seq, false)) if seq != head.seq => {
                self.problem(key, format!("its version is {}, but its newest event is {seq}", head.seq));
            }
            None if head.seq >= self.meta.first_event => self.problem(key, "the event of its version is missing"),
            _ => {}
        }
        let entries = EncodedResource::encode(&resource).map(|resource| record::index_entries(&resource, key));
        let Ok(Ok(entries)) = entries else {
            self.problem(key, "its owner, labels or references do not fit into an index");
            return;
        };
        for entry in entries.iter().filter(|entry| !matches!(self.table.get(entry), Ok(Some(_)))) {
            let index = match entry.first() {
                Some(&keys::OWNER) => "owner",
                Some(&keys::LABEL) => "label",
                _ => "reference",
            };
            self.problem(key, format!("the {index} index does not have it"));
        }
    }

    /// Checks that the resource of an index entry exists, and belongs under it.
    fn index_entry(&mut self, key: &[u8], resource: Option<Vec<u8>>, [what, by]: [&str; 2]) {
        let Some(resource) = resource else {
            self.problem(key, "its key is malformed");
            return;
        };
        // A resource that cannot be read is reported elsewhere.
        let Ok(stored) = self.table.load(&resource) else { return };
        match stored {
            None => self.problem(key, format!("the {what} does not exist")),
            Some(stored) => {
                if !stored.index_entries(&resource).is_ok_and(|entries| entries.iter().any(|entry| entry == key)) {
                    self.problem(key, format!("the {what} has another {by}"));
                }
            }
        }
    }

    /// Reports chunks without a head that refers to them. Missing chunks were found with their heads.
    fn chunks(&mut self, found: &[(u64, u8, u32)]) {
        for &(seq, space, index) in found {
            if self.wanted.get(&(seq, space)).is_none_or(|count| index >= *count) {
                self.problem(&keys::chunk(seq, space, index), "nothing refers to it");
            }
        }
    }

    fn totals(&mut self) {
        let expected = self.meta.event_count();
        if self.events != expected {
            self.problem(keys::META, format!("it counts {expected} events, but there are {}", self.events));
        }
        if self.event_bytes != self.meta.event_bytes {
            let counted = self.meta.event_bytes;
            self.problem(keys::META, format!("it counts {counted} event bytes, but there are {}", self.event_bytes));
        }
        // Resources that exist were removed from the map: the rest is missing.
        let absent: HashSet<_> =
            self.newest.iter().filter(|(_, (_, deletion))| !deletion).map(|(k, _)| k.clone()).collect();
        for key in absent {
            self.problem(&key, "its newest event is not a deletion, but it is missing");
        }
    }

    /// Compares resources and indexes with the sums that commits keep.
    fn sums(&mut self) {
        match Sums::read(self.table, &self.meta) {
            Ok(should) => self.problems.extend(self.found.differences(&should)),
            Err(error) => self.problem(keys::META, error.to_string()),
        }
    }

    fn blobs(&mut self, dir: &Path) -> Result<(), StoreError> {
        let fault = |source| StoreError::Io { path: dir.to_owned(), action: "read", source };
        let files = match std::fs::read_dir(dir) {
            Ok(files) => files.count(),
            // Sled makes the directory when it needs it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(fault(error)),
        };
        if files > 0 {
            let fault = format!("it has {files} files, which sled never syncs; a value was too large");
            self.problems.push(Problem { thing: dir.display().to_string(), fault });
        }
        Ok(())
    }
}
