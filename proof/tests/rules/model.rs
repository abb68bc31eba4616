//! A second opinion: random short histories of one resource, compared with a search through all orders of the calls, in
//! the way of Wing and Gong.

use crate::*;

/// Content of a register: version, or 0 for absent.
type Content = u64;

/// A call on a register that only the search understands.
#[derive(Debug, Clone)]
struct Step {
    begun: u64,
    ended: u64,
    /// Version that a write made.
    makes: Option<Content>,
    /// Content that a read showed.
    shows: Option<Content>,
}

/// Whether the steps with rising versions are explained: the search must also keep the order of versions.
fn is_linearizable(steps: &[Step]) -> bool {
    // An order of writes against their versions is refused beforehand, as the server numbers its commits.
    let writes = || steps.iter().filter(|step| step.makes.is_some());
    let in_order =
        writes().all(|first| writes().all(|second| first.ended >= second.begun || first.makes < second.makes));
    in_order && explained(steps, 0, (1 << steps.len()) - 1)
}

fn explained(steps: &[Step], content: Content, left: u32) -> bool {
    if left == 0 {
        return true;
    }
    let is_left = |index: usize| left >> index & 1 == 1;
    let open = || (0..steps.len()).filter(|index| is_left(*index));
    let earliest = open().map(|index| steps[index].ended).min().unwrap();
    let next = open().filter_map(|index| steps[index].makes).min();
    open().any(|index| {
        let step = &steps[index];
        let rest = left & !(1 << index);
        step.begun <= earliest
            && match (step.makes, step.shows) {
                (Some(version), _) => Some(version) == next && explained(steps, version, rest),
                (None, shown) => shown == Some(content) && explained(steps, content, rest),
            }
    })
}

fn entry(step: &Step) -> Entry {
    match (step.makes, step.shows) {
        (Some(version), _) => write((step.begun, step.ended), None, state("a", "u", version, version)),
        (None, Some(0)) => read((step.begun, step.ended), "a", None),
        (None, shown) => {
            let version = shown.unwrap();
            read((step.begun, step.ended), "a", Some(state("a", "u", version, version)))
        }
    }
}

#[test]
fn the_rule_agrees_with_a_search_through_all_orders() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..20_000 {
        let writes = random.u64(1..4);
        let mut steps = Vec::new();
        for version in 1..=writes {
            let begun = random.u64(1..30);
            steps.push(Step { begun, ended: begun + random.u64(1..12), makes: Some(version), shows: None });
        }
        for _ in 0..random.usize(1..5) {
            let begun = random.u64(1..40);
            let shows = Some(random.u64(0..=writes));
            steps.push(Step { begun, ended: begun + random.u64(1..8), makes: None, shows });
        }
        let found = judge(&history(steps.iter().map(entry).collect()));
        let is_clean = found.is_empty();
        let expected = is_linearizable(&steps);
        assert_eq!(is_clean, expected, "{steps:?}: {found:?}");
        *(if expected { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 500 && wrong > 500, "{right} right, {wrong} wrong");
}
