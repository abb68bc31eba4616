//! Places in a text: lines, columns, bytes.

use std::{fmt, sync::Arc};

/// A line and a column, both counted from one; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// Start of a file.
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A place in a named text; prints as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file as its user named it; `<stdin>` for the standard input.
    pub file: String,
    /// Position in the file.
    pub position: Position,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.position)
    }
}

/// Name of a file in messages: `-` is the standard input.
#[must_use]
pub fn file_name(name: &str) -> &str {
    if name == "-" { "<stdin>" } else { name }
}

/// A stretch of a text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }
}

/// Finds lines and columns of byte offsets. Building takes one pass over the text; a look-up takes a binary search over
/// its lines.
#[derive(Debug)]
pub(crate) struct Lines {
    text: Arc<str>,
    /// Byte offsets at which lines begin.
    starts: Vec<usize>,
    /// Position of the text's start in its file.
    begin: Position,
}

impl Lines {
    pub(crate) fn new(text: &str, begin: Position) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(index, _)| index + 1);
        Self { text: text.into(), starts: std::iter::once(0).chain(after_breaks).collect(), begin }
    }

    pub(crate) fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(offset.saturating_sub(start), |line| line.chars().count());
        let first = if line == 0 { self.begin.column } else { 1 };
        Position { line: self.begin.line + line, column: first + column }
    }

    /// The byte offset of a line (from one) and a byte column (from one), as parsers report them.
    pub(crate) fn offset(&self, line: usize, column: usize) -> usize {
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len());
        (start + column.saturating_sub(1)).min(self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let lines = Lines::new("ab\nçd\n", Position { line: 11, column: 5 });
        assert_eq!(lines.position(0), Position { line: 11, column: 5 });
        assert_eq!(lines.position(2), Position { line: 11, column: 7 });
        assert_eq!(lines.position(5), Position { line: 12, column: 2 });
        assert_eq!(lines.position(7), Position { line: 13, column: 1 });
        assert_eq!(lines.offset(2, 3), 5);
        assert_eq!(lines.offset(9, 1), 7);
    }
}
