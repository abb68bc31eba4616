//! Deletions: their causes, and their outcomes.

use crate::*;

const CAUSE: &str = "a resource goes by a deletion";

fn owned(name: &str, version: u64) -> State {
    State { owner: Some(Incarnation { key: key("o"), uid: "w".into() }), ..state(name, "u", version, version) }
}

#[test]
fn nothing_goes_by_itself() {
    let first = || write((10, 20), None, state("a", "u", 1, 1));
    assert_clean(vec![first(), delete((30, 40), "a"), read((50, 60), "a", None)]);
    assert_broken(CAUSE, vec![first(), read((50, 60), "a", None)]);
    // A deletion of another version, or a later one, does not explain it.
    let of_version = |version| {
        call(30, 40, Call::Delete { key: key("a"), uid: String::new(), version: Some(version) }, Answer::Done)
    };
    assert_clean(vec![first(), of_version(1), read((50, 60), "a", None)]);
    assert_broken(CAUSE, vec![first(), of_version(7), read((50, 60), "a", None)]);
    assert_broken(CAUSE, vec![first(), read((50, 60), "a", None), delete((70, 80), "a")]);
}

#[test]
fn an_owner_that_lives_takes_nothing_along() {
    let start = || vec![write((10, 20), None, state("o", "w", 1, 1)), write((30, 40), None, owned("a", 2))];
    assert_clean([start(), vec![delete((50, 60), "o"), read((70, 80), "a", None)]].concat());
    assert_broken(CAUSE, [start(), vec![read((70, 80), "a", None)]].concat());
    // The deletion of an earlier owner of that name does not explain it.
    let earlier = vec![
        write((1, 2), None, state("o", "before", 1, 1)),
        call(3, 4, Call::Delete { key: key("o"), uid: "before".into(), version: None }, Answer::Done),
        write((10, 20), None, state("o", "w", 2, 2)),
        write((30, 40), None, owned("a", 3)),
        read((70, 80), "a", None),
    ];
    assert_broken(CAUSE, earlier);
}

#[test]
fn finalizers_hold() {
    let held = State { has_finalizers: true, ..state("a", "u", 1, 1) };
    let marked = State { is_marked: true, version: 2, digest: 2, ..held.clone() };
    let release = || {
        let request = Call::Write {
            key: key("a"),
            uid: "u".into(),
            version: Some(2),
            content: "c1".into(),
            owner: None,
            releases: true,
            references: Vec::new(),
        };
        call(50, 60, request, Answer::Stored(State { has_finalizers: false, ..marked.clone() }))
    };
    let start =
        || vec![write((10, 20), None, held.clone()), delete((30, 40), "a"), read((41, 45), "a", Some(marked.clone()))];
    assert_clean([start(), vec![release(), read((70, 80), "a", None)]].concat());
    assert_broken(CAUSE, [start(), vec![read((70, 80), "a", None)]].concat());
    assert_broken(CAUSE, vec![write((10, 20), None, held.clone()), read((41, 45), "a", Some(marked.clone()))]);
}

#[test]
fn nothing_is_left_of_deleted_owners_and_namespaces() {
    let ended = |ending| {
        let start = vec![write((10, 20), None, state("o", "w", 1, 1)), write((30, 40), None, owned("a", 2))];
        History { ending: Some(ending), ..history(start) }
    };
    assert!(judge(&ended(vec![owned("a", 2), state("o", "w", 1, 1)])).is_empty());
    assert!(rules(&ended(vec![owned("a", 2)])).contains(&"owned resources go with their owner".to_owned()));
    let placed = Key { namespace: "gone".into(), ..key("x") };
    let left = State { key: placed, ..state("x", "u", 9, 9) };
    let left = History { ending: Some(vec![left]), ..History::default() };
    assert!(rules(&left).contains(&"resources go with their namespace".to_owned()));
}
