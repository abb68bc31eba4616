//! Faults of a text: each diagnostic with its place, its field and its remedy.

use std::{fmt, sync::Arc};

use mortise_resource::FieldPath;

use crate::{
    Format,
    location::{Lines, Position, SourceLocation, Span, file_name},
};

/// A fault in a text.
///
/// Prints as `file:line:column: field: message; remedy`, and in HCL as `file:line,column-column: message; remedy`, as
/// Consul's command line does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Start of the faulty part.
    pub place: SourceLocation,
    /// End of the faulty part: just after its last character.
    pub end: Position,
    /// The field, such as `data.year_of_release`; empty where the text as a whole is at fault.
    pub path: String,
    /// The fault.
    pub message: String,
    /// The next step, if one is known.
    pub remedy: Option<String>,
    /// Format of the text.
    pub format: Format,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format == Format::Hcl {
            let Position { line, column } = self.place.position;
            write!(f, "{}:{line},{column}-{}: ", self.place.file, self.end.column)?;
        } else {
            write!(f, "{}: ", self.place)?;
            if !self.path.is_empty() {
                write!(f, "{}: ", self.path)?;
            }
        }
        f.write_str(&self.message)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

/// The faults of a text, in the order of the text, up to a bound. Prints one per line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether there are more faults than are kept; reading stopped at that point.
    pub more: bool,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, diagnostic) in self.diagnostics.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        if self.more { f.write_str("\nand more; fix these first") } else { Ok(()) }
    }
}

impl std::error::Error for Diagnostics {}

/// Collects diagnostics while a text is read.
#[derive(Debug)]
pub(crate) struct DiagnosticSink {
    pub(crate) file: String,
    pub(crate) format: Format,
    pub(crate) lines: Arc<Lines>,
    diagnostics: Vec<(usize, Diagnostic)>,
    more: bool,
    keep: usize,
}

impl DiagnosticSink {
    pub(crate) fn new(file: &str, format: Format, lines: Arc<Lines>, keep: usize) -> Self {
        Self { file: file_name(file).to_owned(), format, lines, diagnostics: Vec::new(), more: false, keep }
    }

    pub(crate) fn place(&self, offset: usize) -> SourceLocation {
        SourceLocation { file: self.file.clone(), position: self.lines.position(offset) }
    }

    pub(crate) fn add(&mut self, span: Span, path: &FieldPath, message: impl Into<String>, remedy: Option<String>) {
        if self.diagnostics.len() >= self.keep {
            self.more = true;
            return;
        }
        let diagnostic = Diagnostic {
            place: self.place(span.start),
            end: self.lines.position(span.end),
            path: terminal_safe(&path.to_string(), 500),
            message: terminal_safe(&message.into(), 4000),
            remedy: remedy.map(|remedy| terminal_safe(&remedy, 4000)),
            format: self.format,
        };
        self.diagnostics.push((span.start, diagnostic));
    }

    /// Gives a path to the diagnostics that have none so far, by the offset of their start.
    pub(crate) fn fill_in_paths(&mut self, path_at: impl Fn(usize) -> FieldPath) {
        for (offset, diagnostic) in self.diagnostics.iter_mut().filter(|(_, diagnostic)| diagnostic.path.is_empty()) {
            diagnostic.path = terminal_safe(&path_at(*offset).to_string(), 500);
        }
    }

    /// Number of diagnostics so far.
    pub(crate) fn count(&self) -> usize {
        self.diagnostics.len() + usize::from(self.more)
    }

    /// Drops the diagnostics after the first `count`; false if there were none to drop.
    pub(crate) fn drop_since(&mut self, count: usize) -> bool {
        let kept = count < self.diagnostics.len();
        self.diagnostics.truncate(count);
        kept
    }

    /// Whether the bound is reached, so that further faults would not be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.more
    }

    pub(crate) fn finish(mut self) -> Result<(), Diagnostics> {
        if self.diagnostics.is_empty() {
            return Ok(());
        }
        self.diagnostics.sort_by_key(|(offset, _)| *offset);
        Err(Diagnostics {
            diagnostics: self.diagnostics.into_iter().map(|(_, diagnostic)| diagnostic).collect(),
            more: self.more,
        })
    }
}

/// A part of a diagnostic that is safe for a terminal: names come from the text, may be of any length, and may hold
/// control characters that a terminal would obey.
fn terminal_safe(text: &str, at_most: usize) -> String {
    let mut letters = text.chars();
    let mut fit = String::with_capacity(text.len().min(at_most));
    for letter in letters.by_ref().take(at_most) {
        if letter.is_control() {
            fit.extend(letter.escape_debug());
        } else {
            fit.push(letter);
        }
    }
    if letters.next().is_some() {
        fit.push('…');
    }
    fit
}
