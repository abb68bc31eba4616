//! Backups, states of which an answer has only a part, and resources that are watched by themselves.

use crate::*;

const CUT: &str = "a backup is as of one commit";

fn backup(span: (u64, u64), states: Vec<State>) -> Entry {
    call(span.0, span.1, Call::Backup, Answer::Found(states))
}

/// An album; its kind is another one than that of [`state`].
fn album(name: &str, version: u64) -> State {
    let stored = state(name, "v", version, version.div_ceil(2));
    State { key: Key { kind: "Album".into(), ..stored.key.clone() }, ..stored }
}

#[test]
fn a_backup_is_as_of_one_commit_of_all_kinds() {
    let writes = || {
        vec![
            write((10, 90), None, album("b", 1)),
            write((10, 90), None, state("a", "u", 2, 1)),
            write((10, 90), None, album("b", 3)),
            write((10, 90), None, state("a", "u", 4, 2)),
        ]
    };
    let and = |states| [writes(), vec![backup((20, 80), states)]].concat();
    assert_clean(and(vec![state("a", "u", 2, 1), album("b", 1)]));
    assert_clean(and(vec![state("a", "u", 2, 1), album("b", 3)]));
    assert_broken(CUT, and(vec![state("a", "u", 4, 2), album("b", 1)]));
    let lacks = History {
        ending: Some(vec![state("a", "u", 4, 2), album("b", 3)]),
        ..history(and(vec![state("a", "u", 4, 2)]))
    };
    assert!(rules(&lacks).contains(&CUT.to_owned()));
}

#[test]
fn a_backup_is_between_its_begin_and_its_end() {
    let writes = || vec![write((10, 20), None, state("a", "u", 1, 1)), write((50, 60), None, state("a", "u", 2, 2))];
    let of = |span, version| [writes(), vec![backup(span, vec![state("a", "u", version, version)])]].concat();
    assert_clean(of((30, 55), 1));
    assert_clean(of((30, 55), 2));
    let newest = "a call shows the newest state";
    assert_broken(newest, of((61, 70), 1));
    assert_broken(newest, of((30, 45), 2));
}

fn partial(stored: State) -> State {
    State { edition: OPEN_EDITION, digest: 0, ..stored }
}

#[test]
fn a_part_of_a_state_agrees_with_the_whole() {
    let seen = |state| read((30, 40), "a", Some(state));
    let first = || write((10, 20), None, state("a", "u", 1, 1));
    assert_clean(vec![first(), seen(partial(state("a", "u", 1, 1)))]);
    assert_broken("a version is given once", vec![first(), seen(partial(state("a", "u", 1, 7)))]);
    // The count of changes is not compared with one that is not known.
    let over_http = || write((10, 20), None, partial(state("a", "u", 1, 1)));
    assert_clean(vec![over_http(), write((30, 40), Some(1), State { edition: 9, ..state("a", "u", 2, 2) })]);
}

#[test]
fn a_watch_of_one_resource_misses_nothing() {
    let writes = || {
        vec![
            write((10, 20), None, state("a", "u", 1, 1)),
            write((21, 30), None, state("b", "v", 2, 2)),
            write((31, 40), None, state("a", "u", 3, 2)),
            write((41, 50), None, state("a", "u", 4, 3)),
        ]
    };
    let watch = |versions: &[u64]| {
        let message = |version: &u64| Message {
            received: 50 + version,
            changes: vec![Change::Upsert(state("a", "u", *version, (*version).max(2) - 1))],
            is_current: true,
            is_soft_reset: false,
            is_hard_reset: false,
        };
        let scope = Scope { kind: "Artist".into(), namespace: Some("default".into()), name: Some("a".into()) };
        let messages = versions.iter().map(message).collect();
        let stream = Stream {
            watch: "w".into(),
            mode: Mode::Single,
            scope,
            begun: 25,
            is_resumed: false,
            is_complete: false,
            messages,
            end: End::Open,
        };
        [writes(), vec![Entry::Stream(stream)]].concat()
    };
    assert_clean(watch(&[1, 3, 4]));
    assert_broken("a watch misses nothing", watch(&[1, 4]));
    assert_broken("a watch shows each change once", watch(&[1, 3, 3]));
}
