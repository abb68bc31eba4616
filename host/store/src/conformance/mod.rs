//! Tests of the guarantees of [`backend`](crate::backend) that every [`Backend`](crate::Backend) passes.
//!
//! [`conformance_tests!`](crate::conformance_tests) makes a test of each case. Its argument makes a fresh, empty store:
//! a closure that returns a value that dereferences to a backend, such as an `Arc` of it; `None` skips the case. The
//! store must
//! - end a watch that is more than [`WATCH_BUFFER`] events behind;
//! - refuse resources of more than [`MAX_RESOURCE_BYTES`];
//! - have the [`QUOTAS`].
//!
//! ```ignore
//! mod conformance {
//!     mortise_store::conformance_tests!(|| Some(super::fresh()));
//! }
//! ```
//!
//! Versions are opaque to these tests. `conformance_tests!(…, of a copy)` leaves out the case that needs a history from
//! before the first change: a copy of a shared store cannot tell whether there were changes before its own.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests; they panic to report"
)]

pub mod batch;
pub mod changes;
pub mod copies;
pub mod delete;
pub mod fixtures;
pub mod list;
pub mod order;
pub mod owner;
pub mod quota;
pub mod read;
pub mod referrers;
pub mod rewrite;
pub mod scan;
pub mod scan_part;
pub mod snapshot;
pub mod watch;
pub mod write;

pub use fixtures::{MAX_RESOURCE_BYTES, QUOTAS, WATCH_BUFFER};

/// Makes a test of every case of the suite; see [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($fresh:expr) => {
        $crate::conformance_tests! { $fresh, of a copy }
        $crate::conformance_tests! { @cases $fresh =>
            changes::each_change_comes_once_from_any_start,
        }
    };
    ($fresh:expr, of a copy) => {
        $crate::conformance_tests! { @cases $fresh =>
            read::absent_is_not_found,
            read::empty_uid_matches_any_incarnation,
            read::another_uid_is_not_found,
            read::another_group_version_returns_the_stored_resource,
            read::uid_is_judged_before_group_version,
            read::every_acknowledged_write_is_shown,
            write::creation_needs_an_empty_version,
            write::creation_over_a_stored_resource_fails,
            write::update_needs_the_stored_version,
            write::every_commit_has_another_version,
            write::versions_never_return,
            write::uid_is_judged_before_version,
            write::another_incarnation_can_follow_a_deletion,
            write::group_version_is_overwritten_in_either_direction,
            write::every_field_comes_back,
            write::large_resources_come_back_whole,
            write::incomplete_ids_are_refused,
            write::too_large_is_refused,
            write::an_owner_that_no_key_can_hold_is_refused,
            write::one_of_many_racing_writers_wins,
            delete::deletes,
            delete::absent_succeeds,
            delete::another_uid_has_no_effect,
            delete::another_version_fails,
            delete::group_version_is_ignored,
            batch::results_stand_in_order,
            batch::all_or_nothing,
            batch::later_mutations_see_earlier_ones,
            batch::failures_name_the_mutation,
            batch::expectations_of_existence,
            batch::expectations_of_an_incarnation,
            batch::expectations_of_a_generation,
            batch::expectations_see_other_batches,
            batch::each_change_is_one_event,
            batch::nothing_to_do_is_no_event,
            rewrite::changes_the_content_and_nothing_else,
            rewrite::another_version_or_uid_has_no_effect,
            rewrite::is_no_event,
            rewrite::is_all_or_nothing_with_its_batch,
            rewrite::large_and_small_take_each_other_s_place,
            rewrite::readers_see_one_form_or_the_other,
            quota::resources_are_taken_to_the_limit,
            quota::bytes_are_taken_to_the_limit,
            quota::the_net_effect_of_a_batch_counts,
            quota::a_refused_batch_changes_nothing,
            quota::resources_over_the_limit_may_stay_shrink_and_go,
            quota::racing_writers_share_the_rest,
            quota::usage_equals_the_content,
            list::the_seed,
            list::byte_order,
            list::wildcards_reach_every_unit,
            list::empty_units_are_units,
            list::thousands,
            list::follows_writes,
            list::types_with_resources_are_listed,
            owner::exactly_this_incarnation,
            owner::children_of_every_type_and_tenancy,
            owner::survives_the_deletion_of_the_owner,
            owner::goes_with_the_child,
            owner::updates_keep_the_child,
            owner::follows_a_change_of_owner,
            referrers::are_found_by_behaviour,
            referrers::follow_each_write,
            referrers::that_were_not_seen_fail_a_batch,
            referrers::of_other_batches_are_seen,
            referrers::a_mark_is_expected_not_to_be_there,
            watch::snapshot_then_end_then_changes,
            watch::an_empty_snapshot_ends_too,
            watch::deletion_carries_the_last_stored_resource,
            watch::exact_tenancy_and_prefix,
            watch::wildcards,
            watch::every_group_version,
            watch::another_group_version_is_a_deletion_and_an_upsert,
            watch::snapshot_is_no_older_than_the_call,
            watch::a_polled_watch_wakes_its_task,
            watch::watches_are_independent,
            watch::opened_under_load_nothing_is_missed_or_doubled,
            watch::a_slow_reader_gets_an_error,
            order::reads_are_not_older_than_events,
            order::reads_and_lists_never_go_back,
            order::children_are_seen_after_the_owner_s_deletion,
            order::lists_are_of_one_commit,
            changes::a_replay_continues_with_live_changes,
            changes::a_position_of_elsewhere_is_not_followed,
            scan_part::by_label_returns_matches_in_order,
            scan_part::by_label_shows_one_commit,
            scan_part::labels_follow_each_write,
            scan_part::behind_a_place_is_the_rest,
            scan_part::the_version_is_in_meta_too,
            copies::equal_a_scan,
            copies::show_the_commit_of_the_opening,
            copies::of_a_call_that_is_given_up_are_not_lost,
            scan::of_nothing_ends_at_once,
            scan::equals_a_list,
            scan::shows_the_commit_of_its_opening,
            scan::pages_are_bounded_in_bytes,
            scan::a_call_that_is_given_up_loses_nothing,
            scan::pages_are_of_one_commit_under_load,
            scan::a_kept_content_is_exact,
            scan::of_an_owner_gives_its_children_in_order,
            scan::of_an_owner_shows_one_commit,
            scan::of_an_owner_has_bounded_pages,
            snapshot::of_nothing,
            snapshot::is_everything,
            snapshot::excludes_later_changes,
            snapshot::is_of_one_commit_under_load,
            snapshot::an_idle_snapshot_blocks_no_writer,
        }
    };
    (@cases $fresh:expr => $($module:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(store) = ($fresh)() else { return };
                $crate::conformance::$module::$case(&*store).await;
            }
        )+
    };
}
