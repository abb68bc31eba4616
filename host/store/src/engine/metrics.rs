//! Metrics of the engine; docs/metrics.md lists them. Reads update none.

use std::time::Duration;

use crate::{Quota, Quotas};

/// Counts a group of batches that is durable and published.
pub(crate) fn group(batches: usize, changes: usize, whole: Duration, history: u64) {
    metrics::counter!("mortise_store_commits_total").increment(batches as u64);
    metrics::counter!("mortise_store_changes_total").increment(changes as u64);
    metrics::histogram!("mortise_store_commit_group_size").record(batches as f64);
    metrics::histogram!("mortise_store_commit_seconds").record(whole);
    metrics::gauge!("mortise_store_history_events").set(history as f64);
}

/// Records the time of a sync.
pub(crate) fn synced(took: Duration) {
    metrics::histogram!("mortise_store_sync_seconds").record(took);
}

/// Records the time of a checkpoint.
pub(crate) fn checkpoint(took: Duration) {
    metrics::histogram!("mortise_store_checkpoint_seconds").record(took);
}

/// Counts a wait of writers for a checkpoint.
pub(crate) fn checkpoint_awaited() {
    metrics::counter!("mortise_store_checkpoint_waits_total").increment(1);
}

/// Counts a watch that ended because its reader was too slow.
pub(crate) fn watch_lagged() {
    metrics::counter!("mortise_store_watch_lagged_total").increment(1);
}

/// Counts an aborted scan: too much was overwritten ahead of it.
pub(crate) fn scan_aborted() {
    metrics::counter!("mortise_store_scans_aborted_total").increment(1);
}

/// Sets the use of the fullest tenancies: resources of one type, and bytes.
pub(crate) fn quotas(limits: Quotas, (resources, bytes): (u64, u64)) {
    for (quota, used, limit) in [(Quota::Resources, resources, limits.resources), (Quota::Bytes, bytes, limits.bytes)] {
        metrics::gauge!("mortise_quota_used_ratio", "quota" => quota.name()).set(used as f64 / limit.max(1) as f64);
    }
}

/// Notes that a thread panicked that must run as long as the store.
pub(crate) fn thread_failed(thread: &'static str) {
    metrics::gauge!("mortise_task_failed", "task" => format!("the {thread} thread of the store")).set(1.0);
}

/// Notes that the store refuses writes.
pub(crate) fn poisoned() {
    metrics::gauge!("mortise_store_poisoned").set(1.0);
}

/// Sets the bytes that are missing on the disk.
pub(crate) fn missing(bytes: u64) {
    metrics::gauge!("mortise_store_disk_shortfall_bytes").set(bytes as f64);
}

/// Counts scrubbed keys.
pub(crate) fn scrubbed(keys: u64) {
    metrics::counter!("mortise_store_scrubbed_total").increment(keys);
}

/// Notes that the store is damaged.
pub(crate) fn damaged() {
    metrics::gauge!("mortise_store_damaged").set(1.0);
}
