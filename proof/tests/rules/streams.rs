//! Watches: order, completeness, resumptions, pages.

use crate::*;

const MISSES: &str = "a watch misses nothing";

fn message(received: u64, changes: Vec<Change>, is_current: bool) -> Message {
    Message { received, changes, is_current, is_soft_reset: false, is_hard_reset: false }
}

fn stream(mode: Mode, begun: u64, is_resumed: bool, messages: Vec<Message>) -> Entry {
    let watch = "w".into();
    Entry::Stream(Stream {
        watch,
        mode,
        scope: scope(),
        begun,
        is_resumed,
        is_complete: false,
        messages,
        end: End::Open,
    })
}

fn shows(received: u64, states: Vec<State>) -> Message {
    message(received, states.into_iter().map(Change::Upsert).collect(), true)
}

fn gone(received: u64, name: &str, uid: &str, version: u64) -> Message {
    let incarnation = Incarnation { key: key(name), uid: uid.into() };
    message(received, vec![Change::Gone { incarnation, version: Some(version) }], true)
}

fn writes() -> Vec<Entry> {
    vec![write((10, 20), None, of(1)), write((30, 40), None, of(2)), write((50, 60), None, of(3))]
}

fn watched(messages: Vec<Message>) -> Vec<Entry> {
    [writes(), vec![stream(Mode::List, 21, false, messages)]].concat()
}

fn of(version: u64) -> State {
    match version {
        2 => state("b", "v", 2, 1),
        3 => state("a", "u", 3, 2),
        other => state("a", "u", other, 1),
    }
}

#[test]
fn events_come_in_order_each_once() {
    let snapshot = || shows(25, vec![of(1)]);
    assert_clean(watched(vec![snapshot(), shows(41, vec![of(2)]), shows(61, vec![of(3)])]));
    assert_broken(MISSES, watched(vec![snapshot(), shows(61, vec![of(3)])]));
    let late = watched(vec![snapshot(), shows(61, vec![of(3)]), shows(62, vec![of(2)])]);
    assert_broken("a watch is in order", late);
    let again = watched(vec![snapshot(), shows(41, vec![of(2)]), shows(42, vec![of(2)])]);
    assert_broken("a watch shows each change once", again);
}

#[test]
fn a_snapshot_is_no_older_than_the_call() {
    assert_clean(watched(vec![shows(25, vec![of(1)])]));
    assert_broken("a call shows the newest state", watched(vec![shows(25, vec![])]));
    let unordered = [writes(), vec![stream(Mode::List, 61, false, vec![shows(65, vec![of(2), of(3)])])]].concat();
    assert_broken("a snapshot is in order", unordered);
}

#[test]
fn a_read_after_an_event_shows_it() {
    let event = || stream(Mode::List, 21, false, vec![shows(25, vec![of(1)]), shows(35, vec![of(2)])]);
    assert_broken("a resource goes by a deletion", [writes(), vec![event(), read((36, 39), "b", None)]].concat());
    assert_clean([writes(), vec![event(), read((36, 39), "b", Some(of(2)))]].concat());
}

#[test]
fn an_event_comes_after_its_write_began() {
    assert_broken("a call shows the newest state", watched(vec![shows(22, vec![of(1)]), shows(23, vec![of(2)])]));
}

#[test]
fn a_deletion_is_shown() {
    let entries = |messages| {
        [
            writes(),
            vec![
                delete((70, 80), "a"),
                write((81, 90), None, state("a", "z", 5, 5)),
                stream(Mode::List, 61, false, messages),
            ],
        ]
        .concat()
    };
    let snapshot = || shows(65, vec![of(3), of(2)]);
    let created = || shows(95, vec![state("a", "z", 5, 5)]);
    assert_clean(entries(vec![snapshot(), gone(85, "a", "u", 3), created()]));
    assert_broken(MISSES, entries(vec![snapshot(), created()]));
    assert_broken(MISSES, entries(vec![snapshot(), gone(85, "a", "u", 1), created()]));
    assert_broken(MISSES, entries(vec![snapshot(), gone(85, "a", "u", 3), gone(86, "a", "u", 3), created()]));
}

#[test]
fn a_resumption_goes_on_where_the_last_complete_message_ended() {
    let part = |received, states: Vec<State>| Message { is_current: false, ..shows(received, states) };
    let resumed = |second| {
        [
            writes(),
            vec![
                stream(Mode::Stateless, 21, false, vec![shows(25, vec![of(1)]), part(41, vec![of(2)])]),
                stream(Mode::Stateless, 70, true, vec![second]),
            ],
        ]
        .concat()
    };
    assert_clean(resumed(shows(75, vec![of(2), of(3)])));
    assert_broken(MISSES, resumed(shows(75, vec![of(3)])));
    assert_broken("a watch shows each change once", resumed(shows(75, vec![of(1), of(2), of(3)])));
    // After a reset, a snapshot follows.
    let reset = Message { is_current: false, is_hard_reset: true, ..shows(73, vec![]) };
    let again = vec![reset, shows(75, vec![of(3), of(2)])];
    assert_clean([writes(), vec![stream(Mode::Stateless, 70, true, again)]].concat());
}

#[test]
fn a_watch_ends_with_everything_that_is_stored() {
    let ended = |messages: Vec<Message>| {
        let mut history = history(watched(messages));
        if let Some(Entry::Stream(stream)) = history.entries.last_mut() {
            stream.is_complete = true;
        }
        History { ending: Some(vec![of(3), of(2)]), ..history }
    };
    let all = vec![shows(25, vec![of(1)]), shows(41, vec![of(2)]), shows(61, vec![of(3)])];
    assert!(judge(&ended(all.clone())).is_empty());
    assert!(rules(&ended(all[..2].to_vec())).contains(&MISSES.to_owned()));
}

fn row(state: State, previous: Option<usize>, index: usize) -> Change {
    Change::Row { state, previous, index }
}

fn paged(messages: Vec<Message>) -> Vec<Entry> {
    [writes(), vec![stream(Mode::Stateful(2), 21, false, messages)]].concat()
}

#[test]
fn rows_have_their_indices() {
    let first = || message(25, vec![row(of(1), None, 0)], true);
    let second = |index| message(45, vec![row(of(2), None, index)], true);
    let third = |previous| message(65, vec![row(of(3), Some(previous), 0)], true);
    assert_clean(paged(vec![first(), second(1), third(0)]));
    let rule = "rows have their indices";
    assert_broken(rule, paged(vec![first(), second(2)]));
    assert_broken(rule, paged(vec![first(), second(1), third(1)]));
    assert_broken("rows are in order", paged(vec![first(), second(0)]));
    let older = vec![first(), second(1), third(0), message(66, vec![row(of(1), Some(0), 0)], true)];
    assert_broken("a watch is in order", paged(older));
}

#[test]
fn a_page_is_as_of_one_commit() {
    let paged = paged(vec![message(65, vec![row(of(3), None, 0)], true)]);
    let lacks = History { ending: Some(vec![of(3), of(2)]), ..history(paged) };
    assert!(rules(&lacks).contains(&"a page is as of one commit".to_owned()));
}
