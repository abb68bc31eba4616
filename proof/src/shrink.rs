//! The smallest record in which a promise is still broken, by delta debugging (Zeller's ddmin): drops parts of the
//! record for as long as the same violation, word for word, is found in the rest.
//!
//! First whole entries go, then messages of watches, then the ending. Bounded by a number of judgements, so the result
//! may not be the smallest for a very long record.

use crate::{
    check::{Violation, judge},
    record::{Entry, History},
};

/// Judgements of one shrinking.
const MAX_JUDGEMENTS: usize = 3_000;

/// Returns the smallest found record with this violation.
#[must_use]
pub fn shrink(history: &History, violation: &Violation) -> History {
    let mut judgements = 0;
    let mut fails = |history: &History| {
        judgements += 1;
        judgements <= MAX_JUDGEMENTS && judge(history).contains(violation)
    };
    let mut smallest = history.clone();
    if smallest.ending.is_some() {
        let without = History { ending: None, ..smallest.clone() };
        if fails(&without) {
            smallest = without;
        }
    }
    let entries = std::mem::take(&mut smallest.entries);
    smallest.entries = reduce(entries, |entries| fails(&History { entries: entries.to_vec(), ..smallest.clone() }));
    for index in 0..smallest.entries.len() {
        let Some(Entry::Stream(stream)) = smallest.entries.get(index).cloned() else { continue };
        let with = |messages: &[_]| {
            let mut history = smallest.clone();
            if let Some(Entry::Stream(stream)) = history.entries.get_mut(index) {
                stream.messages = messages.to_vec();
            }
            history
        };
        let messages = reduce(stream.messages, |messages| fails(&with(messages)));
        smallest = with(&messages);
    }
    if let Some(ending) = smallest.ending.clone() {
        let kept = reduce(ending, |kept| fails(&History { ending: Some(kept.to_vec()), ..smallest.clone() }));
        smallest.ending = Some(kept);
    }
    smallest
}

/// Drops parts of a list for as long as the rest fails.
fn reduce<T: Clone>(mut list: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut part = list.len().div_ceil(2);
    while part > 0 && !list.is_empty() {
        let (mut begin, mut dropped) = (0, false);
        while begin < list.len() {
            let rest: Vec<T> = list.iter().take(begin).chain(list.iter().skip(begin + part)).cloned().collect();
            if fails(&rest) {
                (list, dropped) = (rest, true);
            } else {
                begin += part;
            }
        }
        if part == 1 && !dropped {
            break;
        }
        part = if part == 1 { 1 } else { part.div_ceil(2) };
    }
    list
}
