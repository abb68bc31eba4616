//! Reads the files again when they change.
//!
//! Certificate and key are two files, so a change is applied only after two checks in a row have seen the same files.
//! Files that do not fit together then are rejected, and the active configuration stays. [`TlsFiles::reload`] does not
//! wait for a second check.

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

/// Handle to read the files of TLS at once.
pub struct TlsFiles(pub(crate) Arc<Tls>);

/// Outcome of a look at the files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsReload {
    /// They are in service already.
    Unchanged,
    /// They have changed, and are in service.
    Loaded,
    /// They are faulty, so the earlier ones stay in service. The log has this fault, too.
    Refused(String),
}

impl TlsReload {
    /// Returns whether the files as they are now are in service.
    pub(crate) fn is_in_service(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

impl TlsFiles {
    /// Reads the files again if they have changed, or if they were refused.
    pub async fn reload(&self) -> TlsReload {
        let options = self.0.options.clone();
        match spawn_blocking(move || Stamps::of(&options)).await {
            Ok(now) => self.0.reload(now, true).await,
            Err(_) => TlsReload::Unchanged,
        }
    }
}

/// The state of the watched files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// Unchanged since they were last read.
    Judged(Stamps),
    /// Changed since they were last read; `seen` is their state at the last check.
    Changed { judged: Stamps, seen: Stamps },
}

impl FileState {
    /// The state after a check, and whether the files have to be read now.
    pub(crate) fn next(self, now: Stamps) -> (Self, bool) {
        match self {
            Self::Judged(judged) | Self::Changed { judged, .. } if judged == now => (Self::Judged(judged), false),
            Self::Changed { seen, .. } if seen == now => (Self::Judged(now), true),
            Self::Judged(judged) | Self::Changed { judged, .. } => (Self::Changed { judged, seen: now }, false),
        }
    }
}

impl Tls {
    /// Watches the files for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut every = interval(self.options.rescan);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut expiry = ExpiryMonitor::default();
        let mut watched = FileState::Judged(self.last_read.lock().stamps);
        loop {
            every.tick().await;
            expiry.check(&self.configs.load().expiring);
            let options = self.options.clone();
            // The task does not panic; if it did, the next check would follow.
            let Ok(now) = spawn_blocking(move || Stamps::of(&options)).await else { continue };
            let judge;
            (watched, judge) = watched.next(now);
            // A reload at a signal may have come first.
            if judge && self.reload(now, false).await.is_in_service() {
                expiry = ExpiryMonitor::default();
                expiry.check(&self.configs.load().expiring);
            }
        }
    }

    /// Reads files with these stamps and activates them, unless they were read before. With `again`, refused ones are
    /// read once more.
    async fn reload(&self, now: Stamps, again: bool) -> TlsReload {
        let before = std::mem::replace(&mut self.last_read.lock().stamps, now);
        if before == now && !(again && self.last_read.lock().refused) {
            return TlsReload::Unchanged;
        }
        let read = read(&self.options).await;
        self.last_read.lock().refused = read.is_err();
        let outcome = if read.is_ok() { "loaded" } else { "refused" };
        metrics::counter!("mortise_tls_reloads_total", "outcome" => outcome).increment(1);
        match read {
            Ok((_, configs)) => {
                configs.log_certificate("TLS: the changed files are in service");
                self.configs.store(Arc::new(configs));
                TlsReload::Loaded
            }
            Err(e) => {
                tracing::error!(
                    "TLS: the changed files are refused, and the files that were read before stay in service: {e}"
                );
                TlsReload::Refused(e.to_string())
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
