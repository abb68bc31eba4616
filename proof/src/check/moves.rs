//! A move makes a new resource of another kind out of the last state of a resource, which ends; an import makes a new
//! resource, too.

use super::{timeline::Timeline, violation::Violation};
use crate::record::{Call, History, Key, Operation, State};

/// End of the text of a moved resource; the plugin appends it, so that a text names one incarnation.
pub const MOVED: &str = "~";

/// Checks all moves and imports.
pub fn check(history: &History, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    for operation in history.operations() {
        let Some(made) = operation.made() else { continue };
        match &operation.call {
            Call::Import { key, .. } => is_new(key, made, "an import makes a new resource", timeline, found),
            Call::Move { from, version, to } => {
                is_new(to, made, "a move makes a new resource", timeline, found);
                moved(operation, from, *version, made, timeline, found);
            }
            _ => {}
        }
    }
}

/// Returns the uid of the incarnation that an answered move ended.
#[must_use]
pub fn source<'h>(operation: &Operation, timeline: &Timeline<'h>) -> Option<&'h str> {
    let Call::Move { from, .. } = &operation.call else { return None };
    let content = operation.made()?.content.strip_suffix(MOVED)?;
    let line = timeline.lines.get(from)?;
    line.states.iter().map(|known| known.state).find(|state| state.content == content).map(|state| state.uid.as_str())
}

/// The made state is the first one of its uid.
fn is_new(key: &Key, made: &State, rule: &str, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    let line = timeline.lines.get(key);
    let mut earlier = line.into_iter().flat_map(|line| &line.states).map(|known| known.state);
    if let Some(state) = earlier.find(|state| state.uid == made.uid && state.version < made.version) {
        let text = format!("version {} has the uid of version {}", made.version, state.version);
        found.push(Violation::new(rule, key, text));
    }
}

fn moved(
    operation: &Operation,
    from: &Key,
    version: Option<u64>,
    made: &State,
    timeline: &Timeline<'_>,
    found: &mut Vec<Violation>,
) {
    let mut fail = |rule: &str, text: String| found.push(Violation::new(rule, from, text));
    let Some(line) = timeline.lines.get(from) else { return };
    let Some(uid) = source(operation, timeline) else {
        if !line.has_hidden {
            fail("a move keeps the content", format!("version {} of {} has another text", made.version, made.key));
        }
        return;
    };
    let states = || line.states.iter().map(|known| known.state).filter(|state| state.uid == uid);
    if let Some(late) = states().find(|state| state.version > made.version) {
        let text = format!("version {} comes after the move that made version {}", late.version, made.version);
        fail("a move ends the moved resource", text);
    }
    let Some(last) = states().rfind(|state| state.version < made.version) else { return };
    let is_kept = last.content.as_str() == made.content.strip_suffix(MOVED).unwrap_or_default();
    // A deletion may have cleared references meanwhile, unless the move is one of a version.
    let are_kept = match version {
        Some(_) => made.references == last.references,
        None => made.references.iter().all(|reference| last.references.contains(reference)),
    };
    let differs = !is_kept || !are_kept;
    if differs && !line.has_hidden {
        let text = format!("version {} of {} is not made of version {}", made.version, made.key, last.version);
        fail("a move keeps the content", text);
    }
    if version.is_some_and(|version| version != last.version) {
        let text = format!("a move of version {} moved version {}", version.unwrap_or_default(), last.version);
        fail("compare-and-swap", text);
    }
}
