//! Processes that the tool starts, and their output.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
    sync::mpsc::{Receiver, channel},
    thread,
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
