//! Reads JSON: one value, or several after each other, with or without line breaks between them.
//!
//! serde_json parses. Each level is parsed into slices of the text, so that every value keeps its place and every number
//! its digits; a byte is looked at once for each level that it is nested in, which [`crate::Limits::depth`] bounds.

use std::fmt;

use mortise_resource::FieldPath;
use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    fault::Sink,
    limits::Budget,
    node::{Entry, Node, Value},
    place::Span,
    read::refuse_duplicates,
};

/// Reads every value of a text. What stands before a syntax error is returned, so that its faults are found too.
pub(crate) fn read(text: &str, sink: &mut Sink, budget: &mut Budget) -> Vec<Node> {
    let mut nodes = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        match value {
            Ok(raw) => {
                let reader = &mut Reader { text, sink: &mut *sink, budget: &mut *budget };
                match reader.node(raw.get(), 1) {
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

fn syntax(sink: &mut Sink, text: &str, offset: usize, error: &serde_json::Error) {
    let printed = error.to_string();
    // The position is said by the fault; serde_json's own is relative to the slice that it read.
    let mut message = printed.rsplit_once(" at line ").map_or(printed.as_str(), |(message, _)| message);
    if message == "key must be a string" && text.get(offset..).is_some_and(|rest| rest.starts_with('}')) {
        message = "trailing comma";
    }
    // serde_json points at the character before this one.
    let rest = text.get(offset..).unwrap_or_default();
    let before = message.starts_with("control character") && !rest.starts_with(char::is_control);
    let offset = offset + if before { rest.chars().next().map_or(0, char::len_utf8) } else { 0 };
    sink.add(Span::new(offset, offset), &FieldPath::default(), format!("not JSON: {message}"), None);
}

struct Reader<'a, 's> {
    text: &'a str,
    sink: &'s mut Sink,
    budget: &'s mut Budget,
}

impl<'a> Reader<'a, '_> {
    /// Where a slice of the text begins.
    fn start(&self, slice: &str) -> usize {
        (slice.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    fn span(&self, slice: &str) -> Span {
        let start = self.start(slice);
        Span::new(start, start + slice.len())
    }

    /// None once a fault makes reading on senseless; it has been reported.
    fn node(&mut self, raw: &'a str, depth: usize) -> Option<Node> {
        let span = self.span(raw);
        self.budget.take(1, depth, span, self.sink)?;
        let value = match raw.bytes().next() {
            Some(b'{') => {
                let Pairs(pairs) = self.parse(raw)?;
                let mut entries = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    let key_span = self.span(key.get());
                    let key = self.parse::<String>(key.get())?;
                    entries.push(Entry { key, key_span, value: self.node(value.get(), depth + 1)? });
                }
                refuse_duplicates(&mut entries, self.sink);
                Value::Map(entries)
            }
            Some(b'[') => {
                let items: Vec<&'a RawValue> = self.parse(raw)?;
                Value::List(items.into_iter().map(|item| self.node(item.get(), depth + 1)).collect::<Option<_>>()?)
            }
            Some(b'"') => Value::Text(self.parse(raw)?),
            Some(b't') => Value::Bool(true),
            Some(b'f') => Value::Bool(false),
            Some(b'n') => Value::Null,
            _ => Value::Number(raw.to_owned()),
        };
        Some(Node::new(span, value))
    }

    fn parse<T: Deserialize<'a>>(&mut self, raw: &'a str) -> Option<T> {
        serde_json::from_str(raw)
            .inspect_err(|error| {
                // serde_json counts lines and byte columns from one, within the slice.
                let line = raw.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
                let offset = self.start(raw) + (line + error.column().saturating_sub(1)).min(raw.len());
                syntax(self.sink, self.text, offset, error);
            })
            .ok()
    }
}

/// An object's entries in their order, with all that stand there twice.
struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
