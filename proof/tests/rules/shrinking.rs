//! The shrinking of a record.

use mortise_proof::shrink::shrink;

use crate::*;

#[test]
fn only_the_calls_that_break_the_promise_are_left() {
    let mut entries = Vec::new();
    for number in 1..400 {
        let begun = 100 * number;
        entries.push(write((begun, begun + 10), None, state("a", "u", number, number)));
        entries.push(read((begun + 20, begun + 30), "a", Some(state("a", "u", number, number))));
    }
    entries.push(read((50_000, 50_010), "a", Some(state("a", "u", 200, 200))));
    let whole = history(entries);
    let violation = judge(&whole).into_iter().next().unwrap();
    let small = shrink(&whole, &violation);
    assert!(judge(&small).contains(&violation), "{violation}");
    assert_eq!(small.entries.len(), 2, "{small:#?}");
}
