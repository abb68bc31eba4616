//! The times of the service that are not settings.

use std::time::Duration;

/// Longest wait of a write of a token or a policy until it is in effect.
pub(crate) const ACCESS_SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait before the ended watch of tokens and policies is opened again.
pub(crate) const ACCESS_RESTART_WAIT: Duration = Duration::from_millis(100);
/// Wait before a failed background task starts again.
pub(crate) const TASK_RESTART_WAIT: Duration = Duration::from_millis(500);

/// Time between the resume tokens of a watch without a change.
pub(crate) const BOOKMARK_INTERVAL: Duration = Duration::from_secs(30);
/// Shortest time between two reads of a watched page.
pub(crate) const MIN_PAGE_READ_INTERVAL: Duration = Duration::from_millis(1);
/// Longest wait of a query for an index in construction.
pub(crate) const INDEX_BUILD_WAIT: Duration = Duration::from_millis(100);
/// Longest time without look-ups before the indexes of a type are dropped.
pub(crate) const INDEX_IDLE_TIME: Duration = Duration::from_secs(3_600);
/// Pause after the indexes of a type have exceeded their bytes.
pub(crate) const INDEX_OVERFLOW_PAUSE: Duration = Duration::from_secs(600);

/// Longest time without a page before the content that was kept for a search is dropped.
pub(crate) const KEPT_IDLE_TIME: Duration = Duration::from_secs(60);
/// Longest time for which a content is kept for a search.
pub(crate) const KEPT_TIME: Duration = Duration::from_secs(900);
/// Time between two looks for such contents.
pub(crate) const KEPT_SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Longest time that a resume token of replication without a change is kept in memory only.
pub(crate) const TOKEN_STORE_INTERVAL: Duration = Duration::from_secs(600);
/// Longest wait after a page of a refresh of regions.
pub(crate) const MAX_REFRESH_WAIT: Duration = Duration::from_secs(1);
/// Time between two checks for types that were registered again, which refresh the regions.
pub(crate) const TYPE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Wait before the next look at a marked resource that the work of others holds.
pub(crate) const HELD_RESOURCE_WAIT: Duration = Duration::from_secs(2);
/// Wait before the next look at a marked resource after a concurrent change.
pub(crate) const CHANGED_RESOURCE_WAIT: Duration = Duration::from_millis(50);
/// First and longest wait between passes over a tenancy unit that is not empty yet.
pub(crate) const EMPTYING_WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
