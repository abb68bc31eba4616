//! stdout and stderr of a guest: each line becomes a line of its log.

use crate::{
    health::log_level::LogLevel,
    host::{state::State, wasi::printed::MAX_LINE_BYTES},
};

impl State {
    /// Takes bytes of stdout (1) or stderr (2), and logs whole lines.
    pub(super) fn print(&mut self, stream: u32, bytes: impl Iterator<Item = u8>) {
        for byte in bytes {
            let [out, err] = &mut self.wasi.unfinished;
            let line = if stream == 2 { err } else { out };
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() >= MAX_LINE_BYTES {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: u32) {
        let [out, err] = &mut self.wasi.unfinished;
        let line = std::mem::take(if stream == 2 { err } else { out });
        if !line.is_empty() {
            let level = if stream == 2 { LogLevel::Warn } else { LogLevel::Info };
            self.log(level, String::from_utf8_lossy(&line).into_owned(), Vec::new());
        }
    }

    /// Logs the unfinished lines of stdout and stderr.
    pub(crate) fn end_lines(&mut self) {
        if let Some(http) = &self.http {
            for (stream, bytes) in (1..).zip(http.printed.take()) {
                self.print(stream, bytes.into_iter());
            }
        }
        self.end_line(1);
        self.end_line(2);
    }
}
