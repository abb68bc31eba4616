//! Rights take effect with the answer to their change, and watches end with them.
//!
//! The rights of a token are a register with one writer: its changes are numbered in their order, and a call with the
//! token shows one of the values that were in force between its begin and its end. A later call shows the same value or
//! a later one. A change without an answer was done or not.

use std::collections::{BTreeMap, HashMap};

use super::violation::Violation;
use crate::record::{Entry, History, NEVER, RightsChange, TokenUse, TokenWatch};

#[derive(Default)]
struct Token<'h> {
    changes: Vec<&'h RightsChange>,
    uses: Vec<&'h TokenUse>,
    watches: Vec<&'h TokenWatch>,
}

/// Checks all tokens.
pub fn check(history: &History, found: &mut Vec<Violation>) {
    let mut tokens: BTreeMap<&str, Token<'_>> = BTreeMap::new();
    for entry in &history.entries {
        match entry {
            Entry::Rights(change) => tokens.entry(&change.token).or_default().changes.push(change),
            Entry::Use(call) => tokens.entry(&call.token).or_default().uses.push(call),
            Entry::Held(watch) => tokens.entry(&watch.token).or_default().watches.push(watch),
            Entry::Operation(_) | Entry::Stream(_) | Entry::Fault { .. } => {}
        }
    }
    let writes: HashMap<u64, u64> = history
        .operations()
        .flat_map(|operation| operation.made().map(|state| (state.version, operation.begun)))
        .collect();
    for (name, mut token) in tokens {
        token.changes.sort_by_key(|change| change.begun);
        token.uses.sort_by_key(|call| call.begun);
        uses(name, &token, found);
        watches(name, &token, &writes, found);
    }
}

/// Calls show the rights in force. Before its first change, a token allows nothing.
fn uses(name: &str, token: &Token<'_>, found: &mut Vec<Violation>) {
    let changes = &token.changes;
    // Changes that calls had shown, with the ends of these calls.
    let mut shown: Vec<(u64, usize)> = Vec::new();
    for call in &token.uses {
        let earlier = shown.iter().filter(|(ended, _)| *ended < call.begun).map(|(_, number)| *number).max();
        // Value 0 is in force before the first change, value n after change n.
        let settled_by = changes.iter().rposition(|change| change.ended < call.begun);
        let lowest = settled_by.map_or(0, |index| index + 1).max(earlier.unwrap_or(0));
        let highest = changes.iter().take_while(|change| change.begun <= call.ended).count();
        let allows = |number: usize| {
            let change = number.checked_sub(1).and_then(|index| changes.get(index));
            change.is_some_and(|change| change.allows)
        };
        match (lowest..=highest).find(|number| allows(*number) == call.is_allowed) {
            Some(number) => shown.push((call.ended, number)),
            None => {
                let word = if call.is_allowed { "allowed" } else { "refused" };
                let text = format!(
                    "a call with token {name} from {} to {} is {word}, with change {lowest} of its rights in force",
                    call.begun, call.ended
                );
                found.push(Violation::bare("rights are those of the last change", text));
            }
        }
    }
}

/// A watch shows nothing that was written after its rights had gone, and does not stay open.
fn watches(name: &str, token: &Token<'_>, writes: &HashMap<u64, u64>, found: &mut Vec<Violation>) {
    for watch in &token.watches {
        let is_removal = |change: &&&RightsChange| !change.allows && change.ended != NEVER;
        let removal = token.changes.iter().filter(is_removal).find(|change| change.begun > watch.opened);
        let Some(gone) = removal.map(|removal| removal.ended) else { continue };
        let late = watch.states.iter().find(|state| writes.get(&state.version).is_some_and(|begun| *begun > gone));
        if let Some(state) = late {
            let text = format!(
                "a watch with token {name} shows version {}, written after its rights had gone at {gone}",
                state.version
            );
            found.push(Violation::new("a watch ends with its rights", &state.key, text));
        }
        if watch.ended == NEVER {
            let text = format!("a watch with token {name} is open at the end, though its rights had gone at {gone}");
            found.push(Violation::bare("a watch ends with its rights", text));
        }
    }
}
