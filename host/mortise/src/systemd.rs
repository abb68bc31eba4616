//! What systemd hears of the server, when it was started by it (`Type=notify`): that it is ready, what it does, that it
//! stops, and, as often as the watchdog wants, that its threads still get round to things.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing happens. A socket without a listener is no reason not to serve.

use std::{net::SocketAddr, time::Duration};

use sd_notify::NotifyState;
use tokio::task::JoinHandle;

/// The server answers.
pub(crate) fn ready(grpc: SocketAddr, http: SocketAddr) {
    let status = format!("serving: grpc={grpc} http={http}");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The store is being opened, which may take a while after a crash.
pub(crate) fn opening() {
    tell(&[NotifyState::Status("opening the store")]);
}

/// A signal came: calls in flight finish.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping: calls in flight finish")]);
}

/// Pings the watchdog twice as often as it asks for, from a task of the runtime: threads that are all stuck do not.
/// `None` when there is no watchdog. Ends with the runtime.
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
