//! Calls: order, versions, compare-and-swap, contents.

use crate::*;

const NEWEST: &str = "a call shows the newest state";

#[test]
fn a_read_after_a_write_shows_it() {
    let first = || write((10, 20), None, state("a", "u", 1, 1));
    let second = || write((30, 40), None, state("a", "u", 2, 2));
    assert_clean(vec![first(), second(), read((50, 60), "a", Some(state("a", "u", 2, 2)))]);
    // Both states were possible meanwhile.
    assert_clean(vec![first(), second(), read((35, 60), "a", Some(state("a", "u", 1, 1)))]);
    assert_broken(NEWEST, vec![first(), second(), read((50, 60), "a", Some(state("a", "u", 1, 1)))]);
    assert_broken("a resource goes by a deletion", vec![first(), read((21, 25), "a", None)]);
    assert_broken(NEWEST, vec![first(), delete((21, 22), "a"), read((23, 25), "a", Some(state("a", "u", 1, 1)))]);
}

#[test]
fn reads_of_one_another_do_not_go_back() {
    let writes = || vec![write((10, 20), None, state("a", "u", 1, 1)), write((30, 90), None, state("a", "u", 2, 2))];
    let newer = || read((40, 50), "a", Some(state("a", "u", 2, 2)));
    let older = |begun| read((begun, 70), "a", Some(state("a", "u", 1, 1)));
    assert_clean([writes(), vec![newer(), older(45)]].concat());
    assert_broken(NEWEST, [writes(), vec![newer(), older(55)]].concat());
}

#[test]
fn a_read_shows_nothing_of_the_future() {
    let entries = vec![write((30, 40), None, state("a", "u", 1, 1)), read((10, 20), "a", Some(state("a", "u", 1, 1)))];
    assert_broken(NEWEST, entries);
}

#[test]
fn a_write_without_an_answer_may_be_done_or_not() {
    let open = || {
        let stored = state("a", "u", 2, 2);
        let request = Call::Write {
            key: stored.key,
            uid: String::new(),
            version: None,
            content: stored.content,
            owner: None,
            releases: false,
            references: Vec::new(),
        };
        call(30, NEVER, request, Answer::Unknown)
    };
    let first = || write((10, 20), None, state("a", "u", 1, 1));
    assert_clean(vec![first(), open(), read((50, 60), "a", Some(state("a", "u", 1, 1)))]);
    assert_clean(vec![
        first(),
        open(),
        read((50, 60), "a", Some(state("a", "u", 1, 1))),
        read((70, 80), "a", Some(state("a", "u", 2, 2))),
    ]);
    // Once shown, it stays.
    let shown = vec![
        first(),
        open(),
        read((50, 60), "a", Some(state("a", "u", 2, 2))),
        read((70, 80), "a", Some(state("a", "u", 1, 1))),
    ];
    assert_broken(NEWEST, shown);
}

#[test]
fn a_status_without_an_answer_may_show_in_the_next_write() {
    let with = |stored: State, text: &str| State { statuses: [("one".into(), text.into())].into(), ..stored };
    let request =
        Call::Status { key: key("a"), uid: "u".into(), version: None, entry: "one".into(), content: "s".into() };
    let entries = |text| {
        vec![
            write((10, 20), None, state("a", "u", 1, 1)),
            call(30, NEVER, request.clone(), Answer::Unknown),
            write((50, 60), None, with(state("a", "u", 3, 2), text)),
        ]
    };
    assert_clean(entries("s"));
    // Without such a call, it may not.
    let without =
        entries("s").into_iter().filter(|entry| !matches!(entry, Entry::Operation(call) if call.ended == NEVER));
    assert_broken("a status stays", without.collect());
}

#[test]
fn a_lost_write_is_found_by_the_next_read() {
    let entries = vec![
        write((10, 20), None, state("a", "u", 1, 1)),
        write((30, 40), None, state("a", "u", 2, 2)),
        Entry::Fault { time: 45, fault: "killed".into() },
        read((50, 60), "a", Some(state("a", "u", 1, 1))),
    ];
    assert_broken(NEWEST, entries);
}

#[test]
fn a_version_is_given_once() {
    let rule = "a version is given once";
    let other = State { digest: 77, ..state("a", "u", 1, 1) };
    assert_broken(rule, vec![write((10, 20), None, state("a", "u", 1, 1)), read((30, 40), "a", Some(other))]);
    let twice = vec![write((10, 20), None, state("a", "u", 1, 1)), write((30, 40), None, state("b", "v", 1, 2))];
    assert_broken(rule, twice);
}

#[test]
fn versions_rise_over_all_resources() {
    let later = |version| {
        vec![write((10, 20), None, state("a", "u", 5, 1)), write((30, 40), None, state("b", "v", version, 2))]
    };
    assert_clean(later(6));
    assert_broken("versions rise", later(4));
}

#[test]
fn compare_and_swap_replaces_the_named_version() {
    let entries = |version| {
        vec![
            write((10, 20), None, state("a", "u", 1, 1)),
            write((30, 40), None, state("a", "u", 2, 2)),
            write((35, 50), Some(version), state("a", "u", 3, 3)),
        ]
    };
    assert_clean(entries(2));
    assert_broken("compare-and-swap", entries(1));
}

#[test]
fn a_refusal_needs_another_version() {
    let refused = |span: (u64, u64)| {
        let request = Call::Write {
            key: key("a"),
            uid: String::new(),
            version: Some(1),
            content: "x".into(),
            owner: None,
            releases: false,
            references: Vec::new(),
        };
        call(span.0, span.1, request, Answer::Refused { code: "Aborted".into(), text: "CAS".into() })
    };
    let writes = || vec![write((10, 20), None, state("a", "u", 1, 1)), write((60, 70), None, state("a", "u", 2, 2))];
    assert_clean([writes(), vec![refused((50, 65))]].concat());
    assert_broken(
        NEWEST,
        [writes(), vec![refused((30, 40)), read((41, 50), "a", Some(state("a", "u", 1, 1)))]].concat(),
    );
    assert_broken(NEWEST, [writes(), vec![refused((30, 40))]].concat());
    // The server has cleared a reference in between, and no client saw it: the edition counts one more.
    let drafts = |edition: i64| {
        let next = State { edition, ..state("a", "u", 2, 2) };
        let writes = vec![write((10, 20), None, state("a", "u", 1, 1)), write((60, 70), None, next)];
        let text = serde_json::to_string(&[writes, vec![refused((30, 40))]].concat()).unwrap();
        serde_json::from_str::<Vec<Entry>>(&text.replace("\"Artist\"", "\"Draft\"")).unwrap()
    };
    assert_broken(NEWEST, drafts(2));
    assert_clean(drafts(3));
}

#[test]
fn a_write_is_stored_as_sent() {
    let request = Call::Write {
        key: key("a"),
        uid: String::new(),
        version: None,
        content: "other".into(),
        owner: None,
        releases: false,
        references: Vec::new(),
    };
    assert_broken("a write is stored as sent", vec![call(10, 20, request, Answer::Stored(state("a", "u", 1, 1)))]);
}

#[test]
fn a_uid_never_comes_back() {
    let entries = vec![
        write((10, 20), None, state("a", "u", 1, 1)),
        delete((21, 22), "a"),
        write((30, 40), None, state("a", "v", 2, 2)),
        delete((41, 42), "a"),
        write((50, 60), None, state("a", "u", 3, 3)),
    ];
    assert_broken("a uid is given once", entries);
}

#[test]
fn no_write_is_undone() {
    let entries = |text| {
        vec![
            write((10, 20), None, state("a", "u", 1, 1)),
            write((30, 40), None, state("a", "u", 2, 2)),
            read((50, 60), "a", Some(State { digest: 9, ..state("a", "u", 3, text) })),
        ]
    };
    assert_clean(entries(3));
    assert_broken("no write is undone", entries(1));
}

#[test]
fn statuses_keep_the_generation_and_the_rest() {
    let with = |stored: State, text: &str| State { statuses: [("one".into(), text.into())].into(), ..stored };
    let first = || write((10, 20), None, state("a", "u", 1, 1));
    let changed = || with(State { version: 2, digest: 2, ..state("a", "u", 1, 1) }, "s");
    assert_clean(vec![first(), status((30, 40), 1, changed(), "one")]);
    let generation = State { generation: "other".into(), ..changed() };
    assert_broken("generation", vec![first(), status((30, 40), 1, generation, "one")]);
    let data = State { content: "other".into(), edition: 2, ..changed() };
    assert_broken("a status changes nothing else", vec![first(), status((30, 40), 1, data, "one")]);
    // A write keeps the statuses, raises the generation, and counts the change of the data.
    let written = |stored| vec![first(), status((30, 40), 1, changed(), "one"), write((50, 60), Some(2), stored)];
    assert_clean(written(with(state("a", "u", 3, 2), "s")));
    assert_broken("a status stays", written(state("a", "u", 3, 2)));
    let kept = State { generation: "g1".into(), ..with(state("a", "u", 3, 2), "s") };
    assert_broken("generation", written(kept));
    let uncounted = State { edition: 1, ..with(state("a", "u", 3, 2), "s") };
    assert_broken("meta.generation", written(uncounted));
}

#[test]
fn owners_and_marks_stay() {
    let owner = || Incarnation { key: key("o"), uid: "w".into() };
    let entries = |stored| {
        vec![
            write((10, 20), None, State { owner: Some(owner()), ..state("a", "u", 1, 1) }),
            write((30, 40), Some(1), stored),
        ]
    };
    assert_clean(entries(State { owner: Some(owner()), ..state("a", "u", 2, 2) }));
    assert_broken("an owner stays", entries(state("a", "u", 2, 2)));
    let marked = vec![
        write((10, 20), None, State { is_marked: true, has_finalizers: true, ..state("a", "u", 1, 1) }),
        write((30, 40), Some(1), State { has_finalizers: true, ..state("a", "u", 2, 2) }),
    ];
    assert_broken("a deletion mark stays", marked);
}

#[test]
fn a_list_is_as_of_one_commit_and_in_order() {
    let writes = || {
        vec![
            write((10, 90), None, state("a", "u", 1, 1)),
            write((10, 90), None, state("b", "v", 2, 1)),
            write((10, 90), None, state("a", "u", 3, 2)),
            write((10, 90), None, state("b", "v", 4, 2)),
        ]
    };
    let of = |a, b| {
        [writes(), vec![list((20, 80), vec![state("a", "u", a, a.div_ceil(2)), state("b", "v", b, b / 2)])]].concat()
    };
    assert_clean(of(3, 2));
    assert_broken("a list is as of one commit", of(1, 4));
    // A resource that is there must be in the list.
    let lacks = [writes(), vec![list((20, 80), vec![state("b", "v", 4, 2)])]].concat();
    let lacks = History { ending: Some(vec![state("a", "u", 3, 2), state("b", "v", 4, 2)]), ..history(lacks) };
    assert!(rules(&lacks).contains(&"a list is as of one commit".to_owned()));
    let unordered = [writes(), vec![list((20, 80), vec![state("b", "v", 2, 1), state("a", "u", 3, 2)])]].concat();
    assert_broken("a list is in order", unordered);
}
