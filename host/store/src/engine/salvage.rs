//! Reading as much as possible of a damaged store that no server has open.
//!
//! Damaged pages of sled's file are accepted as they are ([`sled_messages`]), since our records have checksums of their
//! own; the write-ahead log counts up to its damage. A walk that meets an unreadable page continues behind it: in the
//! history at the next readable sequence, among resources at the next known key, from the history or the first of a
//! type. A lost or old resource is replaced by that of its newest event; if events are lost, too, that version may be
//! old, and the findings name it.
//!
//! If sled does not open the file even so, or reads nothing, salvage drops sled's list of pages; sled may then find
//! older pages, and the findings mention that.
//!
//! Salvage holds the keys of the history's resources in memory, besides what the caller holds.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Bound,
    path::Path,
};

use mortise_resource::pb;

use crate::{
    Record, RecordKind, StoreError,
    check::Problem,
    engine::{
        files::{closed_at, layout::DB, recovery, store_id, wal},
        offline::StoreCopy,
        open::SKIPPED_SEQUENCES,
        tree::{
            check, keys,
            panics::catch_sled_panic,
            record::{Head, Kind},
            sled_messages,
            table::Table,
        },
    },
};

/// Hands every readable resource of the store in `path` to `found`, some in more than one version. Returns the highest
/// version that a resource may have had, and the problems.
pub(crate) fn salvage(
    path: &Path,
    work_dir: Option<&Path>,
    found: &mut dyn FnMut(Record),
) -> Result<(u64, Vec<Problem>), StoreError> {
    let mut problems = Vec::new();
    let mut problem = |thing: String, fault: String| problems.push(Problem { thing, fault });
    let (copied, table) = open(path, work_dir, &mut problem)?;
    let file = copied.dir.join(DB);
    if let Err(error) = catch_sled_panic(&file, || store_id::check(&table, &copied.dir)) {
        problem("the id of the store".to_owned(), error.to_string());
    }
    if let Err(error) = catch_sled_panic(&file, || copied.replay_log(&table)) {
        problem("the write-ahead log".to_owned(), error.to_string());
        // The problem above explains what is missing here.
        catch_sled_panic(&file, || copied.replay_readable_log(&table)).ok();
    }
    let counters = catch_sled_panic(&file, || recovery::meta(&table));
    let mut highest = counters.as_ref().map_or(0, |meta| meta.highest);
    if let Err(error) = &counters {
        problem("the counters".to_owned(), error.to_string());
    }
    match closed_at::check(&copied.dir, counters.as_ref().map_or(0, |meta| meta.last_seq)) {
        Ok(None) => {}
        Ok(Some(lost)) => problem(file.display().to_string(), lost),
        Err(error) => problem("the commit at which the store was closed".to_owned(), error.to_string()),
    }
    if let Ok(Some(closed_at)) = closed_at::get(&copied.dir) {
        highest = highest.max(closed_at);
    }
    let unclean = wal::size_on_disk(&copied.dir) > 0 || !closed_at::is_there(&copied.dir);

    let walk = Walk { table: &table, file: &file };
    let (mut newest, mut events) = (HashMap::<Vec<u8>, (u64, Kind)>::new(), 0);
    let behind = |from: &[u8]| walk.event_behind(from);
    walk.over(keys::EVENT, behind, &mut problem, |key, value| {
        let (head, resource) = walk.read(key, value)?;
        highest = highest.max(head.seq);
        let about = resource.id.as_ref().map(keys::resource);
        let about = about.and_then(Result::ok).ok_or_else(|| table.damaged(key, "its resource has no usable id"))?;
        newest.insert(about, (head.seq, head.kind));
        events += 1;
        Ok(())
    });
    let mut known: BTreeSet<_> = newest.keys().cloned().collect();
    if let Err(error) = catch_sled_panic(&file, || first_keys(&table, &mut known)) {
        problem("the list of types".to_owned(), error.to_string());
    }
    let behind = |from: &[u8]| known.range::<[u8], _>((Bound::Excluded(from), Bound::Unbounded)).next().cloned();
    walk.over(keys::RESOURCE, behind, &mut problem, |key, value| {
        let (head, resource) = walk.read(key, value)?;
        if head.kind != Kind::Resource {
            return Err(table.damaged(key, "its head belongs to another record"));
        }
        highest = highest.max(head.seq);
        match newest.get(key) {
            // The record is older than its deletion, whose write is lost.
            Some((seq, Kind::Delete)) if *seq > head.seq => return Ok(()),
            Some((seq, _)) if *seq > head.seq => {}
            _ => drop(newest.remove(key)),
        }
        found(as_record(&head, &resource));
        Ok(())
    });
    // The rest is missing, or older than its newest event.
    newest.retain(|_, (_, kind)| *kind == Kind::Upsert);
    let is_whole = counters.as_ref().is_ok_and(|meta| meta.event_count() == events);
    let mut regained = HashSet::new();
    for (about, (seq, _)) in newest {
        let key = keys::event(seq);
        let read = catch_sled_panic(&file, || {
            let value = table.get(&key)?.ok_or_else(|| table.damaged(&key, "it is missing"))?;
            walk.read(&key, value)
        });
        match read {
            Ok((head, resource)) => {
                found(as_record(&head, &resource));
                if is_whole {
                    regained.insert(keys::describe(&about));
                } else {
                    let what = format!("this is its version of commit {seq}; a newer one may be lost");
                    problem(keys::describe(&about), what);
                }
            }
            Err(error) => problem(keys::describe(&about), error.to_string()),
        }
    }
    problems.retain(|problem| !regained.contains(&problem.thing));
    if let Ok(meta) = counters
        && let Ok(walked) = catch_sled_panic(&file, || check::walk(&table, &copied.dir.join("blobs"), meta))
    {
        let reported: HashSet<_> = problems.iter().map(|reported| reported.thing.clone()).collect();
        problems.extend(
            walked
                .into_iter()
                .filter(|problem| !reported.contains(&problem.thing) && !regained.contains(&problem.thing)),
        );
    }
    // As at an opening: the end of the log may be lost.
    Ok((if unclean { highest.saturating_add(SKIPPED_SEQUENCES) } else { highest }, problems))
}

/// Opens a copy in the first way that works.
fn open(
    path: &Path,
    work_dir: Option<&Path>,
    problem: &mut dyn FnMut(String, String),
) -> Result<(StoreCopy, Table), StoreError> {
    let copied = StoreCopy::make(path, work_dir)?;
    let file = copied.dir.join(DB);
    let opened = catch_sled_panic(&file, || {
        let damaged = sled_messages::repair_checksums(&copied.copy.path().join(DB))?;
        let table = copied.open()?;
        reads_something(&table, &file)?;
        Ok((table, damaged))
    });
    let error = match opened {
        Ok((table, damaged)) => {
            if damaged > 0 {
                problem(file.display().to_string(), format!("{damaged} of its pages are damaged, in whole or in part"));
            }
            return Ok((copied, table));
        }
        Err(error) => error,
    };
    let what = "it is read without sled's list of its pages, so some resources may be old";
    problem(file.display().to_string(), format!("{what}: {error}"));
    // The first attempt may have changed the copy.
    drop(copied);
    let copied = StoreCopy::make(path, work_dir)?;
    let table = catch_sled_panic(&file, || copied.open_without_snapshot())?;
    Ok((copied, table))
}

/// Fails if nothing can be read: then the root page is damaged, and an older one is better than none.
fn reads_something(table: &Table, file: &Path) -> Result<(), StoreError> {
    let first = |space: u8| {
        let mut items = table.range(vec![space]..vec![space + 1]);
        catch_sled_panic(file, || items.next().transpose().map(drop))
    };
    first(keys::RESOURCE).or_else(|_| first(keys::EVENT)).or_else(|_| first(keys::SUM))
}

/// A walk over the records of a damaged table.
struct Walk<'t> {
    table: &'t Table,
    file: &'t Path,
}

impl Walk<'_> {
    /// Hands over the records of a space. Errors of `each` become problems, and so do unreadable pages: behind one, the
    /// walk continues at the key that `behind` returns for the last position.
    fn over(
        &self,
        space: u8,
        behind: impl Fn(&[u8]) -> Option<Vec<u8>>,
        problem: &mut dyn FnMut(String, String),
        mut each: impl FnMut(&[u8], sled::IVec) -> Result<(), StoreError>,
    ) {
        let mut from = vec![space];
        let mut in_gap = false;
        loop {
            let begun = from.clone();
            let walked = catch_sled_panic(self.file, || {
                for item in self.table.range(from.clone()..vec![space + 1]) {
                    let (key, value) = item?;
                    if *key < *from {
                        return Err(self.table.damaged(&key, "its key is out of order"));
                    }
                    from = [&*key, &[0]].concat();
                    if let Err(error) = each(&key, value) {
                        problem(keys::describe(&key), error.to_string());
                    }
                }
                Ok(())
            });
            let Err(error) = walked else { return };
            if from != begun || !in_gap {
                let last = from.strip_suffix(&[0]).unwrap_or(&from);
                problem(format!("what follows {}", keys::describe(last)), error.to_string());
            }
            in_gap = true;
            let Some(next) = behind(&from) else { return };
            from = next;
        }
    }

    /// Returns the key of the first readable sequence after an unreadable key. Millions of sequences may have no event,
    /// so the search doubles its steps, then bisects the last one: some twice the logarithm of the distance, 128 reads
    /// at most. The search may skip readable sequences between two gaps.
    fn event_behind(&self, from: &[u8]) -> Option<Vec<u8>> {
        let reads = |seq: u64| {
            let key = keys::event(seq);
            let mut items = self.table.range(key.clone()..vec![keys::EVENT + 1]);
            let next = catch_sled_panic(self.file, || items.next().transpose());
            // A key out of order counts as unreadable, as in the walk.
            next.is_ok_and(|next| next.is_none_or(|(next, _)| *next >= *key))
        };
        // After a read key, the walk's position is that key with one more byte.
        let mut bad = from.get(..keys::event(0).len()).and_then(keys::event_seq).unwrap_or(0);
        let (mut good, mut step) = (bad, 1);
        while good == bad {
            let next = bad.saturating_add(step);
            if next == bad {
                return None;
            }
            (bad, good) = if reads(next) { (bad, next) } else { (next, next) };
            step = step.saturating_mul(2);
        }
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            (bad, good) = if reads(middle) { (bad, middle) } else { (middle, good) };
        }
        Some(keys::event(good))
    }

    /// Reads the record of a resource or an event.
    fn read(&self, key: &[u8], value: sled::IVec) -> Result<(Head, pb::Resource), StoreError> {
        let head = self.table.head(key, &value)?;
        Ok((head, self.table.decoder().decode(key, self.table.payload(key, value)?)?))
    }
}

fn as_record(head: &Head, resource: &pb::Resource) -> Record {
    let payload = prost::Message::encode_to_vec(resource);
    Record { kind: RecordKind::Resource, sequence: head.seq, payload }
}

/// Adds the first key of each type's resources, as far as they can be read.
fn first_keys(table: &Table, found: &mut BTreeSet<Vec<u8>>) -> Result<(), StoreError> {
    for item in table.range(vec![keys::SUM]..vec![keys::SUM + 1]) {
        let key = keys::sum_type(&item?.0).map(|type_key| keys::type_prefix(&type_key));
        found.extend(key.and_then(Result::ok));
    }
    Ok(())
}
