//! STATEFUL watches: a page whose rows change by index. Each complete message leads to the page as of a later commit.

use std::collections::HashMap;

use super::{timeline::Timeline, violation::Violation};
use crate::record::{Change, History, Key, Mode, State, Stream};

/// Checks all watches of pages.
pub fn check(history: &History, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    for stream in history.streams() {
        if let Mode::Stateful(size) = stream.mode {
            follow(stream, size, timeline, history.ending.as_deref(), found);
        }
    }
}

fn follow(stream: &Stream, size: usize, timeline: &Timeline<'_>, ending: Option<&[State]>, found: &mut Vec<Violation>) {
    let mut rows: Vec<&State> = Vec::new();
    let mut newest: HashMap<&Key, u64> = HashMap::new();
    let mut is_current = false;
    for message in &stream.messages {
        for change in &message.changes {
            if let Err((key, text)) = apply(&mut rows, change) {
                found.push(Violation::new("rows have their indices", key, format!("{}: {text}", stream.watch)));
                return;
            }
            if let Change::Row { state, .. } = change
                && newest.insert(&state.key, state.version).is_some_and(|newest| newest > state.version)
            {
                let text = format!("{} shows version {} after a newer one", stream.watch, state.version);
                found.push(Violation::new("a watch is in order", &state.key, text));
            }
        }
        is_current = message.is_current;
        if is_current {
            page(stream, &rows, size, timeline, found);
        }
    }
    let Some(ending) = ending.filter(|_| stream.is_complete && is_current) else { return };
    let stored = ending.iter().filter(|state| stream.scope.has(&state.key)).take(size);
    for (index, state) in stored.enumerate() {
        if rows.get(index).is_none_or(|row| row.version != state.version) {
            let text = format!("{} ends without version {} in row {index}", stream.watch, state.version);
            found.push(Violation::new("a watch misses nothing", &state.key, text));
            return;
        }
    }
}

fn apply<'h>(rows: &mut Vec<&'h State>, change: &'h Change) -> Result<(), (&'h Key, String)> {
    match change {
        Change::Row { state, previous, index } => {
            if let Some(previous) = previous {
                let row = rows.get(*previous).map(|row| &row.key);
                if row != Some(&state.key) {
                    return Err((&state.key, format!("row {previous} is another one")));
                }
                rows.remove(*previous);
            }
            if *index > rows.len() {
                return Err((&state.key, format!("index {index} is behind the end")));
            }
            rows.insert(*index, state);
        }
        Change::RowGone { incarnation, index } => {
            if rows.get(*index).is_none_or(|row| row.key != incarnation.key) {
                return Err((&incarnation.key, format!("row {index} is another one")));
            }
            rows.remove(*index);
        }
        Change::Upsert(_) | Change::Gone { .. } => {}
    }
    Ok(())
}

/// Checks that the rows are the first ones, in order, as of one commit.
fn page(stream: &Stream, rows: &[&State], size: usize, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    let mut fail = |rule: &str, key: &Key, text: String| {
        found.push(Violation::new(rule, key, format!("{}: {text}", stream.watch)));
    };
    for pair in rows.windows(2) {
        if let [first, second] = pair
            && first.key >= second.key
        {
            fail("rows are in order", &second.key, format!("version {} is out of order", second.version));
            return;
        }
    }
    let Some(newest) = rows.iter().map(|row| row.version).max() else { return };
    if let Some(row) = rows.get(size) {
        fail("rows are in order", &row.key, format!("the page has more than {size} rows"));
    }
    let commit_end = timeline.end_of(rows.iter().copied());
    let end = rows.last().filter(|_| rows.len() >= size).map(|row| &row.key);
    for (key, line) in timeline.lines.iter().filter(|(key, _)| stream.scope.has(key)) {
        if end.is_some_and(|end| *key > end) {
            continue;
        }
        match rows.binary_search_by(|row| row.key.cmp(key)).ok().and_then(|index| rows.get(index)) {
            Some(row) => {
                if let Some(next) = line.next_version(row.version).filter(|next| *next <= newest) {
                    let text = format!("a page with version {newest} shows {}, which {next} had replaced", row.version);
                    fail("a page is as of one commit", key, text);
                }
            }
            None => {
                if !line.may_be_absent(newest, commit_end) {
                    fail("a page is as of one commit", key, format!("a page with version {newest} lacks it"));
                }
            }
        }
    }
}
