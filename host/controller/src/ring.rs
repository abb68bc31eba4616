//! What went wrong with which resource, lately. Bounded.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use crate::key::Key;

/// How many resources are remembered.
pub(crate) const BOUND: usize = 256;

/// Something to be told about one resource.
#[derive(Debug, Clone)]
pub struct Note {
    /// Where it happened: `reconcile`, or what was being mapped or indexed, such as `map demo.v2.Album`.
    pub place: Arc<str>,
    /// The resource; of the managed type for `reconcile`, else of the type that `place` names.
    pub key: Key,
    /// The newest message.
    pub message: String,
    /// How often it happened.
    pub count: u64,
    /// When it happened first.
    pub first: SystemTime,
    /// When it happened last.
    pub last: SystemTime,
    /// It went well since.
    pub resolved: bool,
}

/// The newest [`BOUND`] notes, one for each place and resource, the oldest first. Looking for one walks through them
/// all, which failures can afford.
#[derive(Debug, Default)]
pub(crate) struct Ring(VecDeque<Note>);

impl Ring {
    /// Notes that it happened; again, if it had before.
    pub(crate) fn note(&mut self, place: &Arc<str>, key: &Key, message: String) {
        let now = SystemTime::now();
        let mut note = match self.find(place, key).and_then(|at| self.0.remove(at)) {
            Some(note) => note,
            None => Note {
                place: place.clone(),
                key: key.clone(),
                message: String::new(),
                count: 0,
                first: now,
                last: now,
                resolved: false,
            },
        };
        note.message = message;
        note.count += 1;
        note.last = now;
        note.resolved = false;
        if self.0.len() >= BOUND {
            self.0.pop_front();
        }
        self.0.push_back(note);
    }

    /// It went well.
    pub(crate) fn resolve(&mut self, place: &Arc<str>, key: &Key) {
        if let Some(note) = self.find(place, key).and_then(|at| self.0.get_mut(at)) {
            note.resolved = true;
        }
    }

    /// It is no longer worth telling.
    pub(crate) fn forget(&mut self, place: &Arc<str>, key: &Key) {
        if let Some(at) = self.find(place, key) {
            self.0.remove(at);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The newest first.
    pub(crate) fn notes(&self) -> Vec<Note> {
        self.0.iter().rev().cloned().collect()
    }

    fn find(&self, place: &Arc<str>, key: &Key) -> Option<usize> {
        // The newest are the likeliest.
        self.0.iter().rposition(|note| note.key == *key && note.place == *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_one_for_each_resource() {
        let mut ring = Ring::default();
        let place: Arc<str> = "reconcile".into();
        for n in 0..1000 {
            ring.note(&place, &Key::new("", "", &n.to_string()), format!("fault {n}"));
        }
        let last = Key::new("", "", "999");
        ring.note(&place, &last, "again".into());
        let notes = ring.notes();
        assert_eq!((notes.len(), notes[0].count, notes[0].message.as_str()), (BOUND, 2, "again"));
        assert!(notes.iter().all(|note| note.key.name().parse::<usize>().unwrap() >= 1000 - BOUND));
        ring.resolve(&place, &last);
        assert!(ring.notes()[0].resolved);
        ring.forget(&place, &last);
        assert_eq!(ring.notes().len(), BOUND - 1);
    }
}
