//! Messages to systemd, when it started the server (`Type=notify`): ready, status, stopping, and, as often as the
//! watchdog wants, that the threads still do their work.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent. A socket without a listener does not keep the server
//! from serving.

use std::{net::SocketAddr, time::Duration};

use sd_notify::NotifyState;
use tokio::task::JoinHandle;

/// Reports that the server answers.
pub(crate) fn ready(grpc: SocketAddr, http: SocketAddr) {
    let status = format!("serving: grpc={grpc} http={http}");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the store is being opened, which may take a while after a crash.
pub(crate) fn opening() {
    tell(&[NotifyState::Status("opening the store")]);
}

/// Reports that a signal came: calls in flight finish.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping: calls in flight finish")]);
}

/// Pings the watchdog twice as often as it asks for, from a task of the runtime: if all threads are stuck, the pings
/// stop. `None` without a watchdog. Ends with the runtime.
pub(crate) fn watchdog() -> Option<JoinHandle<()>> {
    let every = sd_notify::watchdog_enabled()?.div_f64(2.0).max(Duration::from_millis(1));
    tracing::info!(?every, "systemd's watchdog gets pings");
    Some(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Another task, so that the threads have to pass work on to each other.
            let ping = tokio::spawn(async { tell(&[NotifyState::Watchdog]) });
            if ping.await.is_err() {
                return;
            }
        }
    }))
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(state) {
        tracing::warn!("cannot notify systemd ({state:?}): {e}");
    }
}
