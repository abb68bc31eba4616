//! Keeps a watch open: one that ends (it lagged, the plugin is gone, the store fails) is opened again after a wait.

use std::time::Duration;

use mortise_resource::{
    Code, Error,
    backoff::{Backoff, Waits},
};
use tokio::time::sleep;
use tracing::Span;

use crate::call::run_guarded;

/// First and longest wait before a watch is opened again.
const MIN_REOPEN_WAIT: Duration = Duration::from_millis(50);
const MAX_REOPEN_WAIT: Duration = Duration::from_secs(5);

/// A watch that is opened again.
pub(super) trait Reopened: Send + Sync {
    /// Opens the watch and follows it until its end, which is always an error. Resets the waits after each state.
    fn follow(&self, waits: &mut Waits) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether a state was known before.
    fn is_known(&self) -> bool;

    /// Ends the streams of the watch, which is not opened again.
    fn fail(&self, error: &Error);

    /// Name of the watch for the log.
    fn describe(&self) -> String;
}

/// Follows a watch until it fails while its state is still unknown, or until the caller loses the permission.
pub(super) async fn keep_open(watch: impl Reopened) {
    let mut waits = Waits::new(Backoff::new(MIN_REOPEN_WAIT, MAX_REOPEN_WAIT).with_jitter(0.25));
    loop {
        let following = Box::pin(watch.follow(&mut waits));
        let Err(error) = run_guarded(Span::none(), following).await else { continue };
        let forbidden = matches!(error.code, Code::PermissionDenied | Code::Unauthenticated);
        if forbidden || (!watch.is_known() && error.code != Code::Aborted) {
            watch.fail(&error);
            return;
        }
        let wait = waits.next_wait();
        tracing::debug!(%error, ?wait, "the watch of {} ended and is opened again", watch.describe());
        sleep(wait).await;
    }
}
