//! A resource goes only by a deletion: its own, its owner's, its namespace's, or that of a resource to which it refers;
//! or by a move. With finalizers, it goes only after a write that ended them. At the end, nothing is left of what
//! deletions take along.

use std::collections::{BTreeMap, BTreeSet};

use super::{linear::Orders, timeline::Timeline, violation::Violation};
use crate::record::{
    Call, DEFAULT_NAMESPACE, History, Incarnation, Key, NAMESPACE, NEVER, OnDelete, Operation, PARTITION, Reference,
    State, refers,
};

/// Owners above a resource, and references from it, that are looked at.
const MAX_OWNERS: usize = 16;

/// The calls that may delete resources, and the states that these may take along.
pub struct Deletions<'h> {
    timeline: &'h Timeline<'h>,
    deletions: BTreeMap<&'h Key, Vec<&'h Operation>>,
    releases: BTreeMap<&'h Key, Vec<&'h Operation>>,
}

/// Checks all resources.
pub fn check(history: &History, timeline: &Timeline<'_>, orders: &Orders<'_>, found: &mut Vec<Violation>) {
    let known = Deletions::read(history, timeline);
    for (key, line) in &timeline.lines {
        let Some(order) = orders.get(key) else { continue };
        let reached = |place: usize| order.get(place).copied().unwrap_or(NEVER);
        for (index, current) in line.states.iter().enumerate() {
            let next = line.states.get(index + 1).map(|next| next.state);
            let is_last = next.is_none_or(|next| next.uid != current.state.uid);
            let time = reached(2 * (index + 1));
            if is_last && time != NEVER && !known.may_go(current.state, time, 0) {
                let text = format!("it went after version {}, without a deletion", current.state.version);
                found.push(Violation::new("a resource goes by a deletion", key, text));
            }
            let is_first_mark = current.state.is_marked
                && index
                    .checked_sub(1)
                    .and_then(|before| line.states.get(before))
                    .is_none_or(|before| before.state.uid != current.state.uid || !before.state.is_marked);
            if is_first_mark && !known.may_be_marked(current.state, reached(2 * index + 1), 0) {
                let text = format!("version {} is marked, without a deletion", current.state.version);
                found.push(Violation::new("a resource goes by a deletion", key, text));
            }
        }
    }
    ending(history, found);
}

impl<'h> Deletions<'h> {
    /// Reads the calls that delete.
    #[must_use]
    pub fn read(history: &'h History, timeline: &'h Timeline<'h>) -> Self {
        let mut known = Self { timeline, deletions: BTreeMap::new(), releases: BTreeMap::new() };
        for operation in history.operations().filter(|operation| operation.may_be_done()) {
            match &operation.call {
                Call::Delete { key, .. } | Call::Move { from: key, .. } => {
                    known.deletions.entry(key).or_default().push(operation);
                }
                Call::Write { key, releases: true, .. } => known.releases.entry(key).or_default().push(operation),
                _ => {}
            }
        }
        known
    }

    /// Whether the target of a reference may be deleted by a time.
    #[must_use]
    pub fn may_lose_target(&self, reference: &Reference, time: u64) -> bool {
        self.may_go_by_name(&reference.target, time, 0)
    }

    /// Whether a resource may have gone by a time, with this last state.
    fn may_go(&self, last: &State, time: u64, depth: usize) -> bool {
        let mut releases = self.releases.get(&last.key).into_iter().flatten();
        let is_held = last.has_finalizers && last.key.kind != NAMESPACE;
        let earliest = self.earliest(last, true);
        if is_held && !releases.any(|release| release.ended >= earliest && release.begun <= time) {
            return false;
        }
        if last.is_marked {
            // Its mark is judged by itself.
            return last.has_finalizers || refers(&last.key.kind);
        }
        self.may_be_marked(last, time, depth)
    }

    /// Whether something may have deleted the resource by a time.
    fn may_be_marked(&self, last: &State, time: u64, depth: usize) -> bool {
        // A mark is a version of its own, after the one that was to be deleted.
        let is_deleted_version = |version: u64| last.is_marked || last.has_finalizers || version == last.version;
        let is_in_time = |deletion: &Operation, earliest| deletion.begun <= time && deletion.ended >= earliest;
        let earliest = self.earliest(last, true);
        let own = self.deletions.get(&last.key).into_iter().flatten().any(|deletion| match &deletion.call {
            Call::Delete { uid, version, .. } => {
                let is_meant = uid.is_empty() || *uid == last.uid;
                is_in_time(deletion, earliest) && is_meant && version.is_none_or(is_deleted_version)
            }
            Call::Move { version, .. } => is_in_time(deletion, earliest) && version.is_none_or(is_deleted_version),
            _ => false,
        });
        if own {
            return true;
        }
        let namespace = Key { kind: NAMESPACE.to_owned(), namespace: String::new(), name: last.key.namespace.clone() };
        let mut places = self.deletions.get(&namespace).into_iter().flatten();
        // A namespace that goes takes no writes, but statuses.
        let earliest = self.earliest(last, false);
        if last.key.kind != NAMESPACE && places.any(|deletion| is_in_time(deletion, earliest)) {
            return true;
        }
        last.owner.as_ref().is_some_and(|owner| self.may_be_gone(owner, time, depth + 1))
            || self.may_go_with_target(last, time)
    }

    /// Whether the deletion of a resource to which it refers may take the resource along.
    fn may_go_with_target(&self, last: &State, time: u64) -> bool {
        if !refers(&last.key.kind) {
            return false;
        }
        // Another reference may have been there without being seen.
        let is_open = self.timeline.lines.get(&last.key).is_none_or(|line| line.has_hidden);
        is_open
            || last.references.iter().filter(|reference| reference.on_delete.cascades()).any(|reference| {
                // A marked target goes on to be deleted while the resource is written.
                let earliest = if reference.on_delete == OnDelete::Cascade { self.earliest(last, true) } else { 0 };
                self.may_go_by_name(&reference.target, time, earliest)
            })
    }

    /// Whether some incarnation of a resource may be deleted by a time, by a call that ended at `earliest` or later, or
    /// along with the resources to which it refers.
    fn may_go_by_name(&self, key: &Key, time: u64, earliest: u64) -> bool {
        let is_deleted = |key: &Key, earliest: u64| {
            let place = Key { kind: NAMESPACE.to_owned(), namespace: String::new(), name: key.namespace.clone() };
            let mut calls = [key, &place].into_iter().filter_map(|key| self.deletions.get(key)).flatten();
            calls.any(|deletion| deletion.begun <= time && deletion.ended >= earliest)
        };
        if is_deleted(key, earliest) {
            return true;
        }
        let (mut seen, mut open) = (BTreeSet::from([key]), vec![key]);
        while let Some(line) = open.pop().map(|key| self.timeline.lines.get(key)) {
            let Some(line) = line else { continue };
            if line.has_hidden {
                return true;
            }
            let references = line.states.iter().flat_map(|known| &known.state.references);
            for reference in references.filter(|reference| reference.on_delete.cascades()) {
                if seen.insert(&reference.target) {
                    if is_deleted(&reference.target, 0) {
                        return true;
                    }
                    open.push(&reference.target);
                }
            }
        }
        false
    }

    /// Whether an owner may be gone by a time.
    fn may_be_gone(&self, owner: &Incarnation, time: u64, depth: usize) -> bool {
        if depth > MAX_OWNERS {
            return true;
        }
        match self.timeline.lines.get(&owner.key).and_then(|line| line.last(&owner.uid)) {
            // Without a known state, the owner may have been there or not.
            None => true,
            Some(last) => self.may_go(last, time, depth),
        }
    }

    /// Returns the earliest end of a deletion of an incarnation: the last call that made an unmarked state had begun.
    fn earliest(&self, last: &State, with_statuses: bool) -> u64 {
        let line = self.timeline.lines.get(&last.key);
        let states = line.into_iter().flat_map(|line| &line.states);
        let writes = states.filter(|known| known.state.uid == last.uid && !known.state.is_marked);
        let writers = writes.filter_map(|known| known.writer);
        let counts = |writer: &&Operation| with_statuses || !matches!(writer.call, Call::Status { .. });
        writers.filter(counts).map(|writer| writer.begun).max().unwrap_or(0)
    }
}

/// Finds the rest of deleted owners and namespaces.
fn ending(history: &History, found: &mut Vec<Violation>) {
    let Some(ending) = &history.ending else { return };
    let left: BTreeSet<(&Key, &str)> = ending.iter().map(|state| (&state.key, state.uid.as_str())).collect();
    let namespaces: BTreeSet<&str> =
        ending.iter().filter(|state| state.key.kind == NAMESPACE).map(|state| state.key.name.as_str()).collect();
    for state in ending.iter().filter(|state| !state.is_marked) {
        if let Some(owner) = state.owner.as_ref().filter(|owner| !left.contains(&(&owner.key, owner.uid.as_str()))) {
            let text = format!("it is left, in version {}, though its owner {} is gone", state.version, owner.key);
            found.push(Violation::new("owned resources go with their owner", &state.key, text));
        }
        // Another partition and its namespaces stay.
        let stays = state.key.namespace == DEFAULT_NAMESPACE || state.key.namespace.contains('/');
        let has_place = matches!(state.key.kind.as_str(), NAMESPACE | PARTITION) || stays;
        if !has_place && !namespaces.contains(state.key.namespace.as_str()) {
            let text = format!("it is left, in version {}, though its namespace is gone", state.version);
            found.push(Violation::new("resources go with their namespace", &state.key, text));
        }
    }
}
