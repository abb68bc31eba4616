//! Recent errors by resource, bounded. Deferrals that have a reason are recorded in the same form.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use crate::key::Key;

/// Most entries.
pub(crate) const MAX_ENTRIES: usize = 256;

/// An error, or a deferral with a reason, of one resource.
#[derive(Debug, Clone)]
pub struct RecentError {
    /// The place of the error: `reconcile`, or the mapping or index, such as `map demo.v2.Album`.
    pub place: Arc<str>,
    /// The resource; of the managed type for `reconcile`, else of the type that `place` names.
    pub key: Key,
    /// The newest message.
    pub message: String,
    /// Number of occurrences.
    pub count: u64,
    /// Time of the first one.
    pub first: SystemTime,
    /// Time of the last one.
    pub last: SystemTime,
    /// Whether a later attempt succeeded.
    pub resolved: bool,
}

/// The newest [`MAX_ENTRIES`] entries, one for each place and resource, the oldest first. A look-up walks through all
/// entries; only failures need one.
#[derive(Debug, Default)]
pub(crate) struct RecentErrors(VecDeque<RecentError>);

impl RecentErrors {
    /// Records an occurrence, as the newest entry.
    pub(crate) fn record(&mut self, place: &Arc<str>, key: &Key, message: String) {
        let now = SystemTime::now();
        let mut error = match self.find(place, key).and_then(|index| self.0.remove(index)) {
            Some(error) => error,
            None => RecentError {
                place: place.clone(),
                key: key.clone(),
                message: String::new(),
                count: 0,
                first: now,
                last: now,
                resolved: false,
            },
        };
        error.message = message;
        error.count += 1;
        error.last = now;
        error.resolved = false;
        if self.0.len() >= MAX_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back(error);
    }

    /// Marks an entry as resolved.
    pub(crate) fn resolve(&mut self, place: &Arc<str>, key: &Key) {
        if let Some(error) = self.find(place, key).and_then(|index| self.0.get_mut(index)) {
            error.resolved = true;
        }
    }

    /// Marks the entries of a resource at matching places as resolved.
    pub(crate) fn resolve_where(&mut self, key: &Key, place: impl Fn(&Arc<str>) -> bool) {
        for error in self.0.iter_mut().filter(|error| error.key == *key && place(&error.place)) {
            error.resolved = true;
        }
    }

    /// Whether an entry at a matching place is not resolved.
    pub(crate) fn any_unresolved(&self, place: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|error| !error.resolved && place(&error.place))
    }

    /// Removes an entry.
    pub(crate) fn forget(&mut self, place: &Arc<str>, key: &Key) {
        if let Some(index) = self.find(place, key) {
            self.0.remove(index);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All entries, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<RecentError> {
        self.0.iter().rev().cloned().collect()
    }

    fn find(&self, place: &Arc<str>, key: &Key) -> Option<usize> {
        // The newest entries are the most likely.
        self.0.iter().rposition(|error| error.key == *key && error.place == *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_one_for_each_resource() {
        let mut errors = RecentErrors::default();
        let place: Arc<str> = "reconcile".into();
        for n in 0..1000 {
            errors.record(&place, &Key::new("", "", &n.to_string()), format!("fault {n}"));
        }
        let last = Key::new("", "", "999");
        errors.record(&place, &last, "again".into());
        let recorded = errors.newest_first();
        assert_eq!((recorded.len(), recorded[0].count, recorded[0].message.as_str()), (MAX_ENTRIES, 2, "again"));
        assert!(recorded.iter().all(|error| error.key.name().parse::<usize>().unwrap() >= 1000 - MAX_ENTRIES));
        errors.resolve(&place, &last);
        assert!(errors.newest_first()[0].resolved);
        errors.forget(&place, &last);
        assert_eq!(errors.newest_first().len(), MAX_ENTRIES - 1);
    }
}
