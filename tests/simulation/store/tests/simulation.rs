//! Courses of the store under shuttle; each prints its seed.

use mortise_simulation_store::{commits, explore::explore, hubs, queue};

#[test]
fn the_commit_queue_loses_and_repeats_nothing() {
    explore("queue", 4_000, queue::run);
}

#[test]
fn a_hub_gives_each_reader_every_event_and_keeps_none() {
    explore("hubs", 4_000, hubs::run);
}

#[test]
fn watches_scans_and_writers_see_the_commits_in_one_order() {
    explore("commits", 1_500, commits::run);
}
