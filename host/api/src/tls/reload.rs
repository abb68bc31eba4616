//! Reads the files again when they change.
//!
//! Certificate and key are two files, so a change is judged once nothing has changed from one look to the next. What
//! does not fit then is refused, and the configuration in service stays.

use std::sync::Arc;

use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    current::{Tls, read},
    expiry::ExpiryMonitor,
    stamps::Stamps,
};

/// What the files are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    /// As they were when they were judged.
    Judged(Stamps),
    /// Changed since, and seen so once.
    Changed { judged: Stamps, seen: Stamps },
}

impl FileState {
    /// The state after a look, and whether the files are to be judged now.
    fn next(self, now: Stamps) -> (Self, bool) {
        match self {
            Self::Judged(judged) | Self::Changed { judged, .. } if judged == now => (Self::Judged(judged), false),
            Self::Changed { seen, .. } if seen == now => (Self::Judged(now), true),
            Self::Judged(judged) | Self::Changed { judged, .. } => (Self::Changed { judged, seen: now }, false),
        }
    }
}

impl Tls {
    /// Follows the files, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut every = interval(self.options.rescan);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut expiry = ExpiryMonitor::default();
        let mut watched = FileState::Judged(self.read_at);
        loop {
            every.tick().await;
            expiry.check(&self.configs.load().expiring);
            let options = self.options.clone();
            // It does not panic; if it did, the next look would come.
            let Ok(now) = spawn_blocking(move || Stamps::of(&options)).await else { continue };
            let judge;
            (watched, judge) = watched.next(now);
            if judge && self.reload().await {
                expiry = ExpiryMonitor::default();
                expiry.check(&self.configs.load().expiring);
            }
        }
    }

    /// Puts in service what the files hold now, and says whether that was possible.
    async fn reload(&self) -> bool {
        let read = read(&self.options).await;
        let outcome = if read.is_ok() { "loaded" } else { "refused" };
        metrics::counter!("mortise_tls_reloads_total", "outcome" => outcome).increment(1);
        match read {
            Ok((_, configs)) => {
                configs.log_certificate("TLS: the files have changed and are in service");
                self.configs.store(Arc::new(configs));
                true
            }
            Err(e) => {
                tracing::error!(
                    "TLS: the files have changed and are refused; what was read before stays in service: {e}"
                );
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_once_and_when_it_has_settled() {
        let [a, b, c] = [1, 2, 3].map(Stamps::numbered);
        let mut watched = FileState::Judged(a);
        for (now, judged) in [
            (a, false),
            (b, false),
            // Still being written.
            (c, false),
            (c, true),
            (c, false),
            // Changed and changed back.
            (b, false),
            (c, false),
            (c, false),
            (a, false),
            (a, true),
        ] {
            let judge;
            (watched, judge) = watched.next(now);
            assert_eq!(judge, judged, "{now:?}: {watched:?}");
        }
    }
}
