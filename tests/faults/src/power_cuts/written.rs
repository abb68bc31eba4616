//! The lines of a trace, compared with those of the ledger.

use std::collections::HashSet;

use crate::trace::Event;

/// Returns the events of a life without the lines that the trace alone repeats: those that an earlier call wrote, and
/// that the ledger does not have at this place. The writer holds a lock while it writes a line, so both have one order.
/// The last line may be missing in the ledger: the writer was killed before its call.
///
/// # Errors
/// The ledger has another line.
pub(super) fn as_written(events: Vec<Event>, ledger: &str) -> Result<Vec<Event>, String> {
    let mut written = ledger.lines().peekable();
    let mut earlier = HashSet::new();
    let mut kept = Vec::with_capacity(events.len());
    for event in events {
        if let Event::Said(line) = &event {
            if written.next_if_eq(&line.as_str()).is_none() {
                if earlier.contains(line) {
                    continue;
                }
                if let Some(other) = written.peek() {
                    return Err(format!("the trace has {line:?}, and the ledger {other:?}"));
                }
            }
            earlier.insert(line.clone());
        }
        kept.push(event);
    }
    match written.next() {
        Some(line) => Err(format!("the trace lacks the line {line:?} of the ledger")),
        None => Ok(kept),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{ledger::Ledger, trace};

    #[test]
    fn a_line_that_the_trace_repeats_was_written_once() {
        let hex = |line: &str| line.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        let call = |thread: u32, line: &str, end: &str| {
            format!("{thread} write(9</ledger>, \"{}\\x0a\", {}{end}\n", hex(line), line.len() + 1)
        };
        let text = [
            call(11, "opened", ") = 7"),
            call(11, "begin 1 -a", ") = 11"),
            call(12, "done 1 0", ") = 9"),
            call(12, "done 1 0", " <unfinished ...>"),
            call(11, "begin 1 -a", " <detached ...>"),
            call(13, "begin 2 -b", ") = ?"),
        ];
        let read = || trace::read(&text.concat(), Path::new("/d"), Path::new("/ledger"), &mut 0).unwrap();
        let hear = |events: Vec<Event>| -> Result<usize, String> {
            let mut ledger = Ledger::default();
            for event in &events {
                if let Event::Said(line) = event {
                    ledger.hear(line)?;
                }
            }
            Ok(events.len())
        };
        assert!(hear(read()).unwrap_err().contains("not a line of a ledger: \"done 1 0\""));
        let lines = ["opened", "begin 1 -a", "done 1 0", "begin 2 -b"];
        assert_eq!(hear(as_written(read(), &lines.join("\n")).unwrap()), Ok(4));
        assert_eq!(hear(as_written(read(), &lines[..3].join("\n")).unwrap()), Ok(4), "killed before its call");
        // Written twice indeed: a fault of the writer.
        let twice = ["opened", "begin 1 -a", "done 1 0", "done 1 0", "begin 2 -b"];
        hear(as_written(read(), &twice.join("\n")).unwrap()).unwrap_err();
        for wrong in
            [&lines[1..], &["opened", "begin 1 -a", "done 2 0"], &["opened", "begin 1 -a", "done 1 0", "x", "y"]]
        {
            as_written(read(), &wrong.join("\n")).unwrap_err();
        }
    }
}
