//! Rings in a graph of uses.

use std::collections::{BTreeMap, BTreeSet};

/// Finds the sets of at least `least` members that all reach each other. Lists each as its members and the uses among
/// them.
pub(super) fn rings(uses: &BTreeSet<(String, String)>, least: usize) -> Vec<String> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (user, used) in uses {
        next.entry(user).or_default().push(used);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|from| (*from, reached(&next, from))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|reached| reached.contains(to));
    let ring_of =
        |from: &&str| -> BTreeSet<&str> { reached[from].iter().copied().filter(|to| reaches(to, from)).collect() };
    let rings: BTreeSet<BTreeSet<&str>> = reached.keys().map(ring_of).filter(|ring| ring.len() >= least).collect();
    let listed = |ring: &BTreeSet<&str>| {
        let within = uses.iter().filter(|(user, used)| ring.contains(&**user) && ring.contains(&**used));
        let within: Vec<String> = within.map(|(user, used)| format!("{user} -> {used}")).collect();
        format!("ring of {}: {}", ring.len(), within.join(", "))
    };
    rings.iter().map(listed).collect()
}

fn reached<'a>(next: &BTreeMap<&'a str, Vec<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        waiting.extend(next.get(at).into_iter().flatten().copied().filter(|step| reached.insert(*step)));
    }
    reached
}
