//! Getting out of a store that no server has open what can be read of it.
//!
//! Pages of sled's file that are damaged in their records are accepted as they are ([`sled_messages`]), since our records
//! have checksums of their own; the write-ahead log counts up to its damage. A walk that comes to a page that cannot be read goes on behind it: at
//! the next key that is known, from the history or as the first of a type. A resource that is lost, or old, is the one that
//! its newest event has; if events are lost, too, that one may be old, and this is said.
//!
//! Where sled does not open the file even so, it does without its list of pages, and may then have older ones; this is
//! said.
//!
//! The history's keys are in memory, besides what the caller keeps.

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
    let mut copied = Copied::make(path, work_dir)?;
    let file = copied.dir.join(DB);
    let mut problems = Vec::new();
    let mut problem = |thing: String, fault: String| problems.push(Problem { thing, fault });
    let opened = contained_read(&file, || {
        let damaged = sled_messages::accept_damaged(&copied.copy.path().join(DB))?;
        Ok((copied.open()?, damaged))
    });
    let table = match opened {
        Ok((table, 0)) => table,
        Ok((table, damaged)) => {
            problem(file.display().to_string(), format!("{damaged} of its pages are damaged, or parts of pages"));
            table
        }
        Err(error) => {
            let what = "it is read without sled's list of its pages, so some resources may be older ones";
            problem(file.display().to_string(), format!("{what}: {error}"));
            // What was tried may have changed the copy.
            drop(copied);
            copied = Copied::make(path, work_dir)?;
            contained_read(&file, || copied.open_without_snapshot())?
        }
    };
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
    let sequences = counters.as_ref().map(|meta| meta.events()).unwrap_or_default();
    let (mut newest, mut events) = (HashMap::<Vec<u8>, (u64, Kind)>::new(), 0);
    walk.over(keys::EVENT, &sequences.map(keys::event).collect(), &mut problem, |key, value| {
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
    let mut lost = newest.clone();
    walk.over(keys::RESOURCE, &known, &mut problem, |key, value| {
        let (head, resource) = walk.read(key, value)?;
        if head.kind != Kind::Resource {
            return Err(table.damaged(key, "its head belongs to another record"));
        }
        highest = highest.max(head.seq);
        match newest.get(key) {
            // What removed it is lost.
            Some((seq, Kind::Delete)) if *seq > head.seq => return Ok(()),
            Some((seq, _)) if *seq > head.seq => {}
            _ => drop(lost.remove(key)),
        }
        found(as_record(&head, &resource));
        Ok(())
    });
    lost.retain(|_, (_, kind)| *kind == Kind::Upsert);
    let is_whole = counters.as_ref().is_ok_and(|meta| meta.event_count() == events);
    let mut regained = HashSet::new();
    for (about, (seq, _)) in lost {
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

/// A walk over records, whatever is damaged.
struct Walk<'t> {
    table: &'t Table,
    file: &'t Path,
}

impl Walk<'_> {
    /// Hands over the records of a space. What `each` finds wrong is a problem, and so is a page that cannot be read:
    /// behind that it goes on with the next of the keys that are known.
    fn over(
        &self,
        space: u8,
        known: &BTreeSet<Vec<u8>>,
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
            let next = known.range::<Vec<u8>, _>((Bound::Excluded(&from), Bound::Unbounded)).next();
            let Some(next) = next else { return };
            from.clone_from(next);
        }
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
