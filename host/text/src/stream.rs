//! Reads and writes resources one at a time, so that a million of them need only the memory of the largest.
//!
//! A text is cut where a value certainly ends, and each part is read as by [`parse`](crate::parse()), with the line
//! numbers of the whole file: YAML is cut at lines of `---`, which cannot occur inside a value; JSON at the end of each
//! value; HCL is not cut. A list, or `{"resources": […]}`, is one value and has to fit into [`Limits::bytes`]. A part
//! with a fault gives no documents, and the next part is read; only a part that is too large ends the reading.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read, Write},
};

use mortise_resource::pb;

use crate::{
    Diagnostics, Document, Format, Indent, Limits, Source, Types,
    diagnostic::Diagnostic,
    location::{Position, SourceLocation, file_name},
    parse::parse_part,
    to_json, to_yaml,
};

/// Reasons why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading failed; nothing follows.
    #[error("{file}: {source}")]
    Io {
        /// The file as its user named it.
        file: String,
        /// Cause.
        source: io::Error,
    },
    /// A part of the text has faults. The next part can be read, unless this one is too large.
    #[error(transparent)]
    Diagnostics(#[from] Diagnostics),
}

/// Resources from a reader, one at a time.
///
/// ```
/// # fn main() -> Result<(), mortise_text::ReadError> {
/// # let types = mortise_text::TypeTable::new();
/// let file = std::io::Cursor::new(r#"{"type": "demo.v1.Concept", "name": "a"}"#);
/// for document in mortise_text::Reader::new(file, "concepts.jsonl", None, &types) {
///     match document {
///         Ok(document) => println!("{:?} is at {}", document.resource.id, document.place),
///         Err(mortise_text::ReadError::Diagnostics(diagnostics)) => eprintln!("{diagnostics}"),
///         Err(failed) => return Err(failed),
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Reader<'a, R> {
    reader: R,
    name: String,
    format: Option<Format>,
    types: &'a dyn Types,
    limits: Limits,
    /// Start of the next part in the file.
    position: Position,
    /// The line of YAML that begins the next part.
    held: Vec<u8>,
    ready: VecDeque<Document>,
    ended: bool,
}

/// Largest value of a stream by default, bytes.
const MAX_PART_BYTES: usize = 16 << 20;

impl<'a, R: BufRead> Reader<'a, R> {
    /// Reads from `reader`; `name` is the file as its user named it, `-` being the standard input. Without a format,
    /// the name's extension decides, and after that the beginning of the text.
    pub fn new(reader: R, name: &str, format: Option<Format>, types: &'a dyn Types) -> Self {
        Self::within(reader, name, format, types, Limits { bytes: MAX_PART_BYTES, ..Limits::default() })
    }

    /// Reads as [`Reader::new`] does, with limits for each part.
    pub fn within(reader: R, name: &str, format: Option<Format>, types: &'a dyn Types, limits: Limits) -> Self {
        Self {
            reader,
            name: name.to_owned(),
            format: format.or_else(|| Format::of_name(name)),
            types,
            limits,
            position: Position::START,
            held: Vec::new(),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// Format of the text.
    ///
    /// # Errors
    /// The beginning of the text could not be read.
    fn format(&mut self) -> io::Result<Format> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let beginning = String::from_utf8_lossy(self.reader.fill_buf()?);
        Ok(*self.format.insert(Format::of_text(&beginning)))
    }

    /// The next part; `None` at the end.
    fn part(&mut self, format: Format) -> io::Result<Option<Vec<u8>>> {
        let part = match format {
            Format::Yaml => self.yaml_part()?,
            Format::Json => self.json_part()?,
            Format::Hcl => {
                let mut whole = Vec::new();
                let bound = u64::try_from(self.limits.bytes).unwrap_or(u64::MAX).saturating_add(1);
                self.reader.by_ref().take(bound).read_to_end(&mut whole)?;
                whole
            }
        };
        Ok((!part.is_empty()).then_some(part))
    }

    /// Whether a part exceeds the largest size.
    fn is_over(&self, part: &[u8]) -> bool {
        part.len() > self.limits.bytes
    }

    /// Reads lines up to the start of the next document.
    fn yaml_part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = std::mem::take(&mut self.held);
        // Directives stand before the line that begins their document.
        let mut only_preamble = part.is_empty();
        while !self.is_over(&part) {
            let mut line = Vec::new();
            let room = u64::try_from(self.limits.bytes - part.len()).unwrap_or(u64::MAX).saturating_add(1);
            if self.reader.by_ref().take(room).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if is_marker(&line, b"---") {
                if !only_preamble {
                    self.held = line;
                    break;
                }
                only_preamble = false;
            } else if only_preamble {
                let text = line.trim_ascii_start();
                only_preamble = text.is_empty() || text.starts_with(b"#") || line.starts_with(b"%");
            }
            let ends = is_marker(&line, b"...");
            part.append(&mut line);
            if ends {
                break;
            }
        }
        Ok(part)
    }

    /// Reads a value, with the white space before it.
    fn json_part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        let mut scan = Scan::default();
        loop {
            let room = self.limits.bytes.saturating_add(1).saturating_sub(part.len());
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() || room == 0 {
                break;
            }
            let available = buffer.get(..room.min(buffer.len())).unwrap_or_default();
            let end = available.iter().position(|byte| scan.ends_at(*byte)).map(|index| index + 1);
            let taken = end.unwrap_or(available.len());
            part.extend_from_slice(available.get(..taken).unwrap_or_default());
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        Ok(part)
    }

    fn fault(&self, position: Position, message: String, remedy: &str) -> Diagnostics {
        let diagnostic = Diagnostic {
            place: SourceLocation { file: file_name(&self.name).to_owned(), position },
            end: position,
            path: String::new(),
            message,
            remedy: Some(remedy.to_owned()),
            format: self.format.unwrap_or(Format::Yaml),
        };
        Diagnostics { diagnostics: vec![diagnostic], more: false }
    }

    /// Reads one part into [`Self::ready`]; false at the end.
    fn advance(&mut self) -> Result<bool, ReadError> {
        let read = self.format().and_then(|format| Ok((format, self.part(format)?)));
        let (format, part) = match read {
            Ok((format, Some(part))) => (format, part),
            Ok((_, None)) => return Ok(false),
            Err(source) => return Err(ReadError::Io { file: file_name(&self.name).to_owned(), source }),
        };
        let begin = self.position;
        self.position = after(begin, &part);
        if self.is_over(&part) {
            self.ended = true;
            let message = format!("a value is larger than {} bytes", self.limits.bytes);
            return Err(self
                .fault(begin, message, "write each resource by itself: one on a line, or with --- between")
                .into());
        }
        let text = match std::str::from_utf8(&part) {
            Ok(text) => text,
            Err(error) => {
                let position = after(begin, part.get(..error.valid_up_to()).unwrap_or_default());
                return Err(self.fault(position, "the text is not UTF-8".into(), "convert it to UTF-8").into());
            }
        };
        self.ready.extend(parse_part(Source { name: &self.name, text }, begin, format, self.types, &self.limits)?);
        Ok(true)
    }
}

impl<R: BufRead> Iterator for Reader<'_, R> {
    type Item = Result<Document, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.ready.pop_front() {
                return Some(Ok(document));
            }
            if self.ended {
                return None;
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                Err(error) => {
                    self.ended |= matches!(error, ReadError::Io { .. });
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Whether a line is a marker of YAML: alone, or followed by white space.
fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// The position after some text.
fn after(begin: Position, text: &[u8]) -> Position {
    let line_of_end = text.iter().rposition(|byte| *byte == b'\n');
    // Counts characters, not bytes: continuation bytes do not count.
    let columns = |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    match line_of_end {
        None => Position { line: begin.line, column: begin.column + columns(text) },
        Some(index) => {
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            Position { line: begin.line + lines, column: 1 + columns(text.get(index + 1..).unwrap_or_default()) }
        }
    }
}

/// Finds the end of a JSON value by brackets and quotes; the parser checks the syntax later.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Scan {
    fn ends_at(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                // Strings have no line breaks, so an unclosed string ends here instead of swallowing the rest.
                b'\n' => return true,
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            // A value outside brackets is not a resource and ends with its line.
            b'\n' => return self.begun && self.depth == 0,
            _ => {}
        }
        self.begun |= !byte.is_ascii_whitespace();
        false
    }
}

/// Writes resources one after the other: JSON with one per line, YAML with `---` between.
#[derive(Debug)]
pub struct Writer<W> {
    writer: W,
    format: StreamFormat,
    written: bool,
}

/// Format of a stream of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamFormat {
    /// JSON lines.
    JsonLines,
    /// YAML documents.
    Yaml,
}

impl<W: Write> Writer<W> {
    /// Writes to `writer`, which should have a buffer.
    pub fn new(writer: W, format: StreamFormat) -> Self {
        Self { writer, format, written: false }
    }

    /// Writes one resource.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write(&mut self, resource: &pb::Resource, types: &dyn Types) -> io::Result<()> {
        match self.format {
            StreamFormat::JsonLines => writeln!(self.writer, "{}", to_json(resource, types, Indent::Compact))?,
            StreamFormat::Yaml => {
                let separator = if self.written { "---\n" } else { "" };
                write!(self.writer, "{separator}{}", to_yaml(resource, types))?;
            }
        }
        self.written = true;
        Ok(())
    }

    /// Returns the writer without flushing its buffer.
    pub fn into_inner(self) -> W {
        self.writer
    }
}
