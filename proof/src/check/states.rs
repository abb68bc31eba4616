//! Rules about consecutive states of a resource, and the order of versions over all resources.
//!
//! A state is compared with the one before it where no hidden state can be between: after a compare-and-swap, and for
//! resources all of whose states are known.

use std::collections::{BTreeSet, HashMap};

use super::{
    timeline::{Known, Line, Timeline},
    violation::Violation,
};
use crate::record::{Answer, Call, History, Key, NEVER, OPEN_EDITION, Operation, State, refers};

/// Checks all resources.
pub fn check(history: &History, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    for (key, line) in &timeline.lines {
        incarnations(key, line, found);
        contents(key, line, found);
        // The deletion of another resource may change one that refers to it.
        let is_open =
            line.has_hidden || refers(&key.kind) || line.states.iter().any(|known| known.state.has_finalizers);
        for (index, known) in line.states.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| line.states.get(before)).map(|known| known.state);
            let before = before.filter(|before| before.uid == known.state.uid);
            step(key, known, before, is_open, found);
        }
    }
    versions(history, found);
}

/// An incarnation never comes back.
fn incarnations(key: &Key, line: &Line<'_>, found: &mut Vec<Violation>) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut last = "";
    for known in &line.states {
        let state = known.state;
        if state.uid != last && !seen.insert(&state.uid) {
            let text = format!("version {} has a uid that was gone", state.version);
            found.push(Violation::new("a uid is given once", key, text));
        }
        last = &state.uid;
    }
}

/// A text that was replaced never comes back, neither in the data nor in a status.
fn contents(key: &Key, line: &Line<'_>, found: &mut Vec<Violation>) {
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    for (index, known) in line.states.iter().enumerate() {
        let state = known.state;
        let texts = state.statuses.iter().map(|(entry, text)| (entry.as_str(), text.as_str()));
        for text in texts.chain([("", state.content.as_str())]) {
            let is_back = seen.insert(text, index).is_some_and(|last| last + 1 < index);
            if is_back && !text.1.is_empty() {
                let what = if text.0.is_empty() { "data" } else { "status" };
                let text = format!("version {} has a {what} that was replaced before: {}", state.version, text.1);
                found.push(Violation::new("no write is undone", key, text));
            }
        }
    }
}

/// Compares a state with the one before it.
fn step(key: &Key, known: &Known<'_>, before: Option<&State>, is_open: bool, found: &mut Vec<Violation>) {
    let state = known.state;
    let mut fail = |rule: &str, text: String| found.push(Violation::new(rule, key, text));
    let mut is_exact = !is_open;
    if let Some(Operation { call, .. }) = known.writer {
        let version = match call {
            Call::Write { version, .. } | Call::Status { version, .. } => *version,
            _ => None,
        };
        if let Some(version) = version {
            is_exact = true;
            if before.is_none_or(|before| before.version != version) {
                let stored = before.map_or("nothing".to_owned(), |before| format!("version {}", before.version));
                fail(
                    "compare-and-swap",
                    format!("version {} replaced {stored}, but was to replace version {version}", state.version),
                );
                return;
            }
        }
        let uid = match call {
            Call::Write { uid, .. } | Call::Status { uid, .. } => uid.as_str(),
            _ => "",
        };
        if !uid.is_empty() && *uid != state.uid {
            fail("a uid is kept", format!("version {} has another uid than the request", state.version));
        }
    }
    let Some(before) = before else {
        if is_exact
            && known.writer.is_some_and(|writer| matches!(writer.call, Call::Status { .. } | Call::Update { .. }))
        {
            fail("a status needs a resource", format!("version {} has no state before it", state.version));
        }
        return;
    };
    if before.is_marked && !state.is_marked {
        fail(
            "a deletion mark stays",
            format!("version {} has none, version {} had one", state.version, before.version),
        );
    }
    if before.owner != state.owner {
        fail("an owner stays", format!("versions {} and {} have different owners", before.version, state.version));
    }
    if !is_exact {
        return;
    }
    let is_status = known.writer.is_some_and(|writer| matches!(writer.call, Call::Status { .. }));
    let pair = format!("from version {} to {}", before.version, state.version);
    if known.writer.is_some() && (before.generation == state.generation) != is_status {
        let text = if is_status { "a status changed the generation" } else { "a write kept the generation" };
        fail("generation", format!("{text}, {pair}"));
    }
    let raised = i64::from(before.content != state.content);
    let are_counted = state.edition != OPEN_EDITION && before.edition != OPEN_EDITION;
    if known.writer.is_some() && are_counted && state.edition != before.edition + raised {
        fail("meta.generation", format!("{} became {}, {pair}", before.edition, state.edition));
    }
    let entry = known.writer.and_then(|writer| match &writer.call {
        Call::Status { entry, .. } => Some(entry),
        _ => None,
    });
    let others = |state: &State| -> Vec<(String, String)> {
        let kept = state.statuses.iter().filter(|(name, _)| Some(*name) != entry);
        kept.map(|(name, text)| (name.clone(), text.clone())).collect()
    };
    if known.writer.is_some() && others(before) != others(state) {
        fail("a status stays", format!("statuses of others changed {pair}"));
    }
    if is_status && (before.content != state.content || before.references != state.references) {
        fail("a status changes nothing else", format!("the data changed {pair}"));
    }
}

/// A write gets a larger version than every version that was shown before it began.
fn versions(history: &History, found: &mut Vec<Violation>) {
    let mut shown: Vec<(u64, u64)> = Vec::new();
    let mut writes = Vec::new();
    for operation in history.operations() {
        for state in operation.stored() {
            if operation.ended != NEVER {
                shown.push((operation.ended, state.version));
            }
            if operation.call.is_put() && matches!(operation.answer, Answer::Stored(_)) {
                writes.push((operation.begun, state));
            }
        }
    }
    for message in history.streams().flat_map(|stream| &stream.messages) {
        let states = message.changes.iter().filter_map(|change| change.state());
        shown.extend(states.map(|state| (message.received, state.version)));
    }
    shown.sort_unstable();
    writes.sort_by_key(|(begun, state)| (*begun, state.version));
    let mut highest = 0;
    let mut shown = shown.into_iter().peekable();
    for (begun, state) in writes {
        while let Some((_, version)) = shown.next_if(|(ended, _)| *ended < begun) {
            highest = version.max(highest);
        }
        if state.version <= highest {
            let text = format!("version {} was given after version {highest} had been shown", state.version);
            found.push(Violation::new("versions rise", &state.key, text));
        }
    }
}
