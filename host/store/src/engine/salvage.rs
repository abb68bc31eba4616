//! Getting out of a store that no server has open what can be read of it.
//!
//! Pages of sled's file that are damaged in their records are accepted as they are ([`sled_messages`]), since our records
//! have checksums of their own; the write-ahead log counts up to its damage. A walk that comes to a page that cannot be
//! read goes on behind it: in the history at the next sequence from which on it can read, among resources at the next key
//! that is known, from the history or as the first of a type. A resource that is lost, or old, is the one that its newest
//! event has; if events are lost, too, that one may be old, and this is said.
//!
//! Where sled does not open the file even so, or reads nothing of it, it does without its list of pages, and may then have
//! older ones; this is said.
//!
//! The keys of what the history is about are in memory, besides what the caller keeps.

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
        files::{closed_at, layout::DB, recovery, wal},
        offline::Copied,
        open::PASSED_OVER,
        tree::{
            check, keys,
            panics::contained_read,
            record::{Head, Kind},
            sled_messages,
            table::Table,
        },
    },
};

/// Hands every resource of the store in `path` that can be read to `found`, some in more than one version. Answers the
/// highest version that may have been given, and what cannot be read.
pub(crate) fn salvage(
    path: &Path,
    work_dir: Option<&Path>,
    found: &mut dyn FnMut(Record),
) -> Result<(u64, Vec<Problem>), StoreError> {
    let mut problems = Vec::new();
    let mut problem = |thing: String, fault: String| problems.push(Problem { thing, fault });
    let (copied, table) = open(path, work_dir, &mut problem)?;
    let file = copied.dir.join(DB);
    if let Err(error) = contained_read(&file, || copied.settle(&table)) {
        problem("the write-ahead log".to_owned(), error.to_string());
        // Why it is not more was just said.
        contained_read(&file, || copied.settle_readable(&table)).ok();
    }
    let counters = contained_read(&file, || recovery::meta(&table));
    let mut highest = counters.as_ref().map_or(0, |meta| meta.highest);
    if let Err(error) = &counters {
        problem("the counters".to_owned(), error.to_string());
    }
    match closed_at::judge(&copied.dir, counters.as_ref().map_or(0, |meta| meta.last_seq)) {
        Ok(None) => {}
        Ok(Some(lost)) => problem(file.display().to_string(), lost),
        Err(error) => problem("the commit at which it was closed".to_owned(), error.to_string()),
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
    if let Err(error) = contained_read(&file, || first_keys(&table, &mut known)) {
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
            // What removed it is lost.
            Some((seq, Kind::Delete)) if *seq > head.seq => return Ok(()),
            Some((seq, _)) if *seq > head.seq => {}
            _ => drop(newest.remove(key)),
        }
        found(as_record(&head, &resource));
        Ok(())
    });
    // What is left was not read as its newest event has it.
    newest.retain(|_, (_, kind)| *kind == Kind::Upsert);
    let is_whole = counters.as_ref().is_ok_and(|meta| meta.event_count() == events);
    let mut regained = HashSet::new();
    for (about, (seq, _)) in newest {
        let key = keys::event(seq);
        let read = contained_read(&file, || {
            let value = table.get(&key)?.ok_or_else(|| table.damaged(&key, "it is missing"))?;
            walk.read(&key, value)
        });
        match read {
            Ok((head, resource)) => {
                found(as_record(&head, &resource));
                if is_whole {
                    regained.insert(keys::describe(&about));
                } else {
                    let what = format!("it is as commit {seq} left it; a newer one may be lost");
                    problem(keys::describe(&about), what);
                }
            }
            Err(error) => problem(keys::describe(&about), error.to_string()),
        }
    }
    problems.retain(|problem| !regained.contains(&problem.thing));
    if let Ok(meta) = counters
        && let Ok(walked) = contained_read(&file, || check::walk(&table, &copied.dir.join("blobs"), meta))
    {
        let said: HashSet<_> = problems.iter().map(|said| said.thing.clone()).collect();
        problems.extend(walked.into_iter().filter(|of| !said.contains(&of.thing) && !regained.contains(&of.thing)));
    }
    // As an opening has it: the end of the log may be lost.
    Ok((if unclean { highest.saturating_add(PASSED_OVER) } else { highest }, problems))
}

/// Opens a copy, in the best way in which sled opens it.
fn open(
    path: &Path,
    work_dir: Option<&Path>,
    problem: &mut dyn FnMut(String, String),
) -> Result<(Copied, Table), StoreError> {
    let copied = Copied::make(path, work_dir)?;
    let file = copied.dir.join(DB);
    let opened = contained_read(&file, || {
        let damaged = sled_messages::mend_damaged(&copied.copy.path().join(DB))?;
        let table = copied.open()?;
        reads_something(&table, &file)?;
        Ok((table, damaged))
    });
    let error = match opened {
        Ok((table, damaged)) => {
            if damaged > 0 {
                problem(file.display().to_string(), format!("{damaged} of its pages are damaged, or parts of pages"));
            }
            return Ok((copied, table));
        }
        Err(error) => error,
    };
    let what = "it is read without sled's list of its pages, so some resources may be older ones";
    problem(file.display().to_string(), format!("{what}: {error}"));
    // What was tried may have changed the copy.
    drop(copied);
    let copied = Copied::make(path, work_dir)?;
    let table = contained_read(&file, || copied.open_without_snapshot())?;
    Ok((copied, table))
}

/// Fails if nothing can be read: then the page that leads to all others is damaged, and an older one is better than none.
fn reads_something(table: &Table, file: &Path) -> Result<(), StoreError> {
    let first = |space: u8| {
        let mut items = table.range(vec![space]..vec![space + 1]);
        contained_read(file, || items.next().transpose().map(drop))
    };
    first(keys::RESOURCE).or_else(|_| first(keys::EVENT)).or_else(|_| first(keys::SUM))
}

/// A walk over records, whatever is damaged.
struct Walk<'t> {
    table: &'t Table,
    file: &'t Path,
}

impl Walk<'_> {
    /// Hands over the records of a space. What `each` finds wrong is a problem, and so is a page that cannot be read:
    /// behind that it goes on where `behind` says, which is told from where nothing can be read.
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
            let walked = contained_read(self.file, || {
                for item in self.table.range(from.clone()..vec![space + 1]) {
                    let (key, value) = item?;
                    if *key < *from {
                        return Err(self.table.damaged(&key, "it is behind one that it belongs in front of"));
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

    /// The key of the first sequence from which on there is something to read again, where there is not from a key on.
    /// Millions of sequences may have no event, so it looks in steps that double, and then halves the last of them: some
    /// twice the logarithm of what is in between, 128 reads at most. Of several gaps in a row it may take them and what is
    /// between them for one.
    fn event_behind(&self, from: &[u8]) -> Option<Vec<u8>> {
        let reads = |seq: u64| {
            let key = keys::event(seq);
            let mut items = self.table.range(key.clone()..vec![keys::EVENT + 1]);
            let next = contained_read(self.file, || items.next().transpose());
            // As the walk has it: one that belongs in front is none.
            next.is_ok_and(|next| next.is_none_or(|(next, _)| *next >= *key))
        };
        // A key that the walk came to has one more byte.
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

    /// A record of a resource or of an event.
    fn read(&self, key: &[u8], value: sled::IVec) -> Result<(Head, pb::Resource), StoreError> {
        let head = self.table.head(key, &value)?;
        Ok((head, self.table.decoder().decode(key, self.table.payload(key, value)?)?))
    }
}

fn as_record(head: &Head, resource: &pb::Resource) -> Record {
    let payload = prost::Message::encode_to_vec(resource);
    Record { kind: RecordKind::Resource, sequence: head.seq, payload }
}

/// What the keys of each type's resources begin with, as far as it can be read.
fn first_keys(table: &Table, found: &mut BTreeSet<Vec<u8>>) -> Result<(), StoreError> {
    for item in table.range(vec![keys::SUM]..vec![keys::SUM + 1]) {
        let key = keys::sum_type(&item?.0).map(|type_key| keys::of_type(&type_key));
        found.extend(key.and_then(Result::ok));
    }
    Ok(())
}
