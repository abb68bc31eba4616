//! Signals of the process, from the start on.
//!
//! | signal | effect |
//! |---|---|
//! | TERM, INT | stops the server; a second one ends the process at once |
//! | HUP | reads settings and files again ([`reload`](crate::reload)); stops `mortise dev`, since a closing terminal sends it |
//! | USR1, USR2 | none; by default they would end the process |

use std::{io, sync::Arc};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{logging::Log, server_flags::Mode, systemd};

/// Exit code of a process that a second signal ends.
const EXIT_INTERRUPTED: i32 = 130;

/// The received signals. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Signals {
    stop: watch::Receiver<bool>,
    reload: Arc<Notify>,
}

/// The handlers.
struct Handlers {
    term: Signal,
    int: Signal,
    /// `None` if the signal stays ignored.
    hangup: Option<Signal>,
    user: [Signal; 2],
}

impl Signals {
    /// Takes over the signals for the rest of the process. Returns the task that waits for them, too. `mortise dev`
    /// goes on ignoring SIGHUP if it was started so, as by `nohup`.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn listen(mode: Mode, log: Log) -> io::Result<(Self, JoinHandle<()>)> {
        let handlers = Handlers {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hangup: match mode == Mode::Dev && ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
            user: [signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?],
        };
        let (stopping, stop) = watch::channel(false);
        let reload = Arc::<Notify>::default();
        let receiving = tokio::spawn(handlers.receive(mode, log, stopping, reload.clone()));
        Ok((Self { stop, reload }, receiving))
    }

    /// Resolves once the server has to stop.
    pub(crate) async fn stop(&self) {
        // An error means that the task has panicked, which stops the server, too.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }

    /// Whether the server has to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Resolves after a SIGHUP. Several signals before the next call count as one.
    pub(crate) async fn reload(&self) {
        self.reload.notified().await;
    }
}

impl Handlers {
    /// Receives signals for ever.
    async fn receive(mut self, mode: Mode, log: Log, stopping: watch::Sender<bool>, reload: Arc<Notify>) {
        let [user_1, user_2] = &mut self.user;
        loop {
            let name = tokio::select! {
                _ = self.term.recv() => "SIGTERM",
                _ = self.int.recv() => "SIGINT",
                () = received(&mut self.hangup) => "SIGHUP",
                _ = user_1.recv() => "SIGUSR1",
                _ = user_2.recv() => "SIGUSR2",
            };
            // Not within the match, which would hold the value's lock until its end.
            let is_stopping = *stopping.borrow();
            match (name, is_stopping) {
                ("SIGUSR1" | "SIGUSR2", _) => tracing::debug!("{name} has no effect"),
                ("SIGHUP", true) => tracing::debug!("{name} has no effect on a server that stops"),
                ("SIGHUP", false) if mode != Mode::Dev => reload.notify_one(),
                (_, false) => {
                    tracing::info!("{name}: stopping; a second signal stops at once");
                    systemd::stopping();
                    stopping.send_replace(true);
                }
                (_, true) => {
                    tracing::warn!("second signal: stopped at once");
                    log.flush();
                    std::process::exit(EXIT_INTERRUPTED);
                }
            }
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether the process was started with SIGHUP ignored, as far as the system reports it.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
