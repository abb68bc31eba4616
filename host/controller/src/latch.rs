//! Something that happens once, and for which many may wait: the end of a run, the end of its priming.

use std::sync::Arc;

use tokio::sync::watch;

/// Fires once. Cheap to clone; clones fire together.
#[derive(Debug, Clone)]
pub(crate) struct Latch(Arc<watch::Sender<bool>>);

impl Latch {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }

    pub(crate) fn fire(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_fired(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it fires; at once if it has.
    pub(crate) async fn fired(&self) {
        // An error means that the sender is gone, which this clone is.
        let _ = self.0.subscribe().wait_for(|fired| *fired).await;
    }
}
