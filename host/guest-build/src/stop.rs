//! Ends a running build, for example when the user interrupts `mortise plugin dev`.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Handle that ends a build: cargo with all processes that it started. Clones share one handle.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Process group of the running build.
    group: Option<Pid>,
}

impl StopHandle {
    /// Makes a handle that is not attached to a build yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the running build by SIGTERM, and prevents later ones.
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        if let Some(group) = state.group.take() {
            // The build may have ended by itself.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Runs a command like [`Command::output`], in a process group of its own, whose number stays reserved until the
    /// process has been waited for.
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        let child = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.stopped {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the build was stopped before it began"));
            }
            let child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            state.group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            child
        };
        let output = child.wait_with_output();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).group = None;
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_runs_is_ended_with_all_that_it_started() {
        let stop = StopHandle::new();
        let other = stop.clone();
        let begun = Instant::now();
        let running = std::thread::spawn(move || {
            other.output(Command::new("sh").args(["-c", "sleep 60 & wait"]).stderr(Stdio::inherit()))
        });
        while stop.0.lock().unwrap().group.is_none() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        stop.stop();
        let output = running.join().unwrap().unwrap();
        assert!(!output.status.success() && begun.elapsed() < Duration::from_secs(30));
        assert!(stop.output(&mut Command::new("true")).is_err(), "nothing begins any more");
    }
}
