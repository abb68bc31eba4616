//! Reads the documents of a case file as plain values, each with the line on which it begins.
//!
//! Unquoted scalars are what YAML 1.2's core schema says. What is inside of resources is typed later, by `mortise-text`.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// Deepest nesting of lists and maps.
const DEPTH: usize = 64;

/// Most values in one file. Aliases count each time that they are used.
const VALUES: usize = 200_000;

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    pub(super) value: Value,
}

/// What is wrong with a text, and where.
#[derive(Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) what: String,
}

/// Reads all documents; empty ones are left out.
pub(super) fn read(text: &str) -> Result<Vec<Document>, Fault> {
    let mut reader = Reader::default();
    let options = granit_parser::options! { emit_comments: false };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|e| Fault {
            line: e.marker().line(),
            column: e.marker().col() + 1,
            what: format!("not YAML: {}", e.info()),
        })?;
        let (line, column) = (span.start.line(), span.start.col() + 1);
        reader.line = line;
        reader.take(event).map_err(|what| Fault { line, column, what })?;
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
    /// Of the event that is being read, and of the document's first value.
    line: usize,
    begun: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, _, _) => {
                let value = if style == ScalarStyle::Plain { plain(&text) } else { Value::String(text.into_owned()) };
                // As a key, it is what is written.
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
            Event::Alias(_) => Err("aliases (`*name`) have no place in cases; write it out".into()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), String> {
        if self.open.len() >= DEPTH {
            return Err(format!("nested more than {DEPTH} levels deep"));
        }
        if let (Open::Map(_, _) | Open::List(_), Some(Open::Map(_, None))) = (&open, self.open.last()) {
            return Err("a key must be a text".into());
        }
        if self.open.is_empty() {
            self.begun = self.line;
        }
        self.open.push(open);
        Ok(())
    }

    fn key(&mut self, key: String) -> Result<(), String> {
        let Some(Open::Map(map, place)) = self.open.last_mut() else { return Ok(()) };
        if map.contains_key(&key) {
            return Err(format!("the key {key:?} is there twice"));
        }
        *place = Some(key);
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUES {
            return Err(format!("more than {VALUES} values in one file; split it"));
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

/// An unquoted scalar.
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
