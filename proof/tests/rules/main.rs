//! Histories made by hand: each rule goes red for a wrong one, and stays silent for its right neighbour.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod access;
mod backups;
mod calls;
mod ends;
mod model;
mod shrinking;
mod streams;
mod ties;

use std::collections::BTreeMap;

use mortise_proof::{check::judge, record::*};

fn key(name: &str) -> Key {
    Key { kind: "Artist".into(), namespace: "default".into(), name: name.into() }
}

/// A state of incarnation `uid`; its text is that of version `text`.
fn state(name: &str, uid: &str, version: u64, text: u64) -> State {
    State {
        key: key(name),
        uid: uid.into(),
        version,
        generation: format!("g{text}"),
        edition: i64::try_from(text).unwrap(),
        content: format!("c{text}"),
        owner: None,
        is_marked: false,
        has_finalizers: false,
        statuses: BTreeMap::new(),
        references: Vec::new(),
        digest: version,
    }
}

fn call(begun: u64, ended: u64, call: Call, answer: Answer) -> Entry {
    Entry::Operation(Operation { client: 0, begun, ended, call, answer })
}

fn write(span: (u64, u64), version: Option<u64>, stored: State) -> Entry {
    let content = stored.content.clone();
    let request = Call::Write {
        key: stored.key.clone(),
        uid: String::new(),
        version,
        content,
        owner: None,
        releases: false,
        references: Vec::new(),
    };
    call(span.0, span.1, request, Answer::Stored(stored))
}

fn status(span: (u64, u64), version: u64, stored: State, entry: &str) -> Entry {
    let content = stored.statuses.get(entry).cloned().unwrap_or_default();
    let (key, uid) = (stored.key.clone(), stored.uid.clone());
    let request = Call::Status { key, uid, version: Some(version), entry: entry.into(), content };
    call(span.0, span.1, request, Answer::Stored(stored))
}

fn read(span: (u64, u64), name: &str, found: Option<State>) -> Entry {
    let answer = found.map_or(Answer::Absent, Answer::Stored);
    call(span.0, span.1, Call::Read { key: key(name), uid: String::new(), is_consistent: false }, answer)
}

fn delete(span: (u64, u64), name: &str) -> Entry {
    call(span.0, span.1, Call::Delete { key: key(name), uid: String::new(), version: None }, Answer::Done)
}

fn list(span: (u64, u64), states: Vec<State>) -> Entry {
    call(span.0, span.1, Call::List { scope: scope(), is_consistent: true }, Answer::Found(states))
}

fn scope() -> Scope {
    Scope { kind: "Artist".into(), namespace: None, name: None }
}

fn history(entries: Vec<Entry>) -> History {
    History { entries, ..History::default() }
}

/// Names of the broken rules.
fn rules(history: &History) -> Vec<String> {
    let mut rules: Vec<_> = judge(history).into_iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

#[track_caller]
fn assert_clean(entries: Vec<Entry>) {
    let found = judge(&history(entries));
    assert!(found.is_empty(), "{found:#?}");
}

#[track_caller]
fn assert_broken(rule: &str, entries: Vec<Entry>) {
    let found = rules(&history(entries));
    assert!(found.iter().any(|found| found == rule), "{rule} is not among {found:?}");
}
