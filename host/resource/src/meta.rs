//! The two metadata keys with a special meaning: `deletionTimestamp` and `finalizers`.
//!
//! A resource with finalizers is not deleted at once: Delete marks it, the owners of the finalizers clean up and remove
//! them, and the removal of the last one deletes the resource.

use std::collections::{BTreeMap, BTreeSet};

/// Key that marks a resource for deletion; any value counts. Delete writes RFC 3339, to the second.
pub const DELETION_TIMESTAMP: &str = "deletionTimestamp";

/// Key with a set of names, separated by white space.
pub const FINALIZERS: &str = "finalizers";

/// Start of the names of the host's finalizers.
pub const HOST_FINALIZERS: &str = "mortise.io/";

/// The host's finalizer, which keeps a marked resource until the resources that refer to it have been handled.
pub const REFERENCES_FINALIZER: &str = "mortise.io/references";

/// The metadata of a resource.
pub type Metadata = BTreeMap<String, String>;

/// Whether the resource is marked for deletion.
#[must_use]
pub fn is_marked(metadata: &Metadata) -> bool {
    metadata.contains_key(DELETION_TIMESTAMP)
}

/// The set of finalizers; order and repetitions in the text are ignored.
#[must_use]
pub fn finalizers(metadata: &Metadata) -> BTreeSet<&str> {
    metadata.get(FINALIZERS).map(|text| text.split_whitespace().collect()).unwrap_or_default()
}

/// Whether the resource has a finalizer.
#[must_use]
pub fn has_finalizers(metadata: &Metadata) -> bool {
    metadata.get(FINALIZERS).is_some_and(|text| text.split_whitespace().next().is_some())
}

/// Adds a finalizer to the present ones.
pub fn add_finalizer(metadata: &mut Metadata, name: &str) {
    let mut all = finalizers(metadata);
    all.insert(name);
    let text = all.into_iter().collect::<Vec<_>>().join(" ");
    metadata.insert(FINALIZERS.to_owned(), text);
}

/// Removes a finalizer. The key stays, possibly with an empty value: a write expresses "no finalizers" in this way.
pub fn remove_finalizer(metadata: &mut Metadata, name: &str) {
    let mut all = finalizers(metadata);
    if all.remove(name) {
        let text = all.into_iter().collect::<Vec<_>>().join(" ");
        metadata.insert(FINALIZERS.to_owned(), text);
    }
}

/// Whether the new finalizers are a proper subset of the stored ones.
#[must_use]
pub fn loses_finalizers(stored: &Metadata, new: &Metadata) -> bool {
    let (before, after) = (finalizers(stored), finalizers(new));
    after.len() < before.len() && after.is_subset(&before)
}

/// Whether two sets of metadata agree, apart from the keys in `except`.
#[must_use]
pub fn equal_except(a: &Metadata, b: &Metadata, except: &[&str]) -> bool {
    let counts = |(key, _): &(&String, &String)| !except.contains(&key.as_str());
    a.iter().filter(counts).eq(b.iter().filter(counts))
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
