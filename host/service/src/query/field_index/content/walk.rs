//! Walks over the keys of a field.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use mortise_query::ABSENT_KEY;

use super::{IndexContent, PAGE_ENTRIES, compared_part, is_in_query, unpacked};
use crate::query::field_index::lookup::{MAX_COUNTED, Walk, WalkPage, WalkPosition};

type Bucket<'c> = (&'c String, &'c BTreeSet<String>);

impl IndexContent {
    /// Returns the next page of a walk.
    ///
    /// # Cost
    /// A search tree's way to the position, and the entries of the page; the first page counts the range, too.
    pub(in crate::query::field_index) fn walk(&self, walk: &Walk, after: Option<&WalkPosition>) -> WalkPage {
        let mut page: Vec<(Option<&str>, &str)> = Vec::new();
        if let None | Some((None, _)) = after {
            let from = after.map_or(Bound::Unbounded, |(_, place)| Bound::Excluded(place.as_str()));
            let places = self.any.range::<str, _>((from, Bound::Unbounded));
            page.extend(places.take(PAGE_ENTRIES).map(|place| (None, place.as_str())));
        }
        let known = match after {
            Some((Some(key), place)) => Some((key.as_str(), place.as_str())),
            _ => walk.start.as_ref().map(|(key, place)| (compared_part(key), place.as_str())),
        };
        for (key, places) in self.buckets(walk, known.map(|(key, _)| key)) {
            let room = PAGE_ENTRIES.saturating_sub(page.len());
            if room == 0 {
                break;
            }
            let behind = known.filter(|(position, _)| position == key).map(|(_, place)| place);
            let entry = |place| (Some(key.as_str()), String::as_str(place));
            match walk.is_descending {
                false => {
                    let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
                    page.extend(places.range::<str, _>((from, Bound::Unbounded)).take(room).map(entry));
                }
                true => {
                    let to = behind.map_or(Bound::Unbounded, Bound::Excluded);
                    page.extend(places.range::<str, _>((Bound::Unbounded, to)).rev().take(room).map(entry));
                }
            }
        }
        let owned = |key: Option<&str>| key.map(str::to_owned);
        let next = page.last().filter(|_| page.len() >= PAGE_ENTRIES);
        let next = next.map(|(key, place)| (owned(*key), (*place).to_owned()));
        let found = page.iter().filter_map(|(key, place)| Some((owned(*key), unpacked(place)?)));
        WalkPage {
            found: found.filter(|(_, place)| is_in_query(&walk.query, place)).collect(),
            next,
            entries: if after.is_none() { self.entries(walk) } else { 0 },
        }
    }

    /// The keys of a walk from one on, in its order.
    fn buckets<'c>(&'c self, walk: &Walk, from: Option<&str>) -> Box<dyn Iterator<Item = Bucket<'c>> + 'c> {
        let Some(by_value) = self.fields.get(walk.field) else { return Box::new(std::iter::empty()) };
        let absent = by_value.get_key_value(ABSENT_KEY).filter(|_| walk.with_absent);
        let (mut low, mut high) = (compared(&walk.low), compared(&walk.high));
        match (walk.is_descending, from) {
            (false, Some(ABSENT_KEY)) | (_, None) => {}
            (false, Some(from)) => {
                if key(&low).is_none_or(|low| low < from) {
                    low = Bound::Included(from);
                }
            }
            (true, Some(from)) => {
                if key(&high).is_none_or(|high| high > from) {
                    high = Bound::Included(from);
                }
            }
        }
        let range = within(by_value, low, high).filter(|(key, _)| key.as_str() != ABSENT_KEY);
        match walk.is_descending {
            false => {
                let absent = absent.filter(|_| from.is_none_or(|from| from == ABSENT_KEY));
                Box::new(absent.into_iter().chain(range))
            }
            true => Box::new(range.rev().chain(absent)),
        }
    }

    /// Counts the entries of a walk.
    fn entries(&self, walk: &Walk) -> usize {
        let mut entries = self.any.len();
        for (_, places) in self.buckets(walk, None) {
            entries = entries.saturating_add(places.len());
            if entries >= MAX_COUNTED {
                break;
            }
        }
        entries.min(MAX_COUNTED)
    }
}

fn key<'b>(bound: &Bound<&'b str>) -> Option<&'b str> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// A bound among the compared beginnings of keys, which includes at least the same keys.
fn compared(bound: &Bound<String>) -> Bound<&str> {
    match bound {
        Bound::Included(key) => Bound::Included(compared_part(key)),
        Bound::Excluded(key) if compared_part(key) == key => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(compared_part(key)),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The entries within bounds; none if these exclude each other.
fn within<'c>(
    by_value: &'c BTreeMap<String, BTreeSet<String>>,
    low: Bound<&str>,
    high: Bound<&str>,
) -> impl DoubleEndedIterator<Item = Bucket<'c>> + use<'c> {
    let is_empty = match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
    };
    let range = (!is_empty).then(|| by_value.range::<str, _>((low, high)));
    range.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use mortise_resource::{pb, tenancy::WILDCARD};
    use mortise_store::{Query, TypeKey};

    use super::*;
    use crate::query::field_index::content::{IndexEntry, IndexMemory, Terms};

    /// Walks random ranges from random starts, both ways, and compares with a sorted list.
    #[test]
    fn walks_find_what_a_sorted_list_has() {
        let mut random = fastrand::Rng::with_seed(47);
        let long = "x".repeat(300);
        let draw_key = |random: &mut fastrand::Rng| match random.usize(..9) {
            0 => ABSENT_KEY.to_owned(),
            1 => format!("1{long}{}", random.usize(..3)),
            n => format!("1v{n}"),
        };
        let (mut found_some, mut pages) = (0, 0);
        for round in 0..300 {
            let mut content = IndexContent::new(1, IndexMemory::new(Arc::new(AtomicUsize::new(0)), usize::MAX));
            let mut model: Vec<(Option<String>, String)> = Vec::new();
            for n in 0..random.usize(..400) {
                let place = format!("{}\0n\0{n:03}", ["p", "q"][random.usize(..2)]);
                let key = (random.usize(..30) > 0).then(|| draw_key(&mut random));
                let terms = key.clone().map_or(Terms::Any, |key| Terms::Known(vec![(0, key)]));
                content.add(IndexEntry { place: place.clone(), terms }).unwrap();
                model.push((key.map(|key| compared_part(&key).to_owned()), place));
            }
            let mut bound = || match random.usize(..3) {
                0 => Bound::Unbounded,
                1 => Bound::Included(draw_key(&mut random)),
                _ => Bound::Excluded(draw_key(&mut random)),
            };
            let (low, high) = (bound(), bound());
            let start = random.bool().then(|| (draw_key(&mut random), format!("p\0n\0{:03}", random.usize(..400))));
            let partition = ["p", WILDCARD][random.usize(..2)].to_owned();
            let tenancy = pb::Tenancy { partition, namespace: WILDCARD.to_owned() };
            let type_key = TypeKey { group: "g".into(), kind: "K".into() };
            let query = Arc::new(Query { type_key, tenancy, name_prefix: String::new() });
            let (with_absent, is_descending) = (random.bool(), random.bool());
            let walk = Walk { field: 0, low, high, with_absent, is_descending, start, query };
            let is_found = |(key, place): &&(Option<String>, String)| {
                let Some(key) = key else { return true };
                let is_in = match key.as_str() {
                    ABSENT_KEY => walk.with_absent,
                    key => {
                        let low = match compared(&walk.low) {
                            Bound::Included(low) => key >= low,
                            Bound::Excluded(low) => key > low,
                            Bound::Unbounded => true,
                        };
                        low && match compared(&walk.high) {
                            Bound::Included(high) => key <= high,
                            Bound::Excluded(high) => key < high,
                            Bound::Unbounded => true,
                        }
                    }
                };
                is_in
                    && walk.start.as_ref().is_none_or(|(from, behind)| {
                        let (here, start) = ((key.as_str(), place), (compared_part(from), behind));
                        if walk.is_descending { here < start } else { here > start }
                    })
            };
            let mut expected: Vec<_> = model.iter().filter(is_found).cloned().collect();
            expected.sort_by(|a, b| match (&a.0, &b.0) {
                (Some(_), Some(_)) if walk.is_descending => b.cmp(a),
                _ => a.cmp(b),
            });
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(key, place)| (key, unpacked(&place).unwrap()))
                .filter(|(_, place)| is_in_query(&walk.query, place))
                .collect();
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = content.walk(&walk, after.as_ref());
                pages += 1;
                found.extend(page.found);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            found_some += usize::from(!found.is_empty());
            assert_eq!(found, expected, "round {round}");
        }
        assert!(found_some > 150 && pages > 320, "{found_some} {pages}");
    }
}
