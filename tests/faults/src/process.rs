//! Processes that the tool starts, and their output.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Child,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use crate::Outcome;

/// Returns the lines of a process, on a channel.
pub(crate) fn lines_of(process: &mut Child) -> Outcome<Receiver<String>> {
    let pipe = process.stdout.take().ok_or("no pipe")?;
    let (send, lines) = channel();
    thread::Builder::new().name("lines".to_owned()).spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = String::new();
        // A line without an end was torn by a kill: the announced write did not happen.
        while pipe.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
            if send.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    })?;
    Ok(lines)
}

/// Returns the time that a process has run on the processor; zero if it is gone. The kernel counts in hundredths of a
/// second.
pub(crate) fn cpu_of(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11)).into_iter().flatten();
    Duration::from_millis(fields.take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Describes each thread of a process: its name, whether it runs (R) or waits (S, D), and its running time in
/// hundredths of a second, without the kernel's. So a spinning thread differs from one that waits for ever.
pub(crate) fn threads_of(process: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let says = stats.filter_map(|stat| {
        // The name is in brackets, and may have spaces.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(format!("{name} {} {}", fields.next()?, fields.nth(10)?))
    });
    says.collect::<Vec<_>>().join(", ")
}
