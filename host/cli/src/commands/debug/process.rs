//! The server's process, if it runs on this machine: files of `/proc`, and the processor time of each thread between
//! two samples.
//!
//! This is not a profile by function: a release build has no symbols for one. Threads have names that say their work.

use std::{collections::BTreeMap, fs, path::PathBuf};

use mortise_resource::data::ServerStatusResponse;

use super::parts::Parts;
use crate::CliError;

/// Milliseconds of a tick in `/proc`, the same on every Linux.
const TICK_MS: u64 = 10;

/// Description of the table of threads.
pub(super) const ABOUT_THREADS: &str = "processor time of each thread between the two samples";

/// Reason for the absence of files of the process.
pub(super) const ELSEWHERE: &str =
    "the server's process cannot be seen from here: run the command on its machine, as its user or root";

/// A process of this machine.
pub(super) struct ServerProcess {
    dir: PathBuf,
}

/// Processor time of a thread, in ticks of the clock.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Work {
    name: String,
    ticks: u64,
}

/// Threads by their number.
pub(super) type Threads = BTreeMap<u32, Work>;

impl ServerProcess {
    /// Finds the process that answers at an address of this machine.
    pub(super) fn find(status: &ServerStatusResponse, url: &str) -> Option<Self> {
        let is_here = [
            "unix:",
            "http://127.",
            "https://127.",
            "http://localhost",
            "https://localhost",
            "http://[::1]",
            "https://[::1]",
        ];
        let pid = status.process.as_ref().map(|process| process.pid).filter(|pid| *pid > 0)?;
        let dir = PathBuf::from(format!("/proc/{pid}"));
        // A server in a container or behind a tunnel has a number of another place.
        let name = fs::read_to_string(dir.join("comm")).ok()?;
        (is_here.iter().any(|here| url.starts_with(here)) && name.starts_with("mortise")).then_some(Self { dir })
    }

    /// Reads the time of each thread.
    pub(super) fn threads(&self) -> Threads {
        let entries = fs::read_dir(self.dir.join("task")).into_iter().flatten().flatten();
        let thread = |entry: fs::DirEntry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            Some((id, work(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        };
        entries.filter_map(thread).collect()
    }

    /// Lists the threads by their work since an earlier sample, the busiest first.
    pub(super) fn work_since(&self, before: &Threads) -> String {
        listed(before, &self.threads())
    }

    /// Adds files of `/proc` about the process.
    pub(super) fn add_files(&self, parts: &mut Parts) {
        for (file, about) in [
            ("status", "memory and threads of the process"),
            ("smaps_rollup", "memory by kind: heap, files, shared"),
            ("limits", "limits of the process"),
            ("io", "bytes read and written"),
        ] {
            let path = self.dir.join(file);
            let content = fs::read(&path).map_err(|e| CliError::file("cannot read", &path, e));
            parts.add(format!("process/{file}.txt"), about, content);
        }
    }
}

/// Reads the name and the times of a thread from `stat`. The name is in brackets, and may have some itself.
fn work(stat: &str) -> Option<Work> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some(Work { name: name.to_owned(), ticks: user.saturating_add(system) })
}

fn listed(before: &Threads, now: &Threads) -> String {
    let since = |(id, work): (&u32, &Work)| {
        let earlier = before.get(id).filter(|earlier| earlier.name == work.name).map_or(0, |earlier| earlier.ticks);
        (work.ticks.saturating_sub(earlier), work.ticks, *id, work.name.clone())
    };
    let mut rows: Vec<_> = now.iter().map(since).collect();
    rows.sort_by(|left, right| right.cmp(left));
    let ms = |ticks: u64| ticks.saturating_mul(TICK_MS);
    let lines =
        rows.iter().map(|(ticks, all, id, name)| format!("{:>12} {:>12} {id:>8}  {name}\n", ms(*ticks), ms(*all)));
    format!("{:>12} {:>12} {:>8}  name\n{}", "between, ms", "in all, ms", "thread", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_have_brackets_in_its_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194368 5 0 0 0 30 12 0 0 20 0 9 0 100 0 0";
        let found = work(stat).unwrap();
        assert_eq!((found.name.as_str(), found.ticks), ("a) b (c)", 42));
        for bad in ["", "7", "7 (x)", "7 (x) S 1"] {
            assert!(work(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_busiest_thread_comes_first_and_new_ones_count_whole() {
        let thread = |name: &str, ticks| Work { name: name.to_owned(), ticks };
        let before = Threads::from([(1, thread("main", 100)), (2, thread("old", 50))]);
        // The number 2 belongs to another thread now.
        let now = Threads::from([(1, thread("main", 101)), (2, thread("new", 5)), (3, thread("busy", 30))]);
        let text = listed(&before, &now);
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [["300", "300", "3", "busy"], ["50", "50", "2", "new"], ["10", "1010", "1", "main"]]);
    }
}
