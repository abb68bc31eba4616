//! Calls on a resource take effect one after another, each between its begin and its end.
//!
//! Versions give the order of the states, so each answer that shows a state has one place in this order. The answers
//! are right if no call ended before another one began that has an earlier place: then, and only then, there is an
//! order of all calls. Answers that fit several places (NotFound, a refused compare-and-swap, a deletion) take the
//! first place that the calls before allow; it must be one that the calls after allow, too. An event is a sign that its
//! state was there when it arrived: later calls must not show an older state.
//!
//! A resource stands for itself: a history is linearizable if its part about each resource is.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
};

use super::{
    moves,
    timeline::{Line, Timeline},
    violation::Violation,
};
use crate::record::{Answer, Call, Change, History, Key, Mode, NEVER, Operation, PARTITION, State};

/// Text of a refusal of a write whose reference has no target, or one that is marked.
const REFUSED_REFERENCE: &str = "refers to ";

/// Earliest times, for each resource, at which each place or a later one was reached.
pub type Orders<'h> = HashMap<&'h Key, Vec<u64>>;

/// A sign of the state of a resource.
#[derive(Debug, Clone)]
struct Sign {
    begun: u64,
    ended: u64,
    fits: Fits,
    evidence: &'static str,
}

/// Places that a sign fits.
#[derive(Debug, Clone)]
enum Fits {
    /// This place, by a call that made it or that saw it.
    Place { place: usize, makes: bool },
    /// Any absence.
    Absence,
    /// Any state.
    Presence,
    /// Places other than this version.
    NotVersion(u64),
    /// Places other than an unmarked state of this uid (of any, if empty).
    Deleted(String),
    /// Places other than this uid.
    NotUid(String),
}

/// Checks all resources; returns the times at which their places were reached.
pub fn check<'h>(history: &'h History, timeline: &Timeline<'h>, found: &mut Vec<Violation>) -> Orders<'h> {
    let mut signs: BTreeMap<&Key, Vec<Sign>> = BTreeMap::new();
    for operation in history.operations() {
        // On several servers, an eventual read only shows that its state was there.
        let is_late = history.has_several_servers && operation.call.is_eventual();
        let begun = if is_late { 0 } else { operation.begun };
        of_operation(operation, begun, timeline, &mut signs);
    }
    for stream in history.streams() {
        let mut snapshot: Vec<&State> = Vec::new();
        let mut is_snapshot = !stream.is_resumed;
        for message in &stream.messages {
            for change in &message.changes {
                match change {
                    Change::Upsert(state) | Change::Row { state, .. } => {
                        snapshot.push(state);
                        shown(timeline, state, (0, message.received), "event", &mut signs);
                    }
                    Change::Gone { incarnation, .. } => {
                        gone(timeline, &incarnation.key, &incarnation.uid, message.received, &mut signs);
                    }
                    // A row may leave because another one enters.
                    Change::RowGone { .. } => {}
                }
            }
            if message.is_hard_reset || message.is_soft_reset {
                snapshot.clear();
                is_snapshot = message.is_hard_reset || is_snapshot;
            } else if message.is_current && is_snapshot {
                if !matches!(stream.mode, Mode::Stateful(_)) {
                    let states = std::mem::take(&mut snapshot);
                    let (in_scope, span) = (|key: &Key| stream.scope.has(key), (stream.begun, message.received));
                    listed(timeline, in_scope, &states, span, "snapshot", &mut signs);
                }
                is_snapshot = false;
            }
        }
    }
    let mut orders = Orders::new();
    for (key, mut signs) in signs {
        if let Some((key, line)) = timeline.lines.get_key_value(key) {
            orders.insert(*key, order(key, line, &mut signs, found));
        }
    }
    orders
}

fn of_operation<'h>(
    operation: &'h Operation,
    begun: u64,
    timeline: &Timeline<'h>,
    signs: &mut BTreeMap<&'h Key, Vec<Sign>>,
) {
    let Operation { ended, call, answer, .. } = operation;
    let span = (begun, *ended);
    let refused_with = |wanted: &str| matches!(answer, Answer::Refused { code, .. } if code == wanted);
    if let Call::Move { from, .. } = call {
        let line = timeline.lines.get(from);
        if let Some(place) = moves::source(operation, timeline).and_then(|uid| line?.absence_after(uid)) {
            add(signs, from, span, Fits::Place { place, makes: false }, "move");
        }
        if *answer == Answer::Absent {
            add(signs, from, span, Fits::Absence, "NotFound of a move");
        }
    }
    if let (Call::Write { references, .. }, Answer::Refused { text, .. }) = (call, answer)
        && let [reference] = references.as_slice()
        && text.contains(REFUSED_REFERENCE)
    {
        add(signs, &reference.target, span, Fits::Deleted(String::new()), "refused reference");
    }
    if let (Some(key), true) = (call.key(), call.is_put()) {
        let Some(line) = timeline.lines.get(key) else { return };
        let made =
            line.states.iter().position(|known| known.writer.is_some_and(|writer| std::ptr::eq(writer, operation)));
        if let Some(index) = made {
            let fits = Fits::Place { place: 2 * index + 1, makes: true };
            add(signs, key, span, fits, "write");
        }
        let refused = refused_with("Aborted");
        match call {
            Call::Write { version: Some(version), .. } | Call::Status { version: Some(version), .. } if refused => {
                add(signs, key, span, Fits::NotVersion(*version), "refused compare-and-swap");
            }
            Call::Status { uid, .. } if *answer == Answer::Absent => {
                add(signs, key, span, Fits::NotUid(uid.clone()), "NotFound of a status");
            }
            Call::Update { .. } if *answer == Answer::Absent => {
                add(signs, key, span, Fits::Absence, "NotFound of an update");
            }
            Call::Move { .. } | Call::Import { .. } if refused_with("AlreadyExists") => {
                add(signs, key, span, Fits::Presence, "AlreadyExists");
            }
            Call::Write { .. } if operation.is_removal() => {
                if let Answer::Stored(state) = answer {
                    gone(timeline, key, &state.uid, *ended, signs);
                }
            }
            _ => {}
        }
        return;
    }
    match (call, answer) {
        (Call::Read { key, .. }, Answer::Stored(state)) => {
            debug_assert_eq!(*key, state.key);
            shown(timeline, state, span, "read", signs);
        }
        (Call::Read { key, uid, .. }, Answer::Absent) => {
            let fits = if uid.is_empty() { Fits::Absence } else { Fits::NotUid(uid.clone()) };
            add(signs, key, span, fits, "NotFound of a read");
        }
        (Call::Delete { key, uid, .. }, Answer::Done) => {
            add(signs, key, span, Fits::Deleted(uid.clone()), "deletion");
        }
        (Call::Delete { key, version: Some(version), .. }, Answer::Refused { code, .. }) if code == "Aborted" => {
            add(signs, key, span, Fits::NotVersion(*version), "refused deletion");
        }
        (Call::Batch { keys }, Answer::Found(states)) => {
            for key in keys {
                match states.iter().find(|state| state.key == *key) {
                    Some(state) => shown(timeline, state, span, "read of several", signs),
                    None => add(signs, key, span, Fits::Absence, "NotFound of a read of several"),
                }
            }
        }
        (Call::List { scope, .. }, Answer::Found(states)) => {
            let states: Vec<_> = states.iter().collect();
            listed(timeline, |key| scope.has(key), &states, span, "list", signs);
        }
        (Call::Backup, Answer::Found(states)) => {
            let states: Vec<_> = states.iter().collect();
            let in_backup = |key: &Key| key.kind != PARTITION;
            listed(timeline, in_backup, &states, span, "backup", signs);
        }
        (Call::Owned { .. }, Answer::Found(states)) => {
            states.iter().for_each(|state| shown(timeline, state, span, "list by owner", signs));
        }
        _ => {}
    }
}

fn add<'h>(
    signs: &mut BTreeMap<&'h Key, Vec<Sign>>,
    key: &'h Key,
    (begun, ended): (u64, u64),
    fits: Fits,
    evidence: &'static str,
) {
    signs.entry(key).or_default().push(Sign { begun, ended, fits, evidence });
}

fn shown<'h>(
    timeline: &Timeline<'h>,
    state: &'h State,
    span: (u64, u64),
    evidence: &'static str,
    signs: &mut BTreeMap<&'h Key, Vec<Sign>>,
) {
    if let Some(index) = timeline.lines.get(&state.key).and_then(|line| line.index(state.version)) {
        add(signs, &state.key, span, Fits::Place { place: 2 * index + 1, makes: false }, evidence);
    }
}

fn gone<'h>(timeline: &Timeline<'h>, key: &'h Key, uid: &str, time: u64, signs: &mut BTreeMap<&'h Key, Vec<Sign>>) {
    if let Some(place) = timeline.lines.get(key).and_then(|line| line.absence_after(uid)) {
        add(signs, key, (0, time), Fits::Place { place, makes: false }, "deletion that was shown");
    }
}

/// Adds a sign for each resource of a scope: its state, or its absence.
fn listed<'h>(
    timeline: &Timeline<'h>,
    in_scope: impl Fn(&Key) -> bool,
    states: &[&'h State],
    span: (u64, u64),
    evidence: &'static str,
    signs: &mut BTreeMap<&'h Key, Vec<Sign>>,
) {
    let states: HashMap<&Key, &State> = states.iter().map(|state| (&state.key, *state)).collect();
    for key in timeline.lines.keys().copied().filter(|key| in_scope(key)) {
        match states.get(key) {
            Some(state) => shown(timeline, state, span, evidence, signs),
            None => add(signs, key, span, Fits::Absence, evidence),
        }
    }
}

/// Rank of a place: a call that makes a state comes before all that see it.
fn rank(place: usize, makes: bool) -> usize {
    2 * place + usize::from(!makes)
}

/// Finds a place for each sign; returns the times at which places were reached.
fn order(key: &Key, line: &Line<'_>, signs: &mut [Sign], found: &mut Vec<Violation>) -> Vec<u64> {
    signs.sort_by_key(|sign| (sign.begun, sign.ended));
    let mut reached = vec![NEVER; line.places()];
    let mut reach = |place: usize, time: u64| {
        if let Some(earliest) = reached.get_mut(place) {
            *earliest = time.min(*earliest);
        }
    };
    // The lowest rank that each time allows for what ends before it, from the calls that begin later.
    let mut later: Vec<(u64, usize)> = Vec::new();
    for sign in signs.iter().rev() {
        if let Fits::Place { place, makes } = sign.fits
            && sign.begun > 0
        {
            let lowest = later.last().map_or(usize::MAX, |(_, lowest)| *lowest);
            later.push((sign.begun, lowest.min(rank(place, makes))));
        }
    }
    later.reverse();
    let highest_for = |ended: u64| {
        let next = later.partition_point(|(begun, _)| *begun <= ended);
        later.get(next).map_or(usize::MAX, |(_, lowest)| *lowest)
    };
    let mut open: BinaryHeap<Reverse<(u64, usize, &'static str)>> = BinaryHeap::new();
    let (mut lowest, mut because) = (0, "");
    for sign in signs.iter() {
        while let Some(Reverse((ended, rank, evidence))) = open.peek().copied()
            && ended < sign.begun
        {
            open.pop();
            if rank > lowest {
                (lowest, because) = (rank, evidence);
            }
        }
        let chosen = match &sign.fits {
            Fits::Place { place, makes } => {
                let rank = rank(*place, *makes);
                if rank < lowest && sign.begun > 0 {
                    let text = format!(
                        "a {} shows {}, after a {because} had shown {}",
                        sign.evidence,
                        describe(line, *place),
                        describe(line, lowest / 2)
                    );
                    found.push(Violation::new("a call shows the newest state", key, text));
                }
                Some((*place, rank))
            }
            other => {
                let highest = highest_for(sign.ended);
                let fitting =
                    (lowest / 2..line.places()).find(|place| line.is_place(*place) && fits(other, line, *place));
                match fitting.filter(|place| rank(*place, false) <= highest) {
                    Some(place) => Some((place, rank(place, false))),
                    None => {
                        let text = format!(
                            "a {} fits no state between {} and {}",
                            sign.evidence,
                            describe(line, lowest / 2),
                            if highest == usize::MAX { "the end".to_owned() } else { describe(line, highest / 2) }
                        );
                        found.push(Violation::new("a call shows the newest state", key, text));
                        None
                    }
                }
            }
        };
        if let Some((place, rank)) = chosen
            && sign.ended != NEVER
        {
            open.push(Reverse((sign.ended, rank, sign.evidence)));
            reach(place, sign.ended);
        }
    }
    let mut earliest = NEVER;
    for time in reached.iter_mut().rev() {
        earliest = earliest.min(*time);
        *time = earliest;
    }
    reached
}

fn fits(fits: &Fits, line: &Line<'_>, place: usize) -> bool {
    let state = line.state(place);
    match fits {
        Fits::Place { place: only, .. } => *only == place,
        Fits::Absence => state.is_none(),
        Fits::Presence => state.is_some(),
        Fits::NotVersion(version) => {
            state.is_none_or(|state| state.version != *version) || line.hides_state_after(place)
        }
        Fits::NotUid(uid) => state.is_none_or(|state| state.uid != *uid),
        Fits::Deleted(uid) => state.is_none_or(|state| state.is_marked || (!uid.is_empty() && state.uid != *uid)),
    }
}

fn describe(line: &Line<'_>, place: usize) -> String {
    let before = || line.states.get((place / 2).wrapping_sub(1)).map(|known| known.state.version);
    match (line.state(place), before()) {
        (Some(state), _) => format!("version {}", state.version),
        (None, Some(version)) => format!("the absence after version {version}"),
        (None, None) => "the absence before all versions".to_owned(),
    }
}
