//! Walks over the table: the records that match a filter, in key order; seeks skip those that do not.
//!
//! A walk is fuzzy: each record is as at some moment since the walk began. [`scan`](crate::engine::read::scan) makes it
//! exact.
//!
//! # Cost
//! One step for each match, and one seek for each skipped group of keys: a wildcard partition with an exact namespace
//! seeks once or twice per partition, a prefix once or twice per namespace.

use std::{cmp::Ordering, ops::Bound, thread};

use mortise_resource::{pb, tenancy};
use sled::IVec;

use crate::engine::{
    read::filter::Filter,
    tree::{
        keys,
        merge::Step,
        table::{Payload, Table},
    },
};
use crate::{IdPartError, ListKey, Query, ScanPart, StoreError};

/// Keys after which a long step yields the processor to waiting threads: some 50 µs. Otherwise the kernel would let it
/// run for milliseconds, with any niceness.
pub(super) const YIELD_KEYS: usize = 64;

/// A matching record.
pub(crate) struct Match {
    /// Key of the resource.
    pub(crate) key: IVec,
    /// Content, not decoded yet.
    pub(crate) payload: Payload,
}

type Items = Box<dyn Iterator<Item = Result<Step, StoreError>> + Send>;

/// A walk in progress.
pub(crate) struct Walk {
    plan: Plan,
    /// Start of the remaining range, and its end.
    from: Bound<Vec<u8>>,
    end: Vec<u8>,
    /// Last key that was read; `None` if none in the remaining range.
    seen: Option<IVec>,
    /// Iterator over the remaining range; `None` while the walk rests.
    items: Option<Items>,
}

enum Plan {
    Query(QueryPlan),
    /// Children in the owner index.
    Owner,
    /// Referrers in the reference index.
    Reference,
    /// Labelled resources in the label index.
    Label(QueryPlan),
}

struct QueryPlan {
    /// Prefix of the keys of the type, or of its label.
    base: Vec<u8>,
    /// Exact namespace; `None` for all.
    namespace: Option<String>,
    name_prefix: String,
    /// Whether every key of the walk's range matches.
    takes_all: bool,
}

/// Decision on a key.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Take,
    /// The next match is at this key or later.
    Seek(Vec<u8>),
}

/// Limit of one step of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepLimit {
    /// Keys that are read; up to 32 removed keys in a row count as one.
    pub(crate) keys: usize,
    /// Bytes of found resources; the step ends with the resource that reaches them.
    pub(crate) bytes: usize,
}

impl Walk {
    /// Starts a walk. A filter with a zero byte, which does not fit into a key, matches nothing.
    pub(crate) fn new(filter: &Filter) -> Self {
        let start = match filter {
            Filter::Query(query) => QueryPlan::new(query).map(|(plan, start)| (Plan::Query(plan), start, None)),
            Filter::Part(query, part) => Plan::of_part(query, part),
            Filter::Owner(owner) => keys::owner_prefix(owner).map(|start| (Plan::Owner, start, None)),
            Filter::Referrer(target, on_delete) => {
                keys::reference_prefix(target, *on_delete).map(|start| (Plan::Reference, start, None))
            }
        };
        let Ok((plan, start, after)) = start else {
            let nothing = Bound::Included(Vec::new());
            return Self { plan: Plan::Owner, from: nothing, end: Vec::new(), seen: None, items: None };
        };
        let mut end = keys::after(&start);
        let from = match after {
            Some(after) if after >= end => {
                end.clear();
                Bound::Included(start)
            }
            Some(after) if after >= start => Bound::Excluded(after),
            _ => Bound::Included(start),
        };
        Self { plan, end, from, seen: None, items: None }
    }

    /// Releases the table and the maps in front of its tree until the next step, which takes the present ones.
    pub(crate) fn rest(&mut self) {
        if let Some(key) = &self.seen {
            self.from = Bound::Excluded(key.to_vec());
        }
        self.items = None;
    }

    fn next(&mut self, table: &Table) -> Option<<Items as Iterator>::Item> {
        let items = self.items.get_or_insert_with(|| {
            let range = (self.from.clone(), Bound::Excluded(self.end.clone()));
            Box::new(table.steps(range))
        });
        items.next()
    }

    /// Continues up to the limit. Returns whether the end is reached. `table` must be the same in each step.
    pub(crate) fn step(&mut self, table: &Table, limit: StepLimit, found: &mut Vec<Match>) -> Result<bool, StoreError> {
        if self.end.is_empty() {
            return Ok(true);
        }
        // Whether the last key that was read is that of the last found resource.
        let mut is_found = false;
        let mut bytes = 0;
        let has_ended = 'walk: {
            for number in 1..=limit.keys {
                if number % YIELD_KEYS == 0 && number < limit.keys {
                    thread::yield_now();
                }
                if bytes >= limit.bytes {
                    break 'walk false;
                }
                let Some(item) = self.next(table) else { break 'walk true };
                is_found = false;
                let (key, value) = match item? {
                    Step::Entry(key, value) => (key, value),
                    Step::Removed(key) => {
                        // A walk that rests goes on behind it, however many removed keys follow each other.
                        self.seen = Some(key);
                        continue;
                    }
                };
                let found_at = match &self.plan {
                    Plan::Query(plan) | Plan::Label(plan) => match plan.decide(&key) {
                        Some(Verdict::Take) if matches!(self.plan, Plan::Query(_)) => {
                            is_found = true;
                            Match { payload: table.payload(&key, value)?, key }
                        }
                        Some(Verdict::Take) => {
                            let found_at = indexed(table, keys::labelled_resource(&key), &key)?;
                            self.seen = Some(key);
                            found_at
                        }
                        Some(Verdict::Seek(from)) => {
                            // Keys beyond the end cannot match.
                            if from >= self.end {
                                break 'walk true;
                            }
                            if *from <= *key {
                                return Err(table.damaged(&key, "a walk came back to it; please report this bug"));
                            }
                            (self.from, self.seen, self.items) = (Bound::Included(from), None, None);
                            continue;
                        }
                        None => return Err(table.damaged(&key, "its key is malformed")),
                    },
                    Plan::Owner | Plan::Reference => {
                        let resource =
                            if matches!(self.plan, Plan::Owner) { keys::child(&key) } else { keys::referrer(&key) };
                        let found_at = indexed(table, resource, &key)?;
                        self.seen = Some(key);
                        found_at
                    }
                };
                bytes += found_at.payload.len();
                found.push(found_at);
            }
            false
        };
        if is_found {
            self.seen = found.last().map(|found_at| found_at.key.clone());
        }
        Ok(has_ended)
    }
}

/// Reads the resource of an index entry.
fn indexed(table: &Table, resource: Option<Vec<u8>>, entry: &[u8]) -> Result<Match, StoreError> {
    let key = resource.ok_or_else(|| table.damaged(entry, "its key is malformed"))?;
    let payload = match table.get(&key)? {
        Some(value) => table.payload(&key, value)?,
        // A writer removed it, or the index is damaged; the exact scan distinguishes them.
        None => Payload::Torn,
    };
    Ok(Match { key: key.into(), payload })
}

/// A plan, the start of its walk, and the key behind which the walk starts if that is further.
type Start = (Plan, Vec<u8>, Option<Vec<u8>>);

impl Plan {
    fn of_part(query: &Query, ScanPart { label, after }: &ScanPart) -> Result<Start, IdPartError> {
        let base = match label {
            Some((label, value)) => keys::label_prefix(&query.type_key, label, value)?,
            None => keys::type_prefix(&query.type_key)?,
        };
        let after = after.as_ref().map(|ListKey { partition, namespace, name }| {
            let mut key = base.clone();
            let segments = [("after", partition.as_str()), ("after", namespace), ("after", name)];
            keys::push(&mut key, &segments).map(|()| key)
        });
        let after = after.transpose()?;
        let (plan, start) = QueryPlan::on(base, query)?;
        let plan = if label.is_some() { Self::Label(plan) } else { Self::Query(plan) };
        Ok((plan, start, after))
    }
}

impl QueryPlan {
    /// Returns the plan, and the start of the walk.
    fn new(query: &Query) -> Result<(Self, Vec<u8>), IdPartError> {
        Self::on(keys::type_prefix(&query.type_key)?, query)
    }

    /// Makes the plan for keys that have the prefix `base`, then partition, namespace and name.
    fn on(base: Vec<u8>, query: &Query) -> Result<(Self, Vec<u8>), IdPartError> {
        let pb::Tenancy { partition, namespace } = &query.tenancy;
        let exact = |unit: &str| unit != tenancy::WILDCARD;
        // Keys have no zero byte in a name. A seek would find the preceding key for ever.
        if query.name_prefix.contains('\0') {
            return Err(IdPartError("name_prefix"));
        }
        let mut fixed = base.clone();
        if exact(partition) {
            keys::push(&mut fixed, &[("tenancy.partition", partition)])?;
            if exact(namespace) {
                keys::push(&mut fixed, &[("tenancy.namespace", namespace)])?;
                fixed.extend_from_slice(query.name_prefix.as_bytes());
            }
        }
        let is_everywhere = !exact(namespace) && query.name_prefix.is_empty();
        let plan = Self {
            base,
            takes_all: is_everywhere || (exact(partition) && exact(namespace)),
            namespace: match exact(namespace) {
                // The same holds for an exact namespace in any partition.
                true if namespace.contains('\0') => return Err(IdPartError("tenancy.namespace")),
                true => Some(namespace.clone()),
                false => None,
            },
            name_prefix: query.name_prefix.clone(),
        };
        Ok((plan, fixed))
    }

    /// Decides on a key; `None` for a malformed key.
    fn decide(&self, key: &[u8]) -> Option<Verdict> {
        let place = key.strip_prefix(self.base.as_slice())?;
        if self.takes_all {
            return keys::is_place(place).then_some(Verdict::Take);
        }
        let [partition, namespace, name] = keys::place(place)?;
        if let Some(wanted) = &self.namespace {
            match namespace.cmp(wanted) {
                Ordering::Less => return Some(Verdict::Seek(self.at(partition, Some(wanted)))),
                Ordering::Greater => return Some(Verdict::Seek(self.beyond(partition, None))),
                Ordering::Equal => {}
            }
        }
        if name.starts_with(&self.name_prefix) {
            return Some(Verdict::Take);
        }
        Some(Verdict::Seek(if name < self.name_prefix.as_str() {
            self.at(partition, Some(namespace))
        } else if self.namespace.is_some() {
            self.beyond(partition, None)
        } else {
            self.beyond(partition, Some(namespace))
        }))
    }

    /// Returns the first key of a match in a namespace.
    fn at(&self, partition: &str, namespace: Option<&str>) -> Vec<u8> {
        let mut key = self.unit(partition, namespace);
        key.extend_from_slice(self.name_prefix.as_bytes());
        key
    }

    /// Returns the first key behind a partition, or behind a namespace in it.
    fn beyond(&self, partition: &str, namespace: Option<&str>) -> Vec<u8> {
        keys::after(&self.unit(partition, namespace))
    }

    fn unit(&self, partition: &str, namespace: Option<&str>) -> Vec<u8> {
        let mut key = self.base.clone();
        for unit in std::iter::once(partition).chain(namespace) {
            key.extend_from_slice(unit.as_bytes());
            key.push(0);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TypeKey;
    use crate::engine::tree::{
        record::{self, Kind},
        write_batch::WriteBatch,
    };

    fn plan(partition: &str, namespace: &str, prefix: &str) -> (QueryPlan, String) {
        let query = Query {
            type_key: TypeKey { group: "g".into(), kind: "K".into() },
            tenancy: pb::Tenancy { partition: partition.into(), namespace: namespace.into() },
            name_prefix: prefix.into(),
        };
        let (plan, start) = QueryPlan::new(&query).unwrap();
        (plan, shown(&start))
    }

    fn shown(key: &[u8]) -> String {
        String::from_utf8(key.to_vec()).unwrap().replace('\0', "/").replace('\u{1}', "!")
    }

    fn decision(plan: &QueryPlan, partition: &str, namespace: &str, name: &str) -> String {
        let key = format!("rg\0K\0{partition}\0{namespace}\0{name}\0");
        match plan.decide(key.as_bytes()).unwrap() {
            Verdict::Take => "take".into(),
            Verdict::Seek(to) => shown(&to),
        }
    }

    #[test]
    fn exact_units_and_the_prefix_bound_the_range() {
        let (plan, start) = plan("p", "n", "we");
        assert_eq!((start.as_str(), plan.namespace.as_deref()), ("rg/K/p/n/we", Some("n")));
        assert_eq!(shown(&keys::after(b"rg\0K\0p\0n\0we")), "rg/K/p/n/wf");
    }

    /// A rested walk repeats no key and misses none, wherever the entries are by then.
    #[test]
    fn a_rested_walk_continues_at_its_place() {
        let name = |i: u64| format!("n{i:02}");
        for pause in 1..12 {
            let db = sled::Config::new().temporary(true).open().unwrap();
            let table = Table::new(db, "db".into());
            for i in 0..20 {
                let mut batch = WriteBatch::default();
                let id = pb::Id {
                    r#type: Some(pb::Type { group: "g".into(), group_version: "v1".into(), kind: "K".into() }),
                    tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: format!("s{}", i % 2) }),
                    name: name(i),
                    uid: String::new(),
                };
                record::write(&mut batch, &keys::resource(&id).unwrap(), Kind::Resource, i, b"");
                if i % 3 == 0 { table.write_through(batch.into_sled()).unwrap() } else { table.apply(&batch) }
            }
            let query = |namespace: &str| {
                Filter::Query(Query {
                    type_key: TypeKey { group: "g".into(), kind: "K".into() },
                    tenancy: pb::Tenancy { partition: "*".into(), namespace: namespace.into() },
                    name_prefix: String::new(),
                })
            };
            for (namespace, count) in [("*", 20), ("s1", 10)] {
                let (mut walk, mut found) = (Walk::new(&query(namespace)), Vec::new());
                let limit = StepLimit { keys: pause, bytes: usize::MAX };
                while !walk.step(&table, limit, &mut found).unwrap() {
                    walk.rest();
                }
                let mut sorted: Vec<_> = found.iter().map(|found| found.key.clone()).collect();
                sorted.sort();
                sorted.dedup();
                assert_eq!(sorted.len(), count, "{namespace} by {pause}");
                assert!(found.iter().map(|found| &found.key).eq(&sorted), "in order");
            }
        }
    }

    /// A walk that rests after each step gets past any number of removed keys, in a bounded number of steps.
    #[test]
    fn a_rested_walk_gets_past_removed_keys() {
        const REMOVED: u64 = 1_000;
        let db = sled::Config::new().temporary(true).open().unwrap();
        let table = Table::new(db, "db".into());
        let edit = |from: u64, to: u64, edit: &mut dyn FnMut(&mut WriteBatch, Vec<u8>, u64)| {
            let mut batch = WriteBatch::default();
            for i in from..to {
                let id = pb::Id {
                    r#type: Some(pb::Type { group: "g".into(), group_version: "v1".into(), kind: "K".into() }),
                    tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: "n".into() }),
                    name: format!("n{i:05}"),
                    uid: String::new(),
                };
                edit(&mut batch, keys::resource(&id).unwrap(), i);
            }
            batch
        };
        let mut write = |batch: &mut WriteBatch, key: Vec<u8>, i| {
            record::write(batch, &key, Kind::Resource, i, b"");
        };
        table.write_through(edit(0, REMOVED + 2, &mut write).into_sled()).unwrap();
        table.apply(&edit(1, REMOVED + 1, &mut |batch, key, _| {
            batch.remove(key);
        }));
        let query = Filter::Query(Query {
            type_key: TypeKey { group: "g".into(), kind: "K".into() },
            tenancy: pb::Tenancy { partition: "p".into(), namespace: "n".into() },
            name_prefix: String::new(),
        });
        let (mut walk, mut found, mut steps) = (Walk::new(&query), Vec::new(), 0);
        while !walk.step(&table, StepLimit { keys: 2, bytes: usize::MAX }, &mut found).unwrap() {
            walk.rest();
            steps += 1;
            assert!(steps < REMOVED, "{steps} steps, {} found", found.len());
        }
        assert_eq!(found.len(), 2, "in {steps} steps");
    }

    #[test]
    fn an_exact_namespace_in_any_partition_seeks_from_partition_to_partition() {
        let (plan, start) = plan("*", "n", "w");
        assert_eq!((start.as_str(), plan.namespace.as_deref()), ("rg/K/", Some("n")));
        assert_eq!(decision(&plan, "p", "a", "x"), "rg/K/p/n/w");
        assert_eq!(decision(&plan, "p", "n", "a"), "rg/K/p/n/w");
        assert_eq!(decision(&plan, "p", "n", "web"), "take");
        assert_eq!(decision(&plan, "p", "n", "x"), "rg/K/p!");
        assert_eq!(decision(&plan, "p", "z", "web"), "rg/K/p!");
    }

    #[test]
    fn a_prefix_in_any_namespace_seeks_from_namespace_to_namespace() {
        let (plan, _) = plan("p", "*", "w");
        assert_eq!(decision(&plan, "p", "a", "a"), "rg/K/p/a/w");
        assert_eq!(decision(&plan, "p", "a", "web"), "take");
        assert_eq!(decision(&plan, "p", "a", "x"), "rg/K/p/a!");
        assert!(plan.decide(b"rg\0K\0").is_none());
    }

    /// A filter with a zero byte would seek between a name and its extension by a zero byte, a gap without keys.
    #[test]
    fn a_filter_with_a_zero_byte_anywhere_matches_nothing() {
        let query = |partition: &str, namespace: &str, prefix: &str| Query {
            type_key: TypeKey { group: "g".into(), kind: "K".into() },
            tenancy: pb::Tenancy { partition: partition.into(), namespace: namespace.into() },
            name_prefix: prefix.into(),
        };
        for (partition, namespace, prefix) in [
            ("p", "n", "a\0"),
            ("p", "*", "a\0"),
            ("*", "n", "\0"),
            ("*", "*", "a\0b"),
            ("*", "n\0", ""),
            ("p\0", "*", ""),
        ] {
            assert!(
                QueryPlan::new(&query(partition, namespace, prefix)).is_err(),
                "{partition:?} {namespace:?} {prefix:?}"
            );
        }
    }
}
