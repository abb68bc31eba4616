//! The two metadata keys with a meaning of their own: `deletionTimestamp` and `finalizers`.
//!
//! A resource with finalizers is not deleted at once: Delete marks it, whoever put the finalizers there does their
//! clean-up and removes them, and with the last one the resource goes.

use std::collections::{BTreeMap, BTreeSet};

/// Key whose presence, whatever its value, marks a resource for deletion. Delete writes RFC 3339, to the second.
pub const DELETION_TIMESTAMP: &str = "deletionTimestamp";

/// Key that holds a white-space-separated set of names.
pub const FINALIZERS: &str = "finalizers";

/// A resource's free key/value pairs.
pub type Metadata = BTreeMap<String, String>;

/// Whether the resource is marked for deletion.
#[must_use]
pub fn is_marked(metadata: &Metadata) -> bool {
    metadata.contains_key(DELETION_TIMESTAMP)
}

/// The finalizers; order and repetition mean nothing.
#[must_use]
pub fn finalizers(metadata: &Metadata) -> BTreeSet<&str> {
    metadata.get(FINALIZERS).map(|text| text.split_whitespace().collect()).unwrap_or_default()
}

/// Whether any finalizer is there.
#[must_use]
pub fn has_finalizers(metadata: &Metadata) -> bool {
    metadata.get(FINALIZERS).is_some_and(|text| text.split_whitespace().next().is_some())
}

/// Adds a finalizer, keeping those that are there.
pub fn add_finalizer(metadata: &mut Metadata, name: &str) {
    let mut all = finalizers(metadata);
    all.insert(name);
    let text = all.into_iter().collect::<Vec<_>>().join(" ");
    metadata.insert(FINALIZERS.to_owned(), text);
}

/// Removes a finalizer; the key stays, possibly with an empty value, which is how a write says "no finalizers".
pub fn remove_finalizer(metadata: &mut Metadata, name: &str) {
    let mut all = finalizers(metadata);
    if all.remove(name) {
        let text = all.into_iter().collect::<Vec<_>>().join(" ");
        metadata.insert(FINALIZERS.to_owned(), text);
    }
}

/// Whether two sets of metadata agree on every key but `except`.
#[must_use]
pub fn equal_except(a: &Metadata, b: &Metadata, except: &[&str]) -> bool {
    let rest = |m: &Metadata| {
        m.iter()
            .filter(|(key, _)| !except.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    rest(a) == rest(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(finalizers: &str) -> Metadata {
        Metadata::from([(FINALIZERS.to_owned(), finalizers.to_owned())])
    }

    #[test]
    fn finalizers_are_a_set_of_words() {
        assert!(finalizers(&Metadata::new()).is_empty());
        assert!(!has_finalizers(&with("  \t ")));
        assert_eq!(finalizers(&with(" b a  b ")), BTreeSet::from(["a", "b"]));
    }

    #[test]
    fn removing_the_last_finalizer_keeps_the_key() {
        let mut metadata = with("a");
        remove_finalizer(&mut metadata, "a");
        assert_eq!(metadata.get(FINALIZERS).map(String::as_str), Some(""));
    }

    #[test]
    fn adding_a_finalizer_keeps_the_others() {
        let mut metadata = with("b");
        add_finalizer(&mut metadata, "a");
        assert_eq!(metadata.get(FINALIZERS).map(String::as_str), Some("a b"));
    }
}
