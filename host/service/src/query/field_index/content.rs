//! The content of the indexes of a type: places by value, in the order of lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use mortise_resource::tenancy::WILDCARD;
use mortise_store::{ListKey, Query};

use super::lookup::{Lookup, LookupPage};

mod walk;

/// Places read by one look-up.
const PAGE_ENTRIES: usize = 128;
/// Bytes of a value that the index compares. A look-up of a longer value also finds others with the same beginning.
pub(in crate::query) const COMPARED_VALUE_BYTES: usize = 256;
/// Bytes of a place in a set, and of a value in a map, besides their texts.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// The values under which the index finds a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Terms {
    /// These values of fields.
    Known(Vec<(usize, String)>),
    /// Every value, since the resource's values are unknown.
    Any,
}

/// An indexed resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Partition, namespace and name, separated by zero bytes, which no name has.
    pub(super) place: String,
    pub(super) terms: Terms,
}

/// The effect of a change.
#[derive(Debug)]
pub(super) struct EntryChange {
    pub(super) before: Option<IndexEntry>,
    pub(super) now: Option<IndexEntry>,
}

/// The bytes of one content among those of all.
#[derive(Debug)]
pub(super) struct IndexMemory {
    total: Arc<AtomicUsize>,
    limit: usize,
    own: usize,
}

/// The indexes exceed their bytes.
#[derive(Debug)]
pub(super) struct IndexFull;

/// The indexes of a type.
#[derive(Debug)]
pub(super) struct IndexContent {
    fields: Vec<BTreeMap<String, BTreeSet<String>>>,
    /// Places found by every value.
    any: BTreeSet<String>,
    memory: IndexMemory,
}

impl IndexMemory {
    pub(super) fn new(total: Arc<AtomicUsize>, limit: usize) -> Self {
        Self { total, limit, own: 0 }
    }

    /// Takes bytes of the total.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), IndexFull> {
        self.own += bytes;
        let total = self.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        show(total);
        if total > self.limit { Err(IndexFull) } else { Ok(()) }
    }

    /// Gives bytes back.
    pub(super) fn give(&mut self, bytes: usize) {
        self.own -= bytes;
        show(self.total.fetch_sub(bytes, Ordering::Relaxed) - bytes);
    }
}

impl Drop for IndexMemory {
    fn drop(&mut self) {
        self.give(self.own);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric")]
fn show(total: usize) {
    metrics::gauge!("mortise_field_index_bytes").set(total as f64);
}

impl EntryChange {
    /// Returns the bytes of the entry in the index.
    pub(super) fn bytes(&self) -> usize {
        let entries = [&self.before, &self.now].into_iter().flatten();
        ENTRY_OVERHEAD_BYTES + entries.map(IndexEntry::bytes).sum::<usize>()
    }
}

impl IndexEntry {
    fn bytes(&self) -> usize {
        let terms = match &self.terms {
            Terms::Known(terms) => terms.iter().map(|(_, value)| value.len() + ENTRY_OVERHEAD_BYTES).sum(),
            Terms::Any => 0,
        };
        self.place.len() + ENTRY_OVERHEAD_BYTES + terms
    }
}

impl IndexContent {
    pub(super) fn new(fields: usize, memory: IndexMemory) -> Self {
        Self { fields: (0..fields).map(|_| BTreeMap::new()).collect(), any: BTreeSet::new(), memory }
    }

    /// Adds a resource.
    pub(super) fn add(&mut self, IndexEntry { place, terms }: IndexEntry) -> Result<(), IndexFull> {
        let cost = place.len() + ENTRY_OVERHEAD_BYTES;
        let mut bytes = 0;
        match terms {
            Terms::Known(terms) => {
                for (field, value) in terms {
                    let Some(by_value) = self.fields.get_mut(field) else { continue };
                    let value = compared_part(&value);
                    let places = match by_value.get_mut(value) {
                        Some(places) => places,
                        None => {
                            bytes += value.len() + ENTRY_OVERHEAD_BYTES;
                            by_value.entry(value.to_owned()).or_default()
                        }
                    };
                    bytes += if places.insert(place.clone()) { cost } else { 0 };
                }
            }
            Terms::Any => bytes += if self.any.insert(place) { cost } else { 0 },
        }
        self.memory.take(bytes)
    }

    /// Applies a change.
    pub(super) fn apply(&mut self, EntryChange { before, now }: EntryChange) -> Result<(), IndexFull> {
        if before == now {
            return Ok(());
        }
        if let Some(before) = before {
            self.remove(&before);
        }
        now.map_or(Ok(()), |now| self.add(now))
    }

    fn remove(&mut self, IndexEntry { place, terms }: &IndexEntry) {
        let cost = place.len() + ENTRY_OVERHEAD_BYTES;
        let mut bytes = 0;
        // A resource stored in a new form without an event is still indexed in its old form.
        bytes += if self.any.remove(place) { cost } else { 0 };
        if let Terms::Known(terms) = terms {
            for (field, value) in terms {
                let Some(by_value) = self.fields.get_mut(*field) else { continue };
                let value = compared_part(value);
                let Some(places) = by_value.get_mut(value) else { continue };
                bytes += if places.remove(place) { cost } else { 0 };
                if places.is_empty() {
                    by_value.remove(value);
                    bytes += value.len() + ENTRY_OVERHEAD_BYTES;
                }
            }
        }
        self.memory.give(bytes);
    }

    /// Returns the counted bytes, those of changes that wait to be applied among them.
    pub(super) fn memory(&mut self) -> &mut IndexMemory {
        &mut self.memory
    }

    /// Finds the next places with one of the values.
    pub(super) fn find(&self, lookup: &Lookup, after: Option<&ListKey>) -> LookupPage {
        let none = BTreeMap::new();
        let by_value = self.fields.get(lookup.field).unwrap_or(&none);
        // Values with the same compared beginning have one set.
        let values: BTreeSet<&str> = lookup.values.iter().map(|value| compared_part(value)).collect();
        let sets = || values.iter().filter_map(|value| by_value.get(*value)).chain([&self.any]);
        let begin = begin(&lookup.query);
        let after = after.map(packed).filter(|after| *after >= begin);
        let from = after.as_deref().map_or(Bound::Included(begin.as_str()), Bound::Excluded);
        let within = |set| -> Vec<&str> {
            let set: &BTreeSet<String> = set;
            let behind = set.range::<str, _>((from, Bound::Unbounded)).map(String::as_str);
            behind.take_while(|place| place.starts_with(&begin)).take(PAGE_ENTRIES).collect()
        };
        let looked_at: BTreeSet<&str> = sets().flat_map(within).collect();
        let page: Vec<ListKey> = looked_at.into_iter().take(PAGE_ENTRIES).filter_map(unpacked).collect();
        LookupPage {
            next: page.last().filter(|_| page.len() == PAGE_ENTRIES).cloned(),
            entries: sets().map(BTreeSet::len).sum(),
            places: page.into_iter().filter(|place| is_in_query(&lookup.query, place)).collect(),
        }
    }
}

/// Returns the compared beginning of a value.
pub(in crate::query) fn compared_part(value: &str) -> &str {
    value.get(..value.floor_char_boundary(COMPARED_VALUE_BYTES)).unwrap_or(value)
}

pub(in crate::query) fn packed(place: &ListKey) -> String {
    [place.partition.as_str(), &place.namespace, &place.name].join("\0")
}

fn unpacked(place: &str) -> Option<ListKey> {
    let mut parts = place.splitn(3, '\0').map(str::to_owned);
    Some(ListKey { partition: parts.next()?, namespace: parts.next()?, name: parts.next()? })
}

/// Returns the common beginning of the places of a query.
fn begin(Query { tenancy, name_prefix, .. }: &Query) -> String {
    match (tenancy.partition.as_str(), tenancy.namespace.as_str()) {
        (WILDCARD, _) => String::new(),
        (partition, WILDCARD) => format!("{partition}\0"),
        (partition, namespace) => [partition, namespace, name_prefix].join("\0"),
    }
}

fn is_in_query(Query { tenancy, name_prefix, .. }: &Query, place: &ListKey) -> bool {
    let is = |asked: &String, unit: &String| asked == WILDCARD || asked == unit;
    is(&tenancy.partition, &place.partition)
        && is(&tenancy.namespace, &place.namespace)
        && place.name.starts_with(name_prefix)
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;
    use mortise_store::TypeKey;

    use super::*;

    fn random_entry(random: &mut fastrand::Rng) -> IndexEntry {
        let place = ["p", "q"][random.usize(..2)].to_owned() + "\0" + ["", "n"][random.usize(..2)];
        let place = format!("{place}\0{}-{}", ["a", "b"][random.usize(..2)], random.usize(..400));
        let long = "é".repeat(COMPARED_VALUE_BYTES);
        let value = |random: &mut fastrand::Rng| match random.usize(..5) {
            0 => long.clone() + "!",
            n => format!("v{n}"),
        };
        let terms = (0..random.usize(..4)).map(|_| (random.usize(..2), value(random))).collect();
        IndexEntry { place, terms: if random.usize(..20) == 0 { Terms::Any } else { Terms::Known(terms) } }
    }

    /// Compares look-ups after random changes with a model: places in order, each once; empty sets take no bytes.
    #[test]
    fn look_ups_find_what_a_model_has() {
        let mut random = fastrand::Rng::with_seed(21);
        let total = Arc::new(AtomicUsize::new(0));
        let (mut walks, mut pages, mut found_some) = (0, 0, 0);
        for round in 0..60 {
            let mut content = IndexContent::new(2, IndexMemory::new(total.clone(), usize::MAX));
            let mut model: BTreeMap<String, IndexEntry> = BTreeMap::new();
            for _ in 0..random.usize(1..3_000) {
                let entry = random_entry(&mut random);
                let before = model.get(&entry.place).cloned();
                let now = (random.usize(..4) > 0).then_some(entry.clone());
                match &now {
                    Some(now) => model.insert(entry.place, now.clone()),
                    None => model.remove(&entry.place),
                };
                content.apply(EntryChange { before, now }).unwrap();
            }
            for _ in 0..20 {
                let values = ["v1", "v2", "v3", "nope", &"é".repeat(COMPARED_VALUE_BYTES)].map(str::to_owned);
                let values: BTreeSet<_> = values.into_iter().filter(|_| random.bool()).collect();
                let tenancy = pb::Tenancy {
                    partition: ["p", "q", WILDCARD][random.usize(..3)].to_owned(),
                    namespace: ["", "n", WILDCARD][random.usize(..3)].to_owned(),
                };
                let name_prefix = ["", "a", "b-1"][random.usize(..3)].to_owned();
                let type_key = TypeKey { group: "g".into(), kind: "K".into() };
                let query = Arc::new(Query { type_key, tenancy, name_prefix });
                let lookup = Lookup { field: random.usize(..2), values: Arc::new(values), query };
                let is_found = |entry: &&IndexEntry| {
                    is_in_query(&lookup.query, &unpacked(&entry.place).unwrap())
                        && match &entry.terms {
                            Terms::Any => true,
                            Terms::Known(terms) => terms.iter().any(|(field, value)| {
                                *field == lookup.field
                                    && lookup.values.iter().any(|sought| compared_part(sought) == compared_part(value))
                            }),
                        }
                };
                let expected: Vec<_> = model.values().filter(is_found).map(|e| unpacked(&e.place).unwrap()).collect();
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let page = content.find(&lookup, after.as_ref());
                    pages += 1;
                    found.extend(page.places);
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(found, expected, "round {round}");
                walks += 1;
                found_some += usize::from(!expected.is_empty());
            }
            for entry in model.into_values() {
                content.apply(EntryChange { before: Some(entry), now: None }).unwrap();
            }
            assert_eq!(content.memory.own, 0, "round {round}");
        }
        assert!(walks == 1_200 && found_some > 600 && pages > walks, "{walks} {found_some} {pages}");
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let total = Arc::new(AtomicUsize::new(0));
        let mut content = IndexContent::new(1, IndexMemory::new(total.clone(), 1_000));
        let entry = |n: usize| IndexEntry { place: format!("p\0n\0{n}"), terms: Terms::Known(vec![(0, "v".into())]) };
        let taken = (0..100).take_while(|n| content.add(entry(*n)).is_ok()).count();
        assert_eq!(taken, (1_000 - "v".len() - ENTRY_OVERHEAD_BYTES) / ("p.n.1".len() + ENTRY_OVERHEAD_BYTES));
        drop(content);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
