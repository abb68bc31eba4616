//! References: none dangles as of one commit, one is cleared only by the deletion of its target, and a deletion is
//! refused only while a reference may block it.
//!
//! A deletion that forgets a blocking, a clearing or a cascading reference leaves one that dangles, so the first rule
//! is about all of them. The targets of references are nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    deletions::Deletions,
    linear::Orders,
    timeline::{Line, Timeline},
    violation::Violation,
};
use crate::record::{
    Answer, Call, Change, History, Key, Mode, NEVER, NODE, OnDelete, Operation, Reference, Scope, State, refers,
};

/// A reference with the time in which it may have been stored.
struct Edge<'h> {
    reference: &'h Reference,
    from: u64,
    to: u64,
}

/// Checks all references.
pub fn check(history: &History, timeline: &Timeline<'_>, orders: &Orders<'_>, found: &mut Vec<Violation>) {
    cuts(history, found);
    let known = Deletions::read(history, timeline);
    let mut edges: BTreeMap<&Key, Vec<Edge<'_>>> = BTreeMap::new();
    for (key, line) in timeline.lines.iter().filter(|(key, _)| refers(&key.kind)) {
        cleared(key, line, orders, &known, found);
        edges.insert(key, stored(line, orders.get(key)));
    }
    for operation in history.operations().filter(|operation| operation.ended == NEVER) {
        let edge = |reference| Edge { reference, from: operation.begun, to: NEVER };
        match &operation.call {
            Call::Write { key, references, .. } => edges.entry(key).or_default().extend(references.iter().map(edge)),
            // The new resource may have the references of any state of the moved one.
            Call::Move { from, to, .. } => {
                let states = timeline.lines.get(from).into_iter().flat_map(|line| &line.states);
                let references = states.flat_map(|known| &known.state.references);
                edges.entry(to).or_default().extend(references.map(edge));
            }
            _ => {}
        }
    }
    for operation in history.operations() {
        refused(operation, &edges, found);
    }
}

/// Checks everything that is as of one commit, and has all nodes.
fn cuts(history: &History, found: &mut Vec<Violation>) {
    let is_whole = |scope: &Scope| scope.kind == NODE && scope.namespace.is_none() && scope.name.is_none();
    for operation in history.operations() {
        match (&operation.call, &operation.answer) {
            (Call::List { scope, .. }, Answer::Found(states)) if is_whole(scope) => cut(states.iter(), "list", found),
            (Call::Backup, Answer::Found(states)) => cut(states.iter(), "backup", found),
            _ => {}
        }
    }
    let snapshots = history.streams().filter(|stream| is_whole(&stream.scope) && stream.mode == Mode::List);
    for stream in snapshots.filter(|stream| !stream.is_resumed) {
        let end = stream.messages.iter().position(|message| message.is_current);
        let messages = end.map(|end| stream.messages.iter().take(end + 1)).into_iter().flatten();
        cut(messages.flat_map(|message| message.changes.iter().filter_map(Change::state)), "snapshot", found);
    }
    // The ending consists of several lists, so it is one commit only when all work is done.
    let ending = history.ending.iter().filter(|ending| !ending.iter().any(|state| state.is_marked));
    ending.for_each(|ending| cut(ending.iter(), "list at the end", found));
}

fn cut<'h>(states: impl Iterator<Item = &'h State>, what: &str, found: &mut Vec<Violation>) {
    let states: BTreeMap<&Key, &State> = states.map(|state| (&state.key, state)).collect();
    for (key, state) in &states {
        for Reference { on_delete, target } in &state.references {
            if !states.contains_key(target) {
                let text =
                    format!("a {what} shows version {}, which refers to {target} ({on_delete:?})", state.version);
                found.push(Violation::new("no reference dangles", key, format!("{text}, but lacks that")));
            }
        }
    }
}

/// Checks that references without a writer's doing go only with their targets, and never come.
fn cleared(key: &Key, line: &Line<'_>, orders: &Orders<'_>, known: &Deletions<'_>, found: &mut Vec<Violation>) {
    let pairs = line.states.iter().zip(line.states.iter().skip(1)).enumerate();
    for (index, (before, after)) in pairs.filter(|_| !line.has_hidden) {
        let (before, state) = (before.state, after.state);
        let is_same = before.uid == state.uid && before.content == state.content && after.writer.is_none();
        if !is_same {
            continue;
        }
        let time = orders.get(key).and_then(|order| order.get(2 * index + 3)).copied().unwrap_or(NEVER);
        for reference in before.references.iter().filter(|reference| !state.references.contains(reference)) {
            let is_clearing = matches!(reference.on_delete, OnDelete::Unset | OnDelete::LaterUnset);
            if !is_clearing || !known.may_lose_target(reference, time) {
                let text = format!("version {} has lost its reference to {}", state.version, reference.target);
                found.push(Violation::new("a reference is cleared by a deletion", key, text));
            }
        }
        if let Some(new) = state.references.iter().find(|reference| !before.references.contains(reference)) {
            let text = format!("version {} refers to {}, without a write of that", state.version, new.target);
            found.push(Violation::new("a reference is cleared by a deletion", key, text));
        }
    }
}

/// Returns the references of all states of a resource, from the beginning of their write until they were replaced.
fn stored<'h>(line: &Line<'h>, order: Option<&Vec<u64>>) -> Vec<Edge<'h>> {
    let mut edges = Vec::new();
    for (index, known) in line.states.iter().enumerate() {
        let from = known.writer.map_or(0, |writer| writer.begun);
        let to = order.and_then(|order| order.get(2 * index + 2)).copied().unwrap_or(NEVER);
        edges.extend(known.state.references.iter().map(|reference| Edge { reference, from, to }));
    }
    edges
}

/// Checks that a reference may have refused a deletion or a move.
fn refused(operation: &Operation, edges: &BTreeMap<&Key, Vec<Edge<'_>>>, found: &mut Vec<Violation>) {
    let Answer::Refused { code, text } = &operation.answer else { return };
    let (key, only_blocks) = match &operation.call {
        Call::Delete { key, .. } if refers(&key.kind) && text.contains("cannot be deleted") => (key, true),
        Call::Move { from, .. } if text.contains("other resources refer to it") => (from, false),
        _ => return,
    };
    let in_time = |edge: &&Edge<'_>| edge.from <= operation.ended && edge.to >= operation.begun;
    let (mut reached, mut open) = (BTreeSet::from([key]), vec![key]);
    while let Some(target) = open.pop() {
        for (referrer, edges) in edges {
            for edge in edges.iter().filter(in_time).filter(|edge| edge.reference.target == *target) {
                match edge.reference.on_delete {
                    OnDelete::Block => return,
                    _ if !only_blocks => return,
                    OnDelete::Cascade if reached.insert(referrer) => open.push(referrer),
                    _ => {}
                }
            }
        }
    }
    let text =
        format!("it was refused ({code}) from {} to {}, without a reference to it", operation.begun, operation.ended);
    found.push(Violation::new("a deletion is refused for a reference", key, text));
}
