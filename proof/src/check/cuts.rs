//! Lists, snapshots and backups show everything as of one commit.
//!
//! The commit is not earlier than the newest version in the list. So nothing in the list may have been replaced by a
//! version at or below that one, and nothing may be missing that is there at that one.

use std::collections::HashMap;

use super::{timeline::Timeline, violation::Violation};
use crate::record::{Answer, Call, Change, History, Key, Mode, PARTITION, State};

/// Checks all lists and snapshots.
pub fn check(history: &History, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    for operation in history.operations() {
        if let (Call::Backup, Answer::Found(states)) = (&operation.call, &operation.answer) {
            cut(timeline, |key| key.kind != PARTITION, states.iter(), "backup", found);
        }
        if let (Call::List { scope, .. }, Answer::Found(states)) = (&operation.call, &operation.answer) {
            cut(timeline, |key| scope.has(key), states.iter(), "list", found);
            let keys: Vec<_> = states.iter().map(|state| &state.key).collect();
            if !keys.is_sorted_by(|a, b| a < b) {
                let (rule, text) = ("a list is in order", "a resource is out of order, or twice".to_owned());
                let unsorted = keys.windows(2).find_map(|pair| match pair {
                    [first, second] if first >= second => Some(*second),
                    _ => None,
                });
                found.extend(unsorted.map(|key| Violation::new(rule, key, text)));
            }
        }
    }
    for stream in history.streams().filter(|stream| !matches!(stream.mode, Mode::Stateful(_)) && !stream.is_resumed) {
        let first = stream.messages.iter().position(|message| message.is_current);
        let Some(end) = first else { continue };
        let messages = stream.messages.iter().take(end + 1);
        if messages.clone().any(|message| message.is_hard_reset || message.is_soft_reset) {
            continue;
        }
        let states = messages.flat_map(|message| message.changes.iter().filter_map(Change::state));
        cut(timeline, |key| stream.scope.has(key), states, "snapshot", found);
    }
}

fn cut<'h>(
    timeline: &Timeline<'_>,
    in_scope: impl Fn(&Key) -> bool,
    states: impl Iterator<Item = &'h State>,
    what: &str,
    found: &mut Vec<Violation>,
) {
    let rule = format!("a {what} is as of one commit");
    let shown: HashMap<&Key, &State> = states.map(|state| (&state.key, state)).collect();
    let Some(newest) = shown.values().map(|state| state.version).max() else { return };
    let end = timeline.end_of(shown.values().copied());
    for (key, line) in timeline.lines.iter().filter(|(key, _)| in_scope(key)) {
        match shown.get(*key) {
            Some(state) => {
                if let Some(next) = line.next_version(state.version).filter(|next| *next <= newest) {
                    let text = format!(
                        "a {what} with version {newest} shows version {}, which version {next} had replaced",
                        state.version
                    );
                    found.push(Violation::new(&rule, key, text));
                }
            }
            None => {
                if !line.may_be_absent(newest, end) {
                    let text = format!("a {what} with version {newest} lacks it");
                    found.push(Violation::new(&rule, key, text));
                }
            }
        }
    }
}
