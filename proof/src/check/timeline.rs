//! The known states of each resource, in the order of their versions.
//!
//! A *place* is a number in the order of one resource: the state with index i has the place 2i + 1, and the absence
//! before it 2i. An absence is possible where the uid changes, before the first state, and after the last.

use std::collections::{BTreeMap, HashMap};

use super::violation::Violation;
use crate::record::{Call, History, Incarnation, Key, NEVER, OPEN_EDITION, Operation, Scope, State, refers};

/// The states of one resource.
#[derive(Debug, Default)]
pub struct Line<'h> {
    /// Known states, by version.
    pub states: Vec<Known<'h>>,
    /// Whether the resource may have had states that no answer and no event showed.
    pub has_hidden: bool,
    /// Whether the last state is stored at the end.
    pub is_left: bool,
}

/// A state, with the call that made it, if known.
#[derive(Debug)]
pub struct Known<'h> {
    /// The state.
    pub state: &'h State,
    /// The call that made it.
    pub writer: Option<&'h Operation>,
}

/// All known states.
#[derive(Debug, Default)]
pub struct Timeline<'h> {
    /// States by resource.
    pub lines: BTreeMap<&'h Key, Line<'h>>,
}

impl<'h> Timeline<'h> {
    /// Reads all states of a history; adds a violation for each version with two contents or resources.
    pub fn read(history: &'h History, found: &mut Vec<Violation>) -> Self {
        let answers = history.operations().flat_map(Operation::stored);
        let messages = history.streams().flat_map(|stream| &stream.messages);
        let events = messages.flat_map(|message| message.changes.iter().filter_map(|change| change.state()));
        let mut versions: HashMap<u64, &State> = HashMap::new();
        let (whole, partial): (Vec<_>, Vec<_>) =
            answers.chain(events).chain(history.ending.iter().flatten()).partition(|state| !state.is_partial());
        for state in whole.into_iter().chain(partial) {
            let other = *versions.entry(state.version).or_insert(state);
            if other.key != state.key {
                let (first, second) = ((&other.key).min(&state.key), (&other.key).max(&state.key));
                let text = format!("version {} was given to {second}, too", state.version);
                found.push(Violation::new("a version is given once", first, text));
            } else if !other.agrees(state) {
                let text = format!("version {} has two contents: {}", state.version, difference(other, state));
                found.push(Violation::new("a version is given once", &state.key, text));
            }
        }
        let mut timeline = Self::default();
        let mut all: Vec<_> = versions.into_values().collect();
        all.sort_by_key(|state| state.version);
        for state in all {
            timeline.lines.entry(&state.key).or_default().states.push(Known { state, writer: None });
        }
        // Answered calls first: a state that one of them made is not that of a call without an answer.
        let (answered, open): (Vec<_>, Vec<_>) = history.operations().partition(|operation| operation.ended != NEVER);
        for operation in answered.into_iter().chain(open) {
            if let Some(key) = operation.call.key() {
                timeline.lines.entry(key).or_default().attribute(operation, found);
            }
        }
        for state in history.ending.iter().flatten() {
            timeline.lines.entry(&state.key).or_default().is_left = true;
        }
        timeline
    }

    /// Returns the first version that replaced one of these states: a commit that shows all of them is before it.
    #[must_use]
    pub fn end_of<'s>(&self, states: impl Iterator<Item = &'s State>) -> u64 {
        let next = |state: &State| self.lines.get(&state.key)?.next_version(state.version);
        states.filter_map(next).min().unwrap_or(u64::MAX)
    }

    /// Returns the versions of a scope, with their resources, in order.
    #[must_use]
    pub fn versions(&self, scope: &Scope) -> Vec<(u64, &'h Key)> {
        let lines = self.lines.iter().filter(|(key, _)| scope.has(key));
        let mut all: Vec<_> =
            lines.flat_map(|(key, line)| line.states.iter().map(|known| (known.state.version, *key))).collect();
        all.sort_unstable();
        all
    }
}

impl<'h> Line<'h> {
    fn attribute(&mut self, operation: &'h Operation, found: &mut Vec<Violation>) {
        if !operation.call.is_put() {
            return;
        }
        let place = match operation.stored().next() {
            Some(state) => self.index(state.version),
            None if operation.ended == NEVER => match self.made_by(&operation.call) {
                None => {
                    self.has_hidden = true;
                    None
                }
                place => place,
            },
            None => None,
        };
        let Some(known) = place.and_then(|place| self.states.get_mut(place)) else { return };
        let made = match &operation.call {
            Call::Status { entry, content, .. } => known.state.statuses.get(entry) == Some(content),
            Call::Write { content, references, .. } => {
                known.state.content == *content
                    && (operation.ended == NEVER
                        || !refers(&known.state.key.kind)
                        || known.state.references == *references)
            }
            Call::Update { content, .. } | Call::Import { content, .. } => known.state.content == *content,
            // The rule of moves compares it with the moved resource.
            Call::Move { .. } => true,
            _ => false,
        };
        if !made {
            let text = format!("version {} has another text than its {:?}", known.state.version, operation.call);
            found.push(Violation::new("a write is stored as sent", &known.state.key, text));
        }
        if known.writer.is_some() && operation.ended == NEVER {
            // A later state has the text, too.
            self.has_hidden = true;
            return;
        }
        if known.writer.is_some() {
            let text = format!("version {} was answered to two writes", known.state.version);
            found.push(Violation::new("a version is given once", &known.state.key, text));
        }
        known.writer = Some(operation);
    }

    /// Returns the first state with the text of a call.
    fn made_by(&self, call: &Call) -> Option<usize> {
        // The write of a namespace has no text, and the end of a finalizer keeps the text of the write before. A state
        // with references may have been changed by a deletion before it was seen.
        if matches!(call, Call::Write { releases, content, .. } if *releases || content.is_empty())
            || call.key().is_some_and(|key| refers(&key.kind))
        {
            return None;
        }
        self.states.iter().position(|known| match call {
            Call::Status { entry, content, .. } => known.state.statuses.get(entry) == Some(content),
            Call::Write { content, .. } | Call::Update { content, .. } => known.state.content == *content,
            _ => false,
        })
    }

    /// Returns the index of a version.
    #[must_use]
    pub fn index(&self, version: u64) -> Option<usize> {
        self.states.binary_search_by_key(&version, |known| known.state.version).ok()
    }

    /// Returns the number of places.
    #[must_use]
    pub fn places(&self) -> usize {
        2 * self.states.len() + 1
    }

    /// Returns the state at a place; `None` for an absence.
    #[must_use]
    pub fn state(&self, place: usize) -> Option<&'h State> {
        if place.is_multiple_of(2) { None } else { self.states.get(place / 2).map(|known| known.state) }
    }

    /// Returns true if a state after this place shows in no answer and no event: each change of the data counts one
    /// edition. The server makes such states by itself when it clears a reference, and no client may look before the next.
    #[must_use]
    pub fn hides_state_after(&self, place: usize) -> bool {
        let (Some(state), Some(next)) = (self.state(place), self.state(place + 2)) else { return false };
        state.uid == next.uid && state.edition != OPEN_EDITION && next.edition > state.edition.saturating_add(1)
    }

    /// Whether a place is possible: a state, or an absence where the uid changes.
    #[must_use]
    pub fn is_place(&self, place: usize) -> bool {
        let uid = |index: usize| self.states.get(index).map(|known| &known.state.uid);
        let index = place / 2;
        match place % 2 {
            1 => index < self.states.len(),
            _ if index == self.states.len() => !self.is_left,
            _ => index < self.states.len() && (index == 0 || uid(index - 1) != uid(index)),
        }
    }

    /// Returns the place of the absence after an incarnation; `None` for one without known states.
    #[must_use]
    pub fn absence_after(&self, uid: &str) -> Option<usize> {
        self.states.iter().rposition(|known| known.state.uid == uid).map(|index| 2 * (index + 1))
    }

    /// Returns the last known state of an incarnation.
    #[must_use]
    pub fn last(&self, uid: &str) -> Option<&'h State> {
        self.states.iter().rev().map(|known| known.state).find(|state| state.uid == uid)
    }

    /// Whether an absence can be in force at a commit from `lowest` on and before `end`.
    #[must_use]
    pub fn may_be_absent(&self, lowest: u64, end: u64) -> bool {
        let next = self.states.partition_point(|known| known.state.version <= lowest);
        let begins_in_time = |index: usize| {
            let before = index.checked_sub(1).and_then(|before| self.states.get(before));
            before.is_none_or(|before| before.state.version < end)
        };
        (next..=self.states.len()).any(|index| self.is_place(2 * index) && begins_in_time(index))
    }

    /// Returns the version of the next known state after a version.
    #[must_use]
    pub fn next_version(&self, version: u64) -> Option<u64> {
        let next = self.states.partition_point(|known| known.state.version <= version);
        self.states.get(next).map(|known| known.state.version)
    }
}

/// Returns the incarnation of a state.
#[must_use]
pub fn incarnation(state: &State) -> Incarnation {
    Incarnation { key: state.key.clone(), uid: state.uid.clone() }
}

fn difference(one: &State, other: &State) -> String {
    let differ = [
        ("uid", one.uid != other.uid),
        ("generation", one.generation != other.generation),
        ("content", one.content != other.content),
        ("owner", one.owner != other.owner),
        ("references", one.references != other.references),
        ("metadata", (one.is_marked, one.has_finalizers) != (other.is_marked, other.has_finalizers)),
        ("status", one.statuses != other.statuses),
    ];
    let names: Vec<_> = differ.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect();
    if names.is_empty() { "other bytes".to_owned() } else { names.join(", ") }
}
