//! Labels, annotations and tags, the *notes* that a configuration owns key by key. Those of others stay as they are: a
//! state has the owned ones alone, and a write leaves the others alone.

use std::collections::{BTreeMap, BTreeSet};

use mortise_resource::{goten::Meta, pb};

use super::ControllerKeys;
use crate::value::Value;

type Pairs = BTreeMap<String, String>;

/// The labels, annotations and tags of a state, a plan or a known configuration.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Notes {
    labels: Pairs,
    annotations: Pairs,
    tags: BTreeSet<String>,
}

impl Notes {
    /// Labels, annotations and tags of a state or a plan, the default labels included.
    #[must_use]
    pub fn of(state: &Value) -> Self {
        let tags = match state.get("tags") {
            Value::List(tags) => tags.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            _ => BTreeSet::new(),
        };
        Self { labels: pairs(state.get("all_labels")), annotations: pairs(state.get("annotations")), tags }
    }

    /// The meta of a new resource; `None` without a label, an annotation or a tag.
    #[must_use]
    pub fn new_meta(&self) -> Option<Box<Meta>> {
        self.replacing(&Self::default(), None, &ControllerKeys::default())
    }

    /// The meta of a write: the stored one with these in place of those that were owned before. `None` if nothing is
    /// owned: such a write keeps the stored meta. Values under keys of controllers stay; a new one is a first value.
    #[must_use]
    pub fn replacing(&self, before: &Self, stored: Option<&Meta>, keys: &ControllerKeys) -> Option<Box<Meta>> {
        if *self == Self::default() && *before == Self::default() {
            return None;
        }
        let mut meta = stored.cloned().unwrap_or_default();
        for (stored, before, own) in [
            (&mut meta.labels, &before.labels, &self.labels),
            (&mut meta.annotations, &before.annotations, &self.annotations),
        ] {
            stored.retain(|key, _| keys.own(key) || !before.contains_key(key));
            let stays = |key: &String| keys.own(key) && (stored.contains_key(key) || before.contains_key(key));
            let written: Vec<_> = own.iter().filter(|(key, _)| !stays(key)).collect();
            stored.extend(written.into_iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        meta.tags.retain(|tag| !before.tags.contains(tag) || self.tags.contains(tag));
        let missing: Vec<_> = self.tags.iter().filter(|tag| !meta.tags.contains(tag)).cloned().collect();
        meta.tags.extend(missing);
        Some(Box::new(meta))
    }

    /// Whether a stored resource has all of them, and none that only were owned before.
    #[must_use]
    pub fn are_on(&self, before: &Self, resource: &pb::Resource, keys: &ControllerKeys) -> bool {
        let none = Meta::default();
        let stored = resource.meta.as_deref();
        self.replacing(before, stored, keys).is_none_or(|meta| *meta == *stored.unwrap_or(&none))
    }
}

fn pairs(value: &Value) -> Pairs {
    let Value::Map(entries) = value else { return Pairs::new() };
    entries.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The attributes of a state for a stored resource: the values of the keys that the prior state owns; the prior ones
/// for keys of controllers.
pub(super) fn owned(prior: &Value, resource: &pb::Resource, keys: &ControllerKeys) -> [(&'static str, Value); 4] {
    let none = Meta::default();
    let meta = resource.meta.as_deref().unwrap_or(&none);
    let of = |name: &str, stored: &Pairs| match prior.get(name) {
        Value::Map(own) => {
            let found = |(key, prior): (&String, &Value)| match keys.own(key) {
                true => Some((key.clone(), prior.clone())),
                false => stored.get(key).map(|value| (key.clone(), Value::String(value.clone()))),
            };
            Value::Map(own.iter().filter_map(found).collect())
        }
        _ => Value::Null,
    };
    let tags = match prior.get("tags") {
        Value::List(own) => {
            Value::List(own.iter().filter(|tag| tag.as_str().is_some_and(|tag| has_tag(meta, tag))).cloned().collect())
        }
        _ => Value::Null,
    };
    [
        ("labels", of("labels", &meta.labels)),
        ("all_labels", of("all_labels", &meta.labels)),
        ("annotations", of("annotations", &meta.annotations)),
        ("tags", tags),
    ]
}

fn has_tag(meta: &Meta, tag: &str) -> bool {
    meta.tags.iter().any(|stored| stored == tag)
}

/// All of a resource's labels, annotations and tags, for a data source; null where it has none.
pub(super) fn all(resource: &pb::Resource) -> [(&'static str, Value); 3] {
    let none = Meta::default();
    let meta = resource.meta.as_deref().unwrap_or(&none);
    let or_null = |pairs: &Pairs| if pairs.is_empty() { Value::Null } else { map(pairs.iter()) };
    let tags: BTreeSet<_> = meta.tags.iter().collect();
    let tags: Vec<_> = tags.into_iter().cloned().map(Value::String).collect();
    [
        ("labels", or_null(&meta.labels)),
        ("annotations", or_null(&meta.annotations)),
        ("tags", if tags.is_empty() { Value::Null } else { Value::List(tags) }),
    ]
}

fn map<'p>(pairs: impl Iterator<Item = (&'p String, &'p String)>) -> Value {
    Value::Map(pairs.map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect())
}

/// The labels that a configuration owns: its own, and the provider's default ones under other keys.
#[must_use]
pub fn all_labels(config: &Value, defaults: &BTreeMap<String, String>) -> Value {
    let own = match config.get("labels") {
        Value::Unknown(_) => return Value::unknown(),
        Value::Map(own) => own.clone(),
        _ => BTreeMap::new(),
    };
    let mut all: BTreeMap<_, _> =
        defaults.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect();
    all.extend(own);
    if all.is_empty() { Value::Null } else { Value::Map(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(labels: &[(&str, &str)], tags: &[&str]) -> Notes {
        let text = |text: &&str| Value::String((*text).to_owned());
        let labels = Value::object(labels.iter().map(|(key, value)| (*key, text(value))));
        Notes::of(&Value::object([("all_labels", labels), ("tags", Value::List(tags.iter().map(text).collect()))]))
    }

    fn stored(labels: &[(&str, &str)], tags: &[&str]) -> pb::Resource {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let meta = Meta { labels, tags, ..Meta::default() };
        pb::Resource { meta: Some(Box::new(meta)), ..pb::Resource::default() }
    }

    #[test]
    fn a_resource_has_notes_if_a_write_would_change_none() {
        let keys = ControllerKeys::read(&Value::List(vec![Value::String("theirs".into())])).unwrap();
        let before = notes(&[("a", "1"), ("left", "1"), ("theirs", "0")], &["m", "left"]);
        let after = notes(&[("a", "1"), ("theirs", "0")], &["m"]);
        for (labels, tags, are_on) in [
            (&[("a", "1"), ("theirs", "7"), ("other", "o")][..], &["m", "o"][..], true),
            (&[("a", "1"), ("left", "1")], &["m"], false),
            (&[("a", "1")], &["m", "left"], false),
            (&[("a", "2")], &["m"], false),
            (&[], &["m"], false),
            (&[("a", "1")], &[], false),
        ] {
            assert_eq!(after.are_on(&before, &stored(labels, tags), &keys), are_on, "{labels:?} {tags:?}");
        }
        let none = Notes::default();
        assert!(none.are_on(&none, &stored(&[("other", "o")], &["o"]), &keys));
    }
}
