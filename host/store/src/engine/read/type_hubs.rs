//! The hubs of a type: one for all of its events, and one for each conjunction of terms that watches use.
//!
//! A change goes to a hub if each of the hub's terms holds before or after it, so watches with other terms are not
//! woken. A hub is indexed by the values of one of its terms, the one with the fewest hubs under its values at that
//! time. A change is looked up by its name and each beginning of its name, its tenancy and units, its labels, and the
//! values of the fields in the terms; each hub found is then checked with all of its terms.
//!
//! # Cost and limits
//! Some lookups for each change, with any number of watches; one read of each field in the terms, at most 16 for a
//! type; and one check for each hub under the same value. A watch with a field beyond these is woken by its other
//! terms, or without any by every change.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use mortise_resource::EncodedResource;

use crate::{
    Term, TermField, TermSubject,
    engine::{read::hub::Hub, tree::change::Change},
    terms::tenancy_text,
};

/// Most fields of a type that are read at each change.
const MAX_FIELDS: usize = 16;
/// Most terms of a hub.
const MAX_TERMS: usize = 4;

/// Terms of a hub, in order.
pub(crate) type Terms = Arc<[Term]>;

/// The hubs of a type.
#[derive(Default)]
pub(crate) struct TypeHubs {
    all: Option<Arc<Hub>>,
    of_terms: HashMap<Terms, Arc<FilteredHub>>,
    places: PlaceHubs,
    labels: HashMap<String, HubsByValue>,
    /// Fields that are read, with the number of hubs that have a term with the field.
    fields: HashMap<TermField, (usize, HubsByValue)>,
}

/// Hubs found by the place of a resource.
#[derive(Default)]
struct PlaceHubs {
    names: HubsByValue,
    prefixes: HubsByValue,
    tenancies: HubsByValue,
    partitions: HubsByValue,
    namespaces: HubsByValue,
}

/// Hubs by the values of one of their terms.
#[derive(Default)]
struct HubsByValue(HashMap<String, Vec<Arc<FilteredHub>>>);

/// A hub for watches with the same terms.
struct FilteredHub {
    hub: Arc<Hub>,
    terms: Terms,
    /// Index of the term under whose values the hub is found.
    key: usize,
}

/// A change, and the fields read from it.
struct Values<'c> {
    change: &'c Change,
    /// Values of the fields; `None` where they are unknown.
    fields: HashMap<&'c TermField, Option<Vec<String>>>,
}

impl TypeHubs {
    /// Returns the terms that the hub for these terms checks: 4 at most, with no more new fields than the type may
    /// have; `None` for the hub of all events. The watch checks the rest.
    pub(crate) fn admitted(&self, terms: &[Term]) -> Option<Terms> {
        let mut room = MAX_FIELDS.saturating_sub(self.fields.len());
        let mut admits = |field: &TermField| {
            let is_admitted = self.fields.contains_key(field) || room > 0;
            room -= usize::from(is_admitted && !self.fields.contains_key(field));
            is_admitted
        };
        let admitted = terms.iter().filter(|term| match &term.subject {
            TermSubject::Field(field) => admits(field),
            _ => true,
        });
        let admitted: Terms = admitted.take(MAX_TERMS).cloned().collect();
        (!admitted.is_empty()).then_some(admitted)
    }

    /// Returns the hub for the terms; makes it with `new` if missing.
    pub(crate) fn hub(&mut self, terms: Option<&Terms>, new: impl FnOnce() -> Arc<Hub>) -> Arc<Hub> {
        let Some(terms) = terms else { return self.all.get_or_insert_with(new).clone() };
        if let Some(known) = self.of_terms.get(terms) {
            return known.hub.clone();
        }
        let hub = new();
        let hubs_under = |term: &Term| term.values.iter().map(|value| self.under(&term.subject, value)).sum::<usize>();
        let fewest = terms.iter().enumerate().min_by_key(|(_, term)| (hubs_under(term), term.values.len()));
        let Some((key, term)) = fewest else { return hub };
        let made = Arc::new(FilteredHub { hub: hub.clone(), terms: terms.clone(), key });
        for term in terms.iter() {
            if let TermSubject::Field(field) = &term.subject {
                self.fields.entry(field.clone()).or_default().0 += 1;
            }
        }
        let by_value = match &term.subject {
            TermSubject::Label(label) => self.labels.entry(label.clone()).or_default(),
            TermSubject::Field(field) => &mut self.fields.entry(field.clone()).or_default().1,
            place => self.places.by_value(place),
        };
        for value in &term.values {
            by_value.0.entry(value.clone()).or_default().push(made.clone());
        }
        self.of_terms.insert(terms.clone(), made);
        hub
    }

    /// Returns the number of hubs under a value.
    fn under(&self, subject: &TermSubject, value: &str) -> usize {
        let places = &self.places;
        let by_value = match subject {
            TermSubject::Name => Some(&places.names),
            TermSubject::NamePrefix => Some(&places.prefixes),
            TermSubject::Tenancy => Some(&places.tenancies),
            TermSubject::Partition => Some(&places.partitions),
            TermSubject::Namespace => Some(&places.namespaces),
            TermSubject::Label(label) => self.labels.get(label),
            TermSubject::Field(field) => self.fields.get(field).map(|(_, by_value)| by_value),
        };
        by_value.and_then(|by_value| by_value.0.get(value)).map_or(0, Vec::len)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<Hub>> {
        self.all.iter().chain(self.of_terms.values().map(|known| &known.hub))
    }

    /// Calls `send` with each hub that should receive the change.
    pub(crate) fn send_to_matching<'h>(&'h self, change: &'h Change, mut send: impl FnMut(&'h Hub)) {
        self.all.iter().for_each(|hub| send(hub));
        if self.of_terms.is_empty() {
            return;
        }
        let mut values = Values { change, fields: HashMap::new() };
        let mut found: HashMap<*const FilteredHub, &FilteredHub> = HashMap::new();
        let mut add =
            |hubs: &'h [Arc<FilteredHub>]| found.extend(hubs.iter().map(|known| (Arc::as_ptr(known), &**known)));
        if let Some(resource) = values.states().next() {
            self.places.find(resource, &mut add);
        }
        if !self.labels.is_empty() {
            for (label, value) in values.states().flat_map(EncodedResource::labels) {
                add(self.labels.get(label).map_or(&[], |by_value| by_value.get(value)));
            }
        }
        for (field, (_, by_value)) in self.fields.iter().filter(|(_, (_, by_value))| !by_value.0.is_empty()) {
            match values.of_field(field) {
                Some(read) => read.iter().for_each(|value| add(by_value.get(value))),
                None => by_value.0.values().for_each(|hubs| add(hubs)),
            }
        }
        for known in found.values().filter(|known| known.terms.iter().all(|term| values.hold(term))) {
            send(&known.hub);
        }
    }

    /// Removes a hub without readers. Returns whether no hub is left.
    pub(crate) fn remove_unread(&mut self, terms: Option<&Terms>) -> bool {
        match terms {
            None => self.all = self.all.take().filter(|hub| hub.readers() > 0),
            Some(terms) => {
                if let Entry::Occupied(known) = self.of_terms.entry(terms.clone())
                    && known.get().hub.readers() == 0
                {
                    let gone = known.remove();
                    self.forget(&gone);
                }
            }
        }
        self.all.is_none() && self.of_terms.is_empty()
    }

    fn forget(&mut self, gone: &Arc<FilteredHub>) {
        let Some(key) = gone.terms.get(gone.key) else { return };
        match &key.subject {
            TermSubject::Label(label) => {
                if let Entry::Occupied(mut by_value) = self.labels.entry(label.clone()) {
                    by_value.get_mut().remove(key, gone);
                    if by_value.get().0.is_empty() {
                        by_value.remove();
                    }
                }
            }
            TermSubject::Field(field) => {
                if let Some((_, by_value)) = self.fields.get_mut(field) {
                    by_value.remove(key, gone);
                }
            }
            place => self.places.by_value(place).remove(key, gone),
        }
        for term in gone.terms.iter() {
            if let TermSubject::Field(field) = &term.subject
                && let Entry::Occupied(mut known) = self.fields.entry(field.clone())
            {
                known.get_mut().0 -= 1;
                if known.get().0 == 0 {
                    known.remove();
                }
            }
        }
    }
}

impl PlaceHubs {
    /// Returns the hubs of a subject that is a part of the place; labels and fields are elsewhere.
    fn by_value(&mut self, subject: &TermSubject) -> &mut HubsByValue {
        match subject {
            TermSubject::NamePrefix => &mut self.prefixes,
            TermSubject::Tenancy => &mut self.tenancies,
            TermSubject::Partition => &mut self.partitions,
            TermSubject::Namespace => &mut self.namespaces,
            TermSubject::Name | TermSubject::Label(_) | TermSubject::Field(_) => &mut self.names,
        }
    }

    /// Passes on the hubs under the place of a resource.
    fn find<'h>(&'h self, resource: &EncodedResource, add: &mut impl FnMut(&'h [Arc<FilteredHub>])) {
        let (name, partition, namespace) = (resource.name(), resource.partition(), resource.namespace());
        add(self.names.get(name));
        if !self.prefixes.0.is_empty() {
            let ends = name.char_indices().map(|(start, last)| start + last.len_utf8());
            ends.filter_map(|end| name.get(..end)).for_each(|prefix| add(self.prefixes.get(prefix)));
        }
        if !self.tenancies.0.is_empty() {
            add(self.tenancies.get(&tenancy_text(partition, namespace)));
        }
        add(self.partitions.get(partition));
        add(self.namespaces.get(namespace));
    }
}

impl HubsByValue {
    fn get(&self, value: &str) -> &[Arc<FilteredHub>] {
        self.0.get(value).map_or(&[], Vec::as_slice)
    }

    fn remove(&mut self, key: &Term, gone: &Arc<FilteredHub>) {
        for value in &key.values {
            if let Some(hubs) = self.0.get_mut(value) {
                hubs.retain(|known| !Arc::ptr_eq(known, gone));
                if hubs.is_empty() {
                    self.0.remove(value);
                }
            }
        }
    }
}

impl<'c> Values<'c> {
    /// Returns the resource before and after the change, as far as it exists.
    fn states(&self) -> impl Iterator<Item = &'c EncodedResource> + use<'c> {
        self.change.prior.iter().chain(&self.change.now)
    }

    fn of_field<'v>(&'v mut self, field: &'c TermField) -> Option<&'v [String]> {
        let states = self.states();
        let read = self.fields.entry(field).or_insert_with(|| {
            let read: Option<Vec<Vec<String>>> = states.map(|resource| field.values(resource)).collect();
            read.map(|read| read.concat())
        });
        read.as_deref()
    }

    /// Whether a term holds before or after the change; true where that is unknown.
    fn hold(&mut self, Term { subject, values }: &'c Term) -> bool {
        match subject {
            TermSubject::Name => self.states().any(|resource| values.contains(resource.name())),
            TermSubject::NamePrefix => {
                self.states().any(|resource| values.iter().any(|prefix| resource.name().starts_with(prefix)))
            }
            TermSubject::Partition => self.states().any(|resource| values.contains(resource.partition())),
            TermSubject::Namespace => self.states().any(|resource| values.contains(resource.namespace())),
            TermSubject::Tenancy => {
                self.states().any(|resource| values.contains(&tenancy_text(resource.partition(), resource.namespace())))
            }
            TermSubject::Label(label) => self
                .states()
                .flat_map(EncodedResource::labels)
                .any(|(key, value)| key == label && values.contains(value)),
            TermSubject::Field(field) => {
                self.of_field(field).is_none_or(|read| read.iter().any(|value| values.contains(value)))
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(simulation))]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use mortise_resource::pb;

    use super::*;
    use crate::{TypeKey, conformance::fixtures::labelled};

    const NAMES: [&str; 3] = ["r0", "r1", "r2"];
    const UNITS: [&str; 2] = ["ns0", "ns1"];
    const LABELS: [&str; 2] = ["env", "app"];
    const VALUES: [&str; 3] = ["a", "b", "c"];

    /// A linear congruential generator.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % limit
        }

        fn pick<'o>(&mut self, options: &[&'o str]) -> &'o str {
            options[self.below(options.len())]
        }

        fn pick_several(&mut self, options: &[&str]) -> BTreeSet<String> {
            (0..=self.below(2)).map(|_| self.pick(options).to_owned()).collect()
        }
    }

    /// Makes a field whose value is the generation; unknown for "?".
    fn field(id: &str, reads: &Arc<AtomicUsize>) -> TermField {
        let reads = reads.clone();
        TermField::new(id, move |resource| {
            reads.fetch_add(1, Ordering::Relaxed);
            Some(vec![resource.generation().to_owned()]).filter(|read| read != &["?"])
        })
    }

    fn resource(random: &mut Random, name: &str, namespace: &str) -> EncodedResource {
        let tenancy = Some(pb::Tenancy { partition: "p".into(), namespace: namespace.into() });
        let id = Some(pb::Id { name: name.into(), tenancy, ..pb::Id::default() });
        let generation = random.pick(&["a", "b", "c", "?"]).to_owned();
        let mut made = pb::Resource { id, generation, ..pb::Resource::default() };
        for label in LABELS {
            if random.below(3) > 0 {
                made = labelled(made, label, random.pick(&VALUES));
            }
        }
        EncodedResource::encode(&made).unwrap()
    }

    fn change(random: &mut Random) -> Change {
        let (name, namespace) = (random.pick(&NAMES), random.pick(&UNITS));
        let presence = random.below(3);
        Change {
            key: Vec::new(),
            type_key: TypeKey { group: "g".into(), kind: "K".into() },
            seq: 1,
            commit: 0,
            is_event: true,
            prior: (presence != 0).then(|| resource(random, name, namespace)),
            now: (presence != 1).then(|| resource(random, name, namespace)),
        }
    }

    fn term(random: &mut Random, field: &TermField) -> Term {
        let (subject, values) = match random.below(7) {
            0 => (TermSubject::Name, random.pick_several(&NAMES)),
            1 => {
                let namespace = random.pick(&UNITS).to_owned();
                return Term::for_tenancy(&pb::Tenancy { partition: "p".into(), namespace });
            }
            2 => (TermSubject::Label(random.pick(&LABELS).to_owned()), random.pick_several(&VALUES)),
            3 => (TermSubject::NamePrefix, random.pick_several(&["r", "r0", "r1", "r2", "r2x", "s"])),
            4 => (TermSubject::Partition, random.pick_several(&["p", "q"])),
            5 => (TermSubject::Namespace, random.pick_several(&UNITS)),
            _ => (TermSubject::Field(field.clone()), random.pick_several(&VALUES)),
        };
        Term { subject, values }
    }

    /// Whether each term holds before or after the change.
    fn holds(change: &Change, terms: &[Term]) -> bool {
        let states: Vec<_> = change.prior.iter().chain(&change.now).collect();
        terms.iter().all(|Term { subject, values }| {
            states.iter().any(|state| match subject {
                TermSubject::Name => values.contains(state.name()),
                TermSubject::NamePrefix => values.iter().any(|prefix| state.name().starts_with(prefix)),
                TermSubject::Tenancy => values.contains(&format!("p\0{}", state.namespace())),
                TermSubject::Partition => values.contains("p"),
                TermSubject::Namespace => values.contains(state.namespace()),
                TermSubject::Label(label) => state.labels().any(|(key, value)| key == label && values.contains(value)),
                TermSubject::Field(_) => state.generation() == "?" || values.contains(state.generation()),
            })
        })
    }

    fn sent(hubs: &TypeHubs, change: &Change) -> Vec<*const Hub> {
        let mut sent = Vec::new();
        hubs.send_to_matching(change, |hub| sent.push(std::ptr::from_ref(hub)));
        sent.sort();
        sent
    }

    #[test]
    fn exactly_the_hubs_with_matching_terms_receive_a_change_once() {
        let mut random = Random(7);
        let (mut heard, mut unheard, mut hubs_seen) = (0, 0, 0);
        for _ in 0..200 {
            let reads = Arc::default();
            let field = field("f", &reads);
            let mut hubs = TypeHubs::default();
            let mut open = Vec::new();
            for _ in 0..random.below(40) {
                let terms: Vec<Term> = (0..random.below(4)).map(|_| term(&mut random, &field)).collect();
                let terms = hubs.admitted(&terms);
                let hub = hubs.hub(terms.as_ref(), || Arc::new(Hub::new(Arc::default())));
                open.push((terms, hub.subscribe(false), hub));
            }
            while !open.is_empty() {
                let each: BTreeSet<_> = open.iter().map(|(.., hub)| Arc::as_ptr(hub)).collect();
                assert_eq!(hubs.each().map(Arc::as_ptr).collect::<BTreeSet<_>>(), each);
                for _ in 0..3 {
                    let change = change(&mut random);
                    let matches = |terms: &Option<Terms>| terms.as_ref().is_none_or(|terms| holds(&change, terms));
                    let mut expected: Vec<_> =
                        open.iter().filter(|(terms, ..)| matches(terms)).map(|(.., hub)| Arc::as_ptr(hub)).collect();
                    expected.sort();
                    expected.dedup();
                    reads.store(0, Ordering::Relaxed);
                    assert_eq!(sent(&hubs, &change), expected);
                    assert!(reads.load(Ordering::Relaxed) <= 2, "a field is read once before and once after");
                    heard += expected.len();
                    unheard += each.len() - expected.len();
                }
                hubs_seen += each.len();
                let (terms, reader, _) = open.swap_remove(random.below(open.len()));
                drop(reader);
                assert_eq!(hubs.remove_unread(terms.as_ref()), open.is_empty());
            }
            let PlaceHubs { names, prefixes, tenancies, partitions, namespaces } = &hubs.places;
            assert!([names, prefixes, tenancies, partitions, namespaces].iter().all(|hubs| hubs.0.is_empty()));
            assert!(hubs.labels.is_empty() && hubs.fields.is_empty());
        }
        assert!(heard > 10_000 && unheard > 10_000, "{heard} heard, {unheard} not, {hubs_seen} hubs");
    }

    #[test]
    fn at_most_the_bound_of_fields_is_read_and_further_watches_receive_more() {
        let reads = Arc::default();
        let mut hubs = TypeHubs::default();
        let mut random = Random(1);
        let sized = |n: usize| {
            let subject = TermSubject::Field(field(&format!("f{n}"), &reads));
            Term { subject, values: ["a".to_owned()].into() }
        };
        let mut open = Vec::new();
        let mut add = |hubs: &mut TypeHubs, terms: &[Term]| {
            let terms = hubs.admitted(terms);
            let hub = hubs.hub(terms.as_ref(), || Arc::new(Hub::new(Arc::default())));
            open.push((hub.subscribe(false), hub));
            terms
        };
        for n in 0..MAX_FIELDS {
            assert!(add(&mut hubs, &[sized(n)]).is_some());
        }
        assert!(add(&mut hubs, &[sized(3)]).is_some(), "the field is read already");
        assert_eq!(add(&mut hubs, &[sized(MAX_FIELDS)]), None, "it receives everything");
        let name = Term { subject: TermSubject::Name, values: ["r0".to_owned()].into() };
        assert_eq!(add(&mut hubs, &[sized(MAX_FIELDS), name.clone()]).as_deref(), Some([name].as_slice()));
        let changed = Change { prior: None, now: Some(resource(&mut random, "r9", "ns0")), ..change(&mut random) };
        sent(&hubs, &changed);
        assert_eq!(reads.load(Ordering::Relaxed), MAX_FIELDS);
    }

    #[test]
    fn watches_with_a_common_label_are_indexed_by_another_term() {
        let mut hubs = TypeHubs::default();
        let label = Term { subject: TermSubject::Label("env".into()), values: ["a".to_owned()].into() };
        for n in 0..100 {
            let name = Term { subject: TermSubject::Name, values: [format!("r{n}")].into() };
            let terms = hubs.admitted(&[label.clone(), name]);
            hubs.hub(terms.as_ref(), || Arc::new(Hub::new(Arc::default())));
        }
        let under_label = hubs.under(&label.subject, "a");
        assert!((1..=2).contains(&under_label), "{under_label}");
    }
}
