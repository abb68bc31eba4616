//! References, moves and imports.

use crate::*;

const DANGLES: &str = "no reference dangles";
const CLEARED: &str = "a reference is cleared by a deletion";
const CAUSE: &str = "a resource goes by a deletion";
const REFUSED: &str = "a deletion is refused for a reference";
const KEEPS: &str = "a move keeps the content";

fn named(kind: &str, name: &str) -> Key {
    Key { kind: kind.into(), ..key(name) }
}

fn node(name: &str, uid: &str, version: u64, references: &[(OnDelete, &str)]) -> State {
    let references =
        references.iter().map(|(on_delete, to)| Reference { on_delete: *on_delete, target: named(NODE, to) }).collect();
    State { key: named(NODE, name), references, ..state(name, uid, version, version) }
}

fn put(span: (u64, u64), version: Option<u64>, stored: State) -> Entry {
    let request = Call::Write {
        key: stored.key.clone(),
        uid: String::new(),
        version,
        content: stored.content.clone(),
        owner: None,
        releases: false,
        references: stored.references.clone(),
    };
    call(span.0, span.1, request, Answer::Stored(stored))
}

fn delete_node(span: (u64, u64), name: &str, answer: Answer) -> Entry {
    call(span.0, span.1, Call::Delete { key: named(NODE, name), uid: String::new(), version: None }, answer)
}

fn seen(span: (u64, u64), name: &str, found: Option<State>) -> Entry {
    let answer = found.map_or(Answer::Absent, Answer::Stored);
    let request = Call::Read { key: named(NODE, name), uid: String::new(), is_consistent: true };
    call(span.0, span.1, request, answer)
}

fn listed(span: (u64, u64), states: Vec<State>) -> Entry {
    let scope = Scope { kind: NODE.into(), namespace: None, name: None };
    call(span.0, span.1, Call::List { scope, is_consistent: true }, Answer::Found(states))
}

fn two(on_delete: OnDelete) -> Vec<Entry> {
    vec![put((10, 20), None, node("a", "u", 1, &[])), put((30, 40), None, node("b", "v", 2, &[(on_delete, "a")]))]
}

#[test]
fn no_reference_dangles_in_a_list() {
    let start = || two(OnDelete::Block);
    let b = || node("b", "v", 2, &[(OnDelete::Block, "a")]);
    assert_clean([start(), vec![listed((50, 60), vec![node("a", "u", 1, &[]), b()])]].concat());
    let gone = vec![delete_node((41, 45), "a", Answer::Done), listed((50, 60), vec![b()])];
    assert_broken(DANGLES, [start(), gone].concat());
    let ended = History {
        ending: Some(vec![b()]),
        ..history([start(), vec![delete_node((41, 45), "a", Answer::Done)]].concat())
    };
    assert!(rules(&ended).contains(&DANGLES.to_owned()));
}

#[test]
fn a_deletion_takes_along_what_cascades_and_nothing_else() {
    let gone = || vec![delete_node((50, 60), "a", Answer::Done), seen((70, 80), "b", None)];
    assert_clean([two(OnDelete::Cascade), gone()].concat());
    assert_clean([two(OnDelete::LaterCascade), gone()].concat());
    assert_broken(CAUSE, [two(OnDelete::Unset), gone()].concat());
    assert_broken(CAUSE, [two(OnDelete::Cascade), vec![seen((70, 80), "b", None)]].concat());
    // Along a chain, too.
    let third = || put((45, 49), None, node("c", "w", 3, &[(OnDelete::Cascade, "b")]));
    let chain = vec![third(), delete_node((50, 60), "a", Answer::Done), seen((70, 80), "c", None)];
    assert_clean([two(OnDelete::Cascade), chain].concat());
}

#[test]
fn a_reference_is_cleared_only_with_its_target() {
    let cleared = || State { references: vec![], version: 3, digest: 3, ..node("b", "v", 2, &[]) };
    let and = |on_delete, more: Vec<Entry>| [two(on_delete), more, vec![seen((70, 80), "b", Some(cleared()))]].concat();
    let deleted = || vec![delete_node((50, 60), "a", Answer::Done)];
    assert_clean(and(OnDelete::Unset, deleted()));
    assert_broken(CLEARED, and(OnDelete::Unset, vec![]));
    assert_broken(CLEARED, and(OnDelete::Cascade, deleted()));
    let grown = State { references: node("b", "v", 2, &[(OnDelete::Unset, "a")]).references, ..cleared() };
    let start = vec![put((10, 20), None, node("b", "v", 2, &[])), seen((30, 40), "b", Some(grown))];
    assert_broken(CLEARED, start);
}

#[test]
fn a_refused_deletion_has_a_reference() {
    let refused = |begun| {
        let text = "it cannot be deleted: data.blocked_by of b refers to it".to_owned();
        delete_node((begun, begun + 5), "a", Answer::Refused { code: "FailedPrecondition".into(), text })
    };
    assert_clean([two(OnDelete::Block), vec![refused(50)]].concat());
    assert_broken(REFUSED, [two(OnDelete::Unset), vec![refused(50)]].concat());
    assert_broken(REFUSED, [two(OnDelete::Block), vec![refused(22)]].concat());
    let freed =
        || vec![put((41, 44), Some(2), node("b", "v", 3, &[])), seen((45, 46), "b", Some(node("b", "v", 3, &[])))];
    assert_broken(REFUSED, [two(OnDelete::Block), freed(), vec![refused(50)]].concat());
    // A resource that goes along may be blocked, too.
    let beyond = || put((45, 49), None, node("c", "w", 3, &[(OnDelete::Block, "b")]));
    assert_clean([two(OnDelete::Cascade), vec![beyond(), refused(50)]].concat());
}

#[test]
fn a_refused_reference_lacks_its_target() {
    let refused = || {
        let references = node("b", "v", 2, &[(OnDelete::Unset, "a")]).references;
        let request = Call::Write {
            key: named(NODE, "b"),
            uid: String::new(),
            version: None,
            content: "c2".into(),
            owner: None,
            releases: false,
            references,
        };
        let text = "data.unset_by[0] refers to a, which does not exist; create it first".into();
        call(30, 40, request, Answer::Refused { code: "FailedPrecondition".into(), text })
    };
    let start = || put((10, 20), None, node("a", "u", 1, &[]));
    assert_clean(vec![start(), delete_node((21, 35), "a", Answer::Done), refused()]);
    assert_broken(
        "a call shows the newest state",
        vec![start(), refused(), seen((41, 45), "a", Some(node("a", "u", 1, &[])))],
    );
}

fn moved(span: (u64, u64), version: Option<u64>, made: State) -> Entry {
    let (from, to) = (named(NODE, &made.key.name), made.key.clone());
    call(span.0, span.1, Call::Move { from, version, to }, Answer::Stored(made))
}

fn draft(uid: &str, version: u64, text: u64, references: &[(OnDelete, &str)]) -> State {
    let made = node("a", uid, version, references);
    State { key: named(DRAFT, "a"), content: format!("c{text}~"), ..made }
}

#[test]
fn a_move_ends_the_moved_resource_and_keeps_its_content() {
    let start = || vec![put((10, 20), None, node("a", "u", 1, &[]))];
    assert_clean([start(), vec![moved((30, 40), Some(1), draft("v", 2, 1, &[])), seen((50, 60), "a", None)]].concat());
    assert_clean([start(), vec![moved((30, 40), None, draft("v", 2, 1, &[]))]].concat());
    let of = |version, made| [start(), vec![moved((30, 40), version, made)]].concat();
    assert_broken(KEEPS, of(None, draft("v", 2, 7, &[])));
    assert_broken(KEEPS, of(Some(1), draft("v", 2, 1, &[(OnDelete::Unset, "b")])));
    let later = vec![moved((30, 40), None, draft("v", 2, 1, &[])), seen((50, 60), "a", Some(node("a", "u", 1, &[])))];
    assert_broken("a call shows the newest state", [start(), later].concat());
    let again = vec![moved((30, 40), None, draft("v", 2, 1, &[])), seen((50, 60), "a", Some(node("a", "u", 3, &[])))];
    assert_broken("a move ends the moved resource", [start(), again].concat());
    let second = || put((21, 25), Some(1), node("a", "u", 2, &[]));
    assert_broken(
        "compare-and-swap",
        [start(), vec![second(), moved((30, 40), Some(1), draft("v", 3, 2, &[]))]].concat(),
    );
}

#[test]
fn moves_and_imports_make_new_resources() {
    let import = |span: (u64, u64), answer| {
        call(span.0, span.1, Call::Import { key: named(NODE, "a"), content: "c2".into() }, answer)
    };
    let made = |uid| Answer::Stored(node("a", uid, 2, &[]));
    assert_clean(vec![import((10, 20), made("u"))]);
    let first = || put((1, 5), None, node("a", "u", 1, &[]));
    assert_broken("an import makes a new resource", vec![first(), import((10, 20), made("u"))]);
    let exists = || Answer::Refused { code: "AlreadyExists".into(), text: String::new() };
    assert_clean(vec![first(), import((10, 20), exists())]);
    assert_broken(
        "a call shows the newest state",
        vec![import((10, 20), exists()), put((30, 40), None, node("a", "u", 1, &[]))],
    );
    let start = || vec![put((1, 5), None, node("a", "u", 1, &[])), put((6, 8), None, draft("v", 2, 9, &[]))];
    assert_broken(
        "a move makes a new resource",
        [start(), vec![moved((10, 20), None, draft("v", 3, 1, &[]))]].concat(),
    );
}

#[test]
fn a_client_that_comes_back_is_reset_and_a_watch_says_that_it_ends() {
    let stream = |is_resumed, is_hard_reset, end| {
        let first = Message { received: 5, changes: vec![], is_current: true, is_soft_reset: false, is_hard_reset };
        let mut stream = Stream {
            watch: "w".into(),
            mode: Mode::List,
            scope: scope(),
            begun: 1,
            is_resumed,
            is_complete: false,
            messages: vec![first],
            end,
        };
        stream.messages.truncate(usize::from(is_resumed));
        vec![Entry::Stream(stream)]
    };
    assert_clean(stream(true, true, End::Announced));
    assert_broken("a client that comes back is reset", stream(true, false, End::Open));
    assert_clean(stream(false, false, End::Open));
    assert_broken("a watch says that it ends", stream(false, false, End::Silent));
}
