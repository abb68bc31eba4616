//! Reads the documents of a case file as plain values, each with the line on which it begins.
//!
//! Unquoted scalars follow YAML 1.2's core schema, except that numbers are JSON's alone: `007`, `0x1f` and `1_000` stay
//! texts, which a field of numbers rejects by name. Values inside resources are typed later, by `mortise-text`.
//!
//! `serde-saphyr` reads the same events, but makes numbers of such texts, has its own errors about aliases and keys,
//! and brings a table of character encodings. The reader of `mortise-text` keeps its tree to itself, since fields
//! decide there what a scalar is.

use granit_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Number, Value};

/// Deepest nesting of lists and maps.
const DEPTH: usize = 64;

/// Most values in one file.
const VALUES: usize = 200_000;

/// A document of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// Line of the beginning, counted from 1.
    pub(super) line: usize,
    pub(super) value: Value,
}

/// Fault in a text, with its place; line and column are counted from 1.
#[derive(Debug, thiserror::Error)]
#[error("{line}:{column}: {what}")]
pub(super) struct YamlError {
    line: usize,
    column: usize,
    what: String,
    /// Error of the parser, if the text is not YAML.
    source: Option<Box<ScanError>>,
}

/// Reads all documents; empty ones are left out.
pub(super) fn read(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut reader = Reader::default();
    let options = granit_parser::options! { emit_comments: false };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|e| YamlError {
            line: e.marker().line(),
            column: e.marker().col() + 1,
            what: format!("not YAML: {}", e.info()),
            source: Some(Box::new(e)),
        })?;
        (reader.line, reader.column) = (span.start.line(), span.start.col() + 1);
        reader.take(event)?;
    }
    Ok(reader.documents)
}

/// A list or a map that is not closed yet.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    documents: Vec<Document>,
    values: usize,
    /// Line of the current event.
    line: usize,
    column: usize,
    /// The line of the document's first value.
    begun: usize,
}

impl Reader {
    /// Makes a fault at the current event.
    fn fault(&self, what: impl Into<String>) -> YamlError {
        YamlError { line: self.line, column: self.column, what: what.into(), source: None }
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, _, _) => {
                let value = if style == ScalarStyle::Plain { plain(&text) } else { Value::String(text.into_owned()) };
                // A key keeps its text.
                let key = match (&value, self.open.last()) {
                    (Value::String(text), Some(Open::Map(_, None))) => Some(text.clone()),
                    (other, Some(Open::Map(_, None))) => Some(other.to_string()),
                    _ => None,
                };
                match key {
                    Some(key) => self.key(key),
                    None => self.push(value),
                }
            }
            Event::SequenceStart(..) => self.begin(Open::List(Vec::new())),
            Event::MappingStart(..) => self.begin(Open::Map(Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(items)) => self.push(Value::Array(items)),
                Some(Open::Map(map, _)) => self.push(Value::Object(map)),
                None => Ok(()),
            },
            Event::Alias(_) => Err(self.fault("aliases (`*name`) are not allowed in cases; write the value out")),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), YamlError> {
        if self.open.len() >= DEPTH {
            return Err(self.fault(format!("nested more than {DEPTH} levels deep")));
        }
        if let (Open::Map(_, _) | Open::List(_), Some(Open::Map(_, None))) = (&open, self.open.last()) {
            return Err(self.fault("a key must be a text"));
        }
        if self.open.is_empty() {
            self.begun = self.line;
        }
        self.open.push(open);
        Ok(())
    }

    fn key(&mut self, key: String) -> Result<(), YamlError> {
        match self.open.last_mut() {
            Some(Open::Map(map, _)) if map.contains_key(&key) => {
                Err(self.fault(format!("the key {key:?} occurs twice")))
            }
            Some(Open::Map(_, place)) => {
                *place = Some(key);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, value: Value) -> Result<(), YamlError> {
        self.values += 1;
        if self.values > VALUES {
            return Err(self.fault(format!("more than {VALUES} values in one file; split it")));
        }
        match self.open.last_mut() {
            None if value.is_null() => {}
            None => {
                let line = if matches!(value, Value::Array(_) | Value::Object(_)) { self.begun } else { self.line };
                self.documents.push(Document { line, value });
            }
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(map, key)) => {
                if let Some(key) = key.take() {
                    map.insert(key, value);
                }
            }
        }
        Ok(())
    }
}

/// Types an unquoted scalar.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    // What JSON calls a number: `1_000`, `0x1f` and `.inf` stay texts, which fields of numbers refuse by name.
    match serde_json::from_str::<Number>(text) {
        Ok(number) => Value::Number(number),
        Err(_) => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_have_lines_and_values_their_types() {
        let text = "# first\na: 1\nb: [x, true, ~, 'no', 1.5, 007]\n---\n\n---\nc:\n  d: {e: \"1\", 2: y}\n";
        let found = read(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].line, 2);
        assert_eq!(found[0].value, json!({"a": 1, "b": ["x", true, null, "no", 1.5, "007"]}));
        assert_eq!(found[1].value, json!({"c": {"d": {"e": "1", "2": "y"}}}));
        assert_eq!(found[1].line, 7);
    }

    #[test]
    fn faults_have_a_place() {
        for (text, line, says) in [
            ("a: [1\n", 2, "not YAML"),
            ("a: 1\na: 2\n", 2, "twice"),
            ("a: &x 1\nb: *x\n", 2, "aliases"),
            ("? [a]\n: b\n", 1, "key must be a text"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.what.contains(says), "{text}: {fault:?}");
            assert!(fault.line.abs_diff(line) <= 1, "{text}: {fault:?}");
        }
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(read(&deep).unwrap_err().what.contains("levels deep"));
    }
}
