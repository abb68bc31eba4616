//! Watches of all changes: WatchList, and STATELESS watches with their resumptions.
//!
//! After its snapshot, a watch delivers every change in the order of commits, each once. So of two consecutive events
//! the second has the larger version, and no version in scope lies between. A watch that resumes goes on after its last
//! complete message; the client forgets what came after that.

use std::collections::{BTreeMap, HashMap};

use super::{timeline::Timeline, violation::Violation};
use crate::record::{Change, End, History, Incarnation, Key, Mode, Scope, State, Stream};

/// Resources that the client of a watch holds.
#[derive(Debug, Clone, Default)]
struct Replica {
    holds: BTreeMap<Key, (String, u64)>,
    /// Newest version that it has passed.
    passed: u64,
    /// Time at which a snapshot was complete, if nothing came since.
    fresh_since: Option<u64>,
}

/// Checks all watches.
pub fn check(history: &History, timeline: &Timeline<'_>, found: &mut Vec<Violation>) {
    let mut watches: BTreeMap<&str, Vec<&Stream>> = BTreeMap::new();
    for stream in history.streams().filter(|stream| !matches!(stream.mode, Mode::Stateful(_))) {
        watches.entry(&stream.watch).or_default().push(stream);
    }
    let mut scopes: HashMap<&Scope, Vec<(u64, &Key)>> = HashMap::new();
    for streams in watches.values_mut() {
        streams.sort_by_key(|stream| stream.begun);
        let mut replica = None;
        for stream in streams.iter() {
            ends(stream, found);
            let versions = scopes.entry(&stream.scope).or_insert_with(|| timeline.versions(&stream.scope));
            replica = follow(stream, replica.filter(|_| stream.is_resumed), timeline, versions, found);
            if let (true, Some(replica), Some(ending)) = (stream.is_complete, &replica, &history.ending) {
                compare(stream, replica, ending, found);
            }
        }
    }
}

/// A list's watch cannot resume: it says so to a client that comes back. A watch over HTTP ends with a word.
fn ends(stream: &Stream, found: &mut Vec<Violation>) {
    let first = stream.messages.first();
    if stream.mode == Mode::List && stream.is_resumed && first.is_some_and(|first| !first.is_hard_reset) {
        let text = format!("{} begins without a reset at {}", stream.watch, stream.begun);
        found.push(Violation::bare("a client that comes back is reset", text));
    }
    if stream.end == End::Silent {
        let text =
            format!("{}, begun at {}, was ended by the server without its last event", stream.watch, stream.begun);
        found.push(Violation::bare("a watch says that it ends", text));
    }
}

/// Applies a stream to a replica; returns the replica as of its last complete message. `None` before a snapshot.
fn follow(
    stream: &Stream,
    mut replica: Option<Replica>,
    timeline: &Timeline<'_>,
    versions: &[(u64, &Key)],
    found: &mut Vec<Violation>,
) -> Option<Replica> {
    if stream.is_resumed && replica.is_none() {
        return None;
    }
    let mut pending: Vec<&Change> = Vec::new();
    for message in &stream.messages {
        if message.is_hard_reset {
            (replica, pending) = (None, Vec::new());
            continue;
        }
        if message.is_soft_reset {
            pending.clear();
            continue;
        }
        pending.extend(&message.changes);
        if !message.is_current {
            continue;
        }
        match &mut replica {
            None => replica = Some(snapshot(stream, &std::mem::take(&mut pending), message.received, found)),
            Some(replica) => {
                for change in pending.drain(..) {
                    apply(stream, replica, change, timeline, versions, found);
                }
            }
        }
    }
    replica
}

fn snapshot(stream: &Stream, changes: &[&Change], time: u64, found: &mut Vec<Violation>) -> Replica {
    let mut replica = Replica { fresh_since: Some(time), ..Replica::default() };
    let mut last: Option<&Key> = None;
    for state in changes.iter().filter_map(|change| change.state()) {
        if last.is_some_and(|last| *last >= state.key) {
            let text = format!("the snapshot of {} has it out of order, or twice", stream.watch);
            found.push(Violation::new("a snapshot is in order", &state.key, text));
        }
        last = Some(&state.key);
        replica.passed = replica.passed.max(state.version);
        replica.holds.insert(state.key.clone(), (state.uid.clone(), state.version));
    }
    replica
}

fn apply(
    stream: &Stream,
    replica: &mut Replica,
    change: &Change,
    timeline: &Timeline<'_>,
    versions: &[(u64, &Key)],
    found: &mut Vec<Violation>,
) {
    match change {
        Change::Upsert(state) => upsert(stream, replica, state, timeline, versions, found),
        Change::Gone { incarnation: Incarnation { key, uid }, version } => {
            let held = replica.holds.remove(key);
            let fits =
                held.as_ref().is_some_and(|(held, at)| held == uid && version.is_none_or(|version| version == *at));
            if !fits {
                let text = match held {
                    None => format!("{} shows the deletion of a resource that it had not shown", stream.watch),
                    Some((_, held)) => format!("{} shows a deletion that does not follow version {held}", stream.watch),
                };
                found.push(Violation::new("a watch misses nothing", key, text));
            }
        }
        Change::Row { .. } | Change::RowGone { .. } => {}
    }
}

fn upsert(
    stream: &Stream,
    replica: &mut Replica,
    state: &State,
    timeline: &Timeline<'_>,
    versions: &[(u64, &Key)],
    found: &mut Vec<Violation>,
) {
    let mut fail = |rule: &str, key: &Key, text: String| found.push(Violation::new(rule, key, text));
    if state.version <= replica.passed {
        let (rule, text) = match replica.holds.get(&state.key) {
            Some((_, version)) if *version == state.version => ("a watch shows each change once", "again"),
            _ => ("a watch is in order", "late"),
        };
        fail(
            rule,
            &state.key,
            format!("{} shows version {} {text}, after version {}", stream.watch, state.version, replica.passed),
        );
        return;
    }
    let from = versions.partition_point(|(version, _)| *version <= replica.passed);
    for (version, key) in versions.iter().skip(from).take_while(|(version, _)| *version < state.version) {
        // A snapshot lacks what was gone before it.
        let line = timeline.lines.get(*key).filter(|_| !replica.holds.contains_key(*key));
        let was_gone = replica.fresh_since.zip(line).is_some_and(|(time, line)| {
            let known = line.index(*version).and_then(|index| line.states.get(index));
            let writer = known.and_then(|known| known.writer);
            writer.is_none_or(|writer| writer.begun <= time) && line.may_be_absent(*version, state.version)
        });
        if !was_gone {
            fail(
                "a watch misses nothing",
                key,
                format!(
                    "{} shows version {} after {}, without version {version}",
                    stream.watch, state.version, replica.passed
                ),
            );
        }
    }
    let held = replica.holds.insert(state.key.clone(), (state.uid.clone(), state.version));
    if held.is_some_and(|(uid, _)| uid != state.uid) {
        fail(
            "a watch misses nothing",
            &state.key,
            format!("{} misses the deletion before version {}", stream.watch, state.version),
        );
    }
    (replica.passed, replica.fresh_since) = (state.version, None);
}

/// Compares what a client holds at the end with everything that is stored.
fn compare(stream: &Stream, replica: &Replica, ending: &[State], found: &mut Vec<Violation>) {
    let stored = ending.iter().filter(|state| stream.scope.has(&state.key));
    let stored: BTreeMap<&Key, u64> = stored.map(|state| (&state.key, state.version)).collect();
    let held: BTreeMap<&Key, u64> = replica.holds.iter().map(|(key, (_, version))| (key, *version)).collect();
    for (key, version) in &stored {
        if held.get(key) != Some(version) {
            let text = format!("{} ends without version {version}", stream.watch);
            found.push(Violation::new("a watch misses nothing", key, text));
        }
    }
    for (key, version) in held.iter().filter(|(key, _)| !stored.contains_key(*key)) {
        let text = format!("{} ends without the deletion of version {version}", stream.watch);
        found.push(Violation::new("a watch misses nothing", key, text));
    }
}
