//! Tokens: their rights at calls and watches.

use crate::*;

const LAST: &str = "rights are those of the last change";
const ENDS: &str = "a watch ends with its rights";

fn change(begun: u64, ended: u64, allows: bool) -> Entry {
    Entry::Rights(RightsChange { token: "t".into(), begun, ended, allows })
}

fn used(begun: u64, ended: u64, is_allowed: bool) -> Entry {
    Entry::Use(TokenUse { token: "t".into(), begun, ended, is_allowed })
}

#[test]
fn a_call_shows_the_rights_between_its_begin_and_its_end() {
    let given = || vec![change(10, 20, true), change(40, 50, false)];
    let and = |more: Vec<Entry>| [given(), more].concat();
    assert_clean(and(vec![used(1, 5, false), used(21, 30, true), used(51, 60, false)]));
    // Meanwhile, both are right.
    assert_clean(and(vec![used(12, 30, true), used(15, 18, false), used(41, 60, true), used(42, 60, false)]));
    assert_broken(LAST, and(vec![used(1, 5, true)]));
    assert_broken(LAST, and(vec![used(21, 30, false)]));
    assert_broken(LAST, and(vec![used(51, 60, true)]));
}

#[test]
fn a_later_call_shows_no_earlier_rights() {
    let given = || vec![change(10, 20, true), change(40, 90, false)];
    assert_clean([given(), vec![used(41, 45, true), used(50, 60, false)]].concat());
    assert_broken(LAST, [given(), vec![used(41, 45, false), used(50, 60, true)]].concat());
}

#[test]
fn a_change_without_an_answer_is_done_or_not_until_the_next() {
    let given = || vec![change(10, 20, true), change(40, NEVER, false)];
    assert_clean([given(), vec![used(50, 60, true), used(70, 80, false)]].concat());
    assert_broken(LAST, [given(), vec![used(50, 60, false), used(70, 80, true)]].concat());
    let repeated = || [given(), vec![change(100, 110, false)]].concat();
    assert_clean([repeated(), vec![used(50, 60, true), used(111, 120, false)]].concat());
    // Until the repetition is in force, the first attempt may have had no effect.
    assert_clean([repeated(), vec![used(101, 105, true), used(106, 108, false)]].concat());
    assert_broken(LAST, [repeated(), vec![used(111, 120, true)]].concat());
}

#[test]
fn a_watch_shows_nothing_that_was_written_after_its_rights_had_gone() {
    let watch = |ended, states: Vec<State>| Entry::Held(TokenWatch { token: "t".into(), opened: 30, states, ended });
    let entries = |begun, ended, states| {
        let written = write((begun, begun + 5), None, state("a", "u", 1, 1));
        vec![change(10, 20, true), change(40, 50, false), written, watch(ended, states)]
    };
    let shown = || vec![state("a", "u", 1, 1)];
    assert_clean(entries(35, 70, shown()));
    assert_clean(entries(45, 70, shown()));
    assert_clean(entries(55, 70, vec![]));
    assert_broken(ENDS, entries(55, 70, shown()));
    assert_broken(ENDS, entries(55, NEVER, vec![]));
    // A watch of the time after belongs to later rights.
    let later = vec![
        change(10, 20, true),
        Entry::Held(TokenWatch { token: "t".into(), opened: 30, states: vec![], ended: NEVER }),
    ];
    assert_clean(later);
}
