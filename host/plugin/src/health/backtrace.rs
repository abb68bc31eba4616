//! Readable backtraces of guests: one frame a line, innermost first, with file and line if the component has them
//! (DWARF), and without frames of the host.
//!
//! Names come from the component, so they are cleaned and cut; a backtrace has at most [`MAX_BYTES`] bytes.

use std::fmt::Write as _;

use wasmtime::{FrameInfo, WasmBacktrace};

use crate::health::logs::plain;

/// Longest backtrace, bytes.
const MAX_BYTES: usize = 4 << 10;

/// Longest name of a function or a file, characters.
const MAX_NAME: usize = 200;

/// Backtrace of an error; empty if it has none.
pub(crate) fn render(error: &wasmtime::Error) -> String {
    let frames = match error.downcast_ref::<WasmBacktrace>() {
        Some(backtrace) if !backtrace.frames().is_empty() => backtrace.frames(),
        _ => return String::new(),
    };
    let mut text = String::from("wasm backtrace:");
    let mut number = 0;
    for frame in frames {
        for line in lines(frame) {
            if text.len() + line.len() > MAX_BYTES {
                text.push_str("\n  …");
                return text;
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {number}: {line}");
            number += 1;
        }
    }
    text
}

/// Line of a frame, or one line for each function that the compiler inlined into it.
fn lines(frame: &FrameInfo) -> Vec<String> {
    let named = |name: &str| short(&wasmtime_demangle(name));
    let mut lines: Vec<String> = frame
        .symbols()
        .iter()
        .map(|symbol| {
            let name = symbol.name().or(frame.func_name()).map_or_else(|| unnamed(frame), named);
            match (symbol.file(), symbol.line(), symbol.column()) {
                (Some(file), Some(line), Some(column)) => format!("{name} at {}:{line}:{column}", short(file)),
                (Some(file), Some(line), None) => format!("{name} at {}:{line}", short(file)),
                (Some(file), ..) => format!("{name} at {}", short(file)),
                (None, ..) => name,
            }
        })
        .collect();
    if lines.is_empty() {
        lines.push(frame.func_name().map_or_else(|| unnamed(frame), named));
    }
    lines
}

fn unnamed(frame: &FrameInfo) -> String {
    format!("function {} (its component has no names)", frame.func_index())
}

/// Demangles a name of the name section; wasmtime demangles those of DWARF only.
fn wasmtime_demangle(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn short(name: &str) -> String {
    let name = plain(name);
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_cleaned_and_cut() {
        let mangled = "_ZN5panic7give_up17h0123456789abcdefE";
        assert_eq!(wasmtime_demangle(mangled), "panic::give_up");
        assert_eq!(short("a\nb"), "a\u{2424}b");
        assert_eq!(short(&"é".repeat(300)).chars().count(), MAX_NAME + 1);
    }

    #[test]
    fn an_error_without_a_backtrace_has_none() {
        assert_eq!(render(&wasmtime::Error::msg("no")), "");
    }
}
