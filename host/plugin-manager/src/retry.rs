//! Pauses between the attempts of a load that fails for a fault that may pass, such as a full disk. Each is twice as
//! long as the one before.

use std::time::Duration;

use mortise_resource::backoff::Backoff;

/// Pause before the first further attempt.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between attempts.
pub(crate) const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Pause before a further attempt, after this number of earlier ones.
pub(crate) fn retry_pause(attempts: u32) -> Duration {
    Backoff::new(RETRY_PAUSE, MAX_RETRY_PAUSE).delay(attempts)
}
