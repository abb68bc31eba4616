//! Runs the operator's check of a candidate for a file in a granted directory ([`Check`]).
//!
//! # Contract
//! The program sees the directory as it would be: a temporary directory has links to all files in place, and the
//! candidate instead of its own former version. The program and its arguments are the operator's, without a shell; a
//! plugin chooses the content and the name of the candidate alone. The environment has nothing but `PATH`. The program
//! is in a process group of its own, of which nothing is left after the check.
//!
//! # Limits
//! The program ends before the deadline, or is killed. A killed program that does not end soon is left to a thread,
//! which reaps it; while [`MAX_LEFT`] are left so, no check begins. Of its output, the last [`MAX_OUTPUT_BYTES`] are
//! read into the failure; a copied config has [`MAX_CONFIG_BYTES`].

use std::{
    collections::VecDeque,
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, PipeReader, Read as _},
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf, absolute},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use mortise_resource::Code;
use parking_lot::Mutex;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use crate::{
    failure::Failure,
    grants::check::{CONFIG, Check, DIR, FILE, TEMP},
    host::granted_dir::TEMPORARY_PREFIX,
};

/// Most bytes of output in a failure.
const MAX_OUTPUT_BYTES: usize = 1_000;

/// Largest config, bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Interval at which the program is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Reads of output between two looks at the program, so that endless output does not hide its time.
const READS_PER_POLL: usize = 64;

/// Longest wait for the end of a killed program. One of another user cannot be killed.
const KILL_WAIT: Duration = Duration::from_millis(100);

/// Interval at which the programs that were left are looked at.
const REAP_INTERVAL: Duration = Duration::from_millis(500);

/// Most killed programs that have not ended. With more, no check is made.
const MAX_LEFT: usize = 16;

/// The killed programs of this process that have not ended.
static LEFT: Left = Left(Mutex::new(Children { children: Vec::new(), is_reaped: false }));

/// Programs are found here if the server has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A candidate for a file.
pub(super) struct Candidate<'c> {
    /// Path of the granted directory.
    pub(super) directory: &'c Path,
    pub(super) name: &'c str,
    pub(super) content: &'c [u8],
}

/// Checks a candidate. `key` is that of the check in config.toml.
///
/// # Errors
/// `InvalidArgument` if the program refuses the candidate, with the end of its output; `FailedPrecondition` if the
/// check cannot be made, and `DeadlineExceeded` if the program does not end.
pub(super) fn run(check: &Check, candidate: &Candidate<'_>, key: &str, until: Instant) -> Result<(), Failure> {
    let name = candidate.name;
    let cannot = |what: &str, e: io::Error| {
        let text = format!("file {name:?} was not checked: {what}: {e}; see {key} in config.toml");
        Failure::new(Code::FailedPrecondition, text)
    };
    if !LEFT.has_room() {
        let text = format!("{MAX_LEFT} programs of earlier checks were stopped and do not end; end them");
        return Err(cannot("no program is started", io::Error::other(text)));
    }
    let temp = tempfile::Builder::new().prefix("mortise-check-").tempdir();
    let temp = temp.map_err(|e| cannot("a temporary directory cannot be made", e))?;
    let places = Places::new(temp.path());
    places.fill(candidate).map_err(|e| cannot("the directory cannot be copied", e))?;
    if let Some(config) = &check.config {
        places.copy(config).map_err(|e| cannot("its config cannot be copied", e))?;
    }
    let program = check.command.first().map(String::as_str).unwrap_or_default();
    let cannot_start = |e| cannot(&format!("the program {program:?} cannot be started"), e);
    let started = places.start(check, name).map_err(cannot_start)?;
    let (ended, output) = started.wait(until).map_err(|e| cannot(&format!("{program:?} cannot be waited for"), e))?;
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let output = places.shown(&output);
            let text = format!("file {name:?} was refused by {program:?} ({status}): {output}");
            Err(Failure::new(Code::InvalidArgument, text))
        }
        None => {
            let text = format!(
                "file {name:?} was not checked: {program:?} did not end in time, and was stopped; see {key} in \
                 config.toml, and controllers.host_call_ms, the time of a write"
            );
            Err(Failure::new(Code::DeadlineExceeded, text))
        }
    }
}

/// The paths of one check.
struct Places {
    dir: PathBuf,
    temp: PathBuf,
    config: PathBuf,
}

impl Places {
    fn new(temp: &Path) -> Self {
        Self { dir: temp.join("dir"), temp: temp.join("temp"), config: temp.join("config") }
    }

    /// Makes the directory as it would be with the candidate.
    fn fill(&self, candidate: &Candidate<'_>) -> io::Result<()> {
        fs::create_dir(&self.dir)?;
        fs::create_dir(&self.temp)?;
        let directory = absolute(candidate.directory)?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_unfinished = name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes());
            if name != candidate.name && !is_unfinished && entry.file_type()?.is_file() {
                symlink(directory.join(&name), self.dir.join(&name))?;
            }
        }
        fs::write(self.dir.join(candidate.name), candidate.content)
    }

    /// Copies the config, with the paths filled in.
    fn copy(&self, config: &Path) -> io::Result<()> {
        let mut text = String::new();
        let read = File::open(config)?.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
        if read as u64 > MAX_CONFIG_BYTES {
            return Err(io::Error::other(format!("it has more than {MAX_CONFIG_BYTES} bytes")));
        }
        let [dir, temp] = [&self.dir, &self.temp].map(|path| path.display().to_string());
        fs::write(&self.config, text.replace(DIR, &dir).replace(TEMP, &temp))
    }

    fn start(&self, check: &Check, name: &str) -> io::Result<Started> {
        let file = self.dir.join(name);
        let filled = |part: &String| {
            // The name comes last: it is the plugin's, and may look like a placeholder.
            [(DIR, &self.dir), (TEMP, &self.temp), (CONFIG, &self.config), (FILE, &file)]
                .iter()
                .fold(part.clone(), |part, (mark, path)| part.replace(mark, &path.display().to_string()))
        };
        let (program, arguments) = check.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (output, writer) = io::pipe()?;
        let child = Command::new(filled(program))
            .args(arguments.iter().map(filled))
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH)))
            .current_dir(&self.temp)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        Ok(Started { child, output })
    }

    /// The end of an output in one line, without the paths of the check.
    fn shown(&self, output: &[u8]) -> String {
        // A line that is cut at the limit may begin in the middle of a path.
        let whole = || output.iter().position(|byte| *byte == b'\n').and_then(|end| output.get(end + 1..));
        let output = if output.len() < MAX_OUTPUT_BYTES { output } else { whole().unwrap_or(output) };
        let text = String::from_utf8_lossy(output);
        let text = text.replace(&format!("{}/", self.dir.display()), "");
        let text = text.replace(&self.dir.display().to_string(), DIR);
        let text = text.replace(&self.temp.display().to_string(), TEMP);
        let text = text.replace(&self.config.display().to_string(), "the config");
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let line: String = lines.join("; ").chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        match line.is_empty() {
            true => "it printed nothing".to_owned(),
            false => line,
        }
    }
}

/// A running program.
struct Started {
    child: Child,
    output: PipeReader,
}

impl Started {
    /// Waits until the deadline. Returns how the program ended, `None` if it was stopped, and the end of its output.
    fn wait(mut self, until: Instant) -> io::Result<(Option<ExitStatus>, Vec<u8>)> {
        let mut last = VecDeque::new();
        let group = Pid::from_child(&self.child);
        // Without reaping: meanwhile the number of the group is not given to another.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = loop {
            self.read(&mut last);
            match waitid(WaitId::Pid(group), options) {
                Ok(None) | Err(rustix::io::Errno::INTR) if Instant::now() < until => pause(POLL_INTERVAL),
                found => break found?.is_some(),
            }
        };
        self.read(&mut last);
        // Best effort: the group may be empty, or belong to another user.
        let _ = kill_process_group(group, Signal::KILL);
        let patience = Instant::now() + KILL_WAIT;
        let status = loop {
            match self.child.try_wait()? {
                None if Instant::now() < patience => pause(POLL_INTERVAL),
                status => break status,
            }
        };
        if status.is_none() {
            LEFT.add(self.child);
        }
        Ok((status.filter(|_| ended), last.into()))
    }

    /// Reads the output so far, and keeps its end.
    fn read(&mut self, last: &mut VecDeque<u8>) {
        let mut buffer = [0; 4_096];
        for _ in 0..READS_PER_POLL {
            let Ok(count @ 1..) = self.output.read(&mut buffer) else { return };
            last.extend(buffer.get(..count).unwrap_or_default());
            last.drain(..last.len().saturating_sub(MAX_OUTPUT_BYTES));
        }
    }
}

/// Killed programs that have not ended. A thread reaps them, and ends with the last one.
struct Left(Mutex<Children>);

struct Children {
    children: Vec<Child>,
    /// Whether the thread runs.
    is_reaped: bool,
}

impl Left {
    fn has_room(&'static self) -> bool {
        let mut left = self.0.lock();
        self.reap_in_background(&mut left);
        left.children.len() < MAX_LEFT
    }

    fn add(&'static self, child: Child) {
        let mut left = self.0.lock();
        left.children.push(child);
        self.reap_in_background(&mut left);
    }

    /// Starts the thread, unless it runs or no program is left. Where no thread can be started, the next check tries
    /// again.
    fn reap_in_background(&'static self, left: &mut Children) {
        if !left.is_reaped && !left.children.is_empty() {
            let named = thread::Builder::new().name("check-reaper".to_owned());
            left.is_reaped = named.spawn(|| self.reap()).is_ok();
        }
    }

    fn reap(&self) {
        loop {
            let mut left = self.0.lock();
            // A program that cannot be waited for was reaped.
            left.children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if left.children.is_empty() {
                left.is_reaped = false;
                return;
            }
            drop(left);
            pause(REAP_INTERVAL);
        }
    }
}

fn pause(time: Duration) {
    #[allow(clippy::disallowed_methods, reason = "on a thread that may wait")]
    thread::sleep(time);
}

#[cfg(test)]
mod tests;
