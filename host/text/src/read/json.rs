//! Reads JSON: one value, or several after each other, with or without line breaks between them.
//!
//! serde_json checks the syntax and reads strings. It reports neither the start of a value nor the literal of a number,
//! so a second pass over each checked value makes the tree. Time grows with the text's length alone;
//! [`crate::Limits::depth`] bounds nesting.

use mortise_resource::FieldPath;
use serde_json::value::RawValue;

use crate::{
    diagnostic::DiagnosticSink,
    limits::Budget,
    location::Span,
    node::{Entry, Node, Value},
    read::refuse_duplicates,
};

/// Reads every value of a text. Values before a syntax error are returned, so that their faults are found too.
pub(crate) fn read(text: &str, sink: &mut DiagnosticSink, budget: &mut Budget) -> Vec<Node> {
    let mut nodes = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        match value {
            Ok(raw) => {
                let offset = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
                let mut reader = Reader { text, offset, sink: &mut *sink, budget: &mut *budget };
                match reader.node(1) {
                    Some(node) => nodes.push(node),
                    None => break,
                }
            }
            Err(error) => {
                let offset = sink.lines.offset(error.line(), error.column());
                syntax(sink, text, offset, &error);
                break;
            }
        }
    }
    nodes
}

fn syntax(sink: &mut DiagnosticSink, text: &str, offset: usize, error: &serde_json::Error) {
    let printed = error.to_string();
    // The fault has the position; serde_json's own is relative to the slice that it read.
    let mut message = printed.rsplit_once(" at line ").map_or(printed.as_str(), |(message, _)| message);
    if message == "key must be a string" && text.get(offset..).is_some_and(|rest| rest.starts_with('}')) {
        message = "trailing comma";
    }
    // serde_json points at the character before the control character.
    let rest = text.get(offset..).unwrap_or_default();
    let before = message.starts_with("control character") && !rest.starts_with(char::is_control);
    let offset = offset + if before { rest.chars().next().map_or(0, char::len_utf8) } else { 0 };
    sink.add(Span::new(offset, offset), &FieldPath::default(), format!("not JSON: {message}"), None);
}

/// Reads a text of checked syntax; the content of its strings is not checked yet.
struct Reader<'a, 's> {
    text: &'a str,
    /// Bytes read so far.
    offset: usize,
    sink: &'s mut DiagnosticSink,
    budget: &'s mut Budget,
}

impl<'a> Reader<'a, '_> {
    /// Reads the value that begins here. `None` after a fault that ends reading; it has been reported.
    fn node(&mut self, depth: usize) -> Option<Node> {
        let start = self.skip_space();
        self.budget.take(1, depth, Span::new(start, start), self.sink)?;
        let value = match self.next_byte() {
            Some(b'{') => {
                let mut entries = Vec::new();
                self.elements(b'}', |reader| {
                    let start = reader.skip_space();
                    let key = reader.string()?;
                    let key_span = Span::new(start, reader.offset);
                    // The colon.
                    reader.skip_space();
                    reader.offset += 1;
                    entries.push(Entry { key, key_span, value: reader.node(depth + 1)? });
                    Some(())
                })?;
                refuse_duplicates(&mut entries, self.sink);
                Value::Map(entries)
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.elements(b']', |reader| {
                    items.push(reader.node(depth + 1)?);
                    Some(())
                })?;
                Value::List(items)
            }
            Some(b'"') => Value::Text(self.string()?),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => {
                let rest = self.rest();
                let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
                self.offset += end;
                Value::Number(rest.get(..end).unwrap_or_default().to_owned())
            }
        };
        Some(Node::new(Span::new(start, self.offset), value))
    }

    /// Reads the elements between brackets, up to `close`.
    fn elements(&mut self, close: u8, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.offset += 1;
        self.skip_space();
        while self.next_byte().is_some_and(|byte| byte != close) {
            element(self)?;
            self.skip_space();
            if self.next_byte() == Some(b',') {
                self.offset += 1;
            }
            self.skip_space();
        }
        self.offset += 1;
        Some(())
    }

    fn word(&mut self, word: &str, value: Value) -> Value {
        self.offset += word.len();
        value
    }

    /// Reads a string, without its quotes and escapes.
    fn string(&mut self) -> Option<String> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let raw = rest.get(..end.map_or(rest.len(), |end| end + 2)).unwrap_or(rest);
        let start = self.offset;
        self.offset += raw.len();
        serde_json::from_str(raw)
            .inspect_err(|error| {
                // A string has no line breaks; serde_json counts its bytes from one.
                let offset = start + error.column().saturating_sub(1).min(raw.len());
                syntax(self.sink, self.text, offset, error);
            })
            .ok()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn next_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    /// Skips white space and returns the offset after it.
    fn skip_space(&mut self) -> usize {
        while matches!(self.next_byte(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.offset += 1;
        }
        self.offset
    }
}
