//! Messages to systemd, when it started the server (`Type=notify-reload`): ready, status, reloading, stopping, and, as
//! often as the watchdog wants, that the threads still do their work.
//!
//! `NOTIFY_SOCKET` names the socket: a path, or, after an `@`, a name in Linux's abstract namespace. Without the
//! variable nothing is sent. A socket without a listener, or without room for a second, does not keep the server from
//! serving.

use std::{
    ffi::OsStr,
    io,
    net::SocketAddr,
    os::unix::{
        ffi::OsStrExt as _,
        net::{SocketAddr as SocketName, UnixDatagram},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;

/// Longest wait for room in the socket.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Reports that the server answers.
pub(crate) fn ready(grpc: SocketAddr, http: SocketAddr) {
    tell(&format!("READY=1\nSTATUS=serving: grpc={grpc} http={http}"));
}

/// Reports that the store is being opened, which may take a while after a crash.
pub(crate) fn opening() {
    tell("STATUS=opening the store");
}

/// Reports that settings and files are read again, with the time by which systemd tells this reload from earlier ones.
pub(crate) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
}

/// Reports the end of a reload.
pub(crate) fn reloaded() {
    tell("READY=1");
}

/// Reports that a signal came: calls in flight finish.
pub(crate) fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping: calls in flight finish");
}

/// Pings the watchdog twice as often as it asks for, from a task of the runtime: if all threads are stuck, the pings
/// stop. `None` without a watchdog. Ends with the runtime.
pub(crate) fn watchdog() -> Option<JoinHandle<()>> {
    let every = watchdog_limit(|name| std::env::var(name).ok())?.div_f64(2.0).max(Duration::from_millis(1));
    tracing::info!(?every, "systemd's watchdog gets pings");
    Some(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Another task, so that the threads have to pass work on to each other.
            let ping = tokio::spawn(async { tell("WATCHDOG=1") });
            if ping.await.is_err() {
                return;
            }
        }
    }))
}

/// Time after which systemd restarts a silent server; `None` if it watches no server, or another process.
fn watchdog_limit(env: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let process = env("WATCHDOG_PID");
    if process.is_some_and(|process| process.parse() != Ok(std::process::id())) {
        return None;
    }
    let limit = env("WATCHDOG_USEC")?.parse().ok().filter(|limit| *limit > 0)?;
    Some(Duration::from_micros(limit))
}

fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(e) = send(&name, state) {
        tracing::warn!("cannot notify systemd ({state:?}): {e}");
    }
}

/// Sends a message to a socket.
fn send(name: &OsStr, message: &str) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            SocketName::from_abstract_name(name)?
        }
        _ => SocketName::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(ROOM_WAIT))?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_watches_this_process_alone() {
        let own = std::process::id().to_string();
        for (process, limit, expected) in [
            (None, Some("2000000"), Some(Duration::from_secs(2))),
            (Some(own.as_str()), Some("2000000"), Some(Duration::from_secs(2))),
            (Some("1"), Some("2000000"), None),
            (Some("x"), Some("2000000"), None),
            (None, Some("0"), None),
            (None, Some("much"), None),
            (None, None, None),
        ] {
            let env = |name: &str| if name == "WATCHDOG_PID" { process } else { limit }.map(str::to_owned);
            assert_eq!(watchdog_limit(env), expected, "{process:?} {limit:?}");
        }
    }
}
