//! Ends a running build, for example when the user interrupts `mortise plugin dev`.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt as _,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

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
        let mut state = self.lock();
        state.stopped = true;
        if let Some(group) = state.group.take() {
            // The build may have ended by itself.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command like [`Command::output`], in a process group of its own. The number of the group stays reserved
    /// until the handle has forgotten it, so that a stop signals no other group.
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        let mut child = {
            let mut state = self.lock();
            if state.stopped {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the build was stopped before it began"));
            }
            let child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            state.group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            child
        };
        let errors = child.stderr.take().map(|pipe| thread::spawn(move || read_all(pipe)));
        let stdout = child.stdout.take().map_or(Ok(Vec::new()), read_all);
        let stderr = errors.map_or(Ok(Vec::new()), |errors| errors.join().unwrap_or_else(|_| Ok(Vec::new())));
        // Waits for the end without taking the exit status, which would free the number.
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // The wait below meets the same error, and returns it.
            let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        }
        let status = {
            let mut state = self.lock();
            state.group = None;
            child.wait()?
        };
        Ok(Output { status, stdout: stdout?, stderr: stderr? })
    }
}

fn read_all(mut pipe: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes)?;
    Ok(bytes)
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

    /// The process ends while a stop has the lock. Its number must not be free before the handle forgets it.
    #[test]
    fn the_number_of_a_group_stays_reserved_until_it_is_forgotten() {
        let (stop, dir) = (StopHandle::new(), tempfile::tempdir().unwrap());
        let (other, end) = (stop.clone(), dir.path().join("end"));
        let script = format!("until [ -e {} ]; do sleep 0.01; done", end.display());
        let running = thread::spawn(move || other.output(Command::new("sh").args(["-c", &script])));
        let (state, group) = loop {
            let state = stop.lock();
            if let Some(group) = state.group {
                break (state, group);
            }
            drop(state);
            thread::yield_now();
        };
        std::fs::write(&end, "").unwrap();
        let stat = format!("/proc/{}/stat", group.as_raw_nonzero());
        let is_zombie = || std::fs::read_to_string(&stat).unwrap().contains(") Z ");
        while !is_zombie() {
            thread::yield_now();
        }
        #[allow(clippy::disallowed_methods, reason = "a reaper that does not wait for the lock would be done by then")]
        thread::sleep(Duration::from_millis(200));
        assert!(is_zombie());
        drop(state);
        assert!(running.join().unwrap().unwrap().status.success());
        assert!(stop.lock().group.is_none());
    }
}
