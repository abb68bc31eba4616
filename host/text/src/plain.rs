//! YAML files without resources, as plain values: cases of plugins, rules of policies, files of other tools.
//!
//! Unquoted scalars follow YAML 1.2's core schema, except that numbers are JSON's alone: `007`, `0x1f` and `1_000` stay
//! texts, which a field of numbers rejects by name. The merge key `<<` adds the entries of a map, or of a list of maps,
//! under keys that its own map does not have. Limits and errors are those of files with resources.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use crate::{
    Diagnostics, Format, Limits, Source,
    location::{Lines, Position},
    node::{self, Entry, Node, plain_bool, plain_null},
    parse::{exceeds_documents, read_nodes},
};

/// Key of the maps whose entries are added.
const MERGE_KEY: &str = "<<";

/// A document of a YAML file.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainDocument {
    /// Line of the beginning, counted from 1.
    pub line: usize,
    /// Content of the document.
    pub value: Value,
}

/// A value and its line.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainNode {
    /// Line of the value, or of its key if it is the value of a map, counted from 1. A copy by an alias has the lines
    /// of the original.
    pub line: usize,
    /// The value.
    pub value: PlainValue,
}

/// A value whose parts have lines.
#[derive(Debug, Clone, PartialEq)]
pub enum PlainValue {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<PlainNode>),
    /// A map.
    Map(BTreeMap<String, PlainNode>),
}

impl From<PlainValue> for Value {
    fn from(value: PlainValue) -> Self {
        match value {
            PlainValue::Null => Self::Null,
            PlainValue::Bool(value) => Self::Bool(value),
            PlainValue::Number(number) => Self::Number(number),
            PlainValue::Text(text) => Self::String(text),
            PlainValue::List(items) => items.into_iter().map(|item| Self::from(item.value)).collect(),
            PlainValue::Map(entries) => {
                Self::Object(entries.into_iter().map(|(key, node)| (key, Self::from(node.value))).collect())
            }
        }
    }
}

/// Reads every document of a YAML text; empty ones are left out.
///
/// # Errors
/// The faults of the text; there are no documents then.
pub fn plain_documents(source: Source<'_>, limits: &Limits) -> Result<Vec<PlainDocument>, Diagnostics> {
    let (nodes, lines) = checked(source, Format::Yaml, limits)?;
    let document = |node: Node| {
        let line = lines.position(node.span.start).line;
        PlainDocument { line, value: plain(node, &lines).value.into() }
    };
    Ok(nodes.into_iter().map(document).collect())
}

/// Reads every document of a YAML text, or every value of a JSON text, with the lines of all values; empty ones are
/// left out.
///
/// # Errors
/// The faults of the text; there are no documents then.
pub fn plain_nodes(source: Source<'_>, format: Format, limits: &Limits) -> Result<Vec<PlainNode>, Diagnostics> {
    let (nodes, lines) = checked(source, format, limits)?;
    Ok(nodes.into_iter().map(|node| plain(node, &lines)).collect())
}

fn checked(
    source: Source<'_>,
    format: Format,
    limits: &Limits,
) -> Result<(Vec<Node>, std::sync::Arc<Lines>), Diagnostics> {
    let (nodes, mut sink) = read_nodes(source, Position::START, format, limits);
    exceeds_documents(&nodes, limits, "documents", &mut sink);
    let lines = sink.lines.clone();
    sink.finish()?;
    Ok((nodes, lines))
}

fn plain(node: Node, lines: &Lines) -> PlainNode {
    let line = lines.position(node.span.start).line;
    let value = match node.value {
        node::Value::Null | node::Value::Wrong => PlainValue::Null,
        node::Value::Bool(value) => PlainValue::Bool(value),
        node::Value::Text(text) => PlainValue::Text(text),
        node::Value::Plain(text) | node::Value::Number(text) => scalar(text),
        node::Value::List(items) | node::Value::Blocks(items) => {
            PlainValue::List(items.into_iter().map(|item| plain(item, lines)).collect())
        }
        node::Value::Map(entries) => PlainValue::Map(map(entries, lines)),
    };
    PlainNode { line, value }
}

fn scalar(text: String) -> PlainValue {
    if plain_null(&text) {
        return PlainValue::Null;
    }
    match (plain_bool(&text), serde_json::from_str::<Number>(&text)) {
        (Some(value), _) => PlainValue::Bool(value),
        (_, Ok(number)) => PlainValue::Number(number),
        _ => PlainValue::Text(text),
    }
}

fn map(entries: Vec<Entry>, lines: &Lines) -> BTreeMap<String, PlainNode> {
    let (mut map, mut added) = (BTreeMap::new(), Vec::new());
    for Entry { key, key_span, value } in entries {
        let line = lines.position(key_span.start).line;
        match plain(value, lines).value {
            PlainValue::Map(other) if key == MERGE_KEY => added.push(other),
            PlainValue::List(items)
                if key == MERGE_KEY && items.iter().all(|item| matches!(item.value, PlainValue::Map(_))) =>
            {
                let maps = items.into_iter().filter_map(|item| match item.value {
                    PlainValue::Map(map) => Some(map),
                    _ => None,
                });
                added.extend(maps);
            }
            value => drop(map.insert(key, PlainNode { line, value })),
        }
    }
    for (key, value) in added.into_iter().flatten() {
        map.entry(key).or_insert(value);
    }
    map
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Vec<PlainDocument>, String> {
        let limits = Limits { documents: 3, depth: 64, ..Limits::default() };
        plain_documents(Source { name: "f", text }, &limits).map_err(|faults| faults.to_string())
    }

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
    fn aliases_and_merge_keys_add_values() {
        let text = "a: &a {x: 1, y: [2]}\nb: &b {x: 3, z: 4}\nc: {<<: *a, x: 5}\nd: {<<: [*b, *a]}\ne: {<<: 7}\n";
        let found = read(text).unwrap();
        assert_eq!(found[0].value["c"], json!({"x": 5, "y": [2]}));
        assert_eq!(found[0].value["d"], json!({"x": 3, "z": 4, "y": [2]}));
        assert_eq!(found[0].value["e"], json!({"<<": 7}));
    }

    #[test]
    fn every_value_has_its_line() {
        let text = "a:\n  b:\n    - x\n    - {c: 1}\nd: &d\n  e: 2\nf:\n  <<: *d\n";
        let found = plain_nodes(Source { name: "f", text }, Format::Yaml, &Limits::default()).unwrap();
        let child = |node: &PlainNode, key: &str| match &node.value {
            PlainValue::Map(map) => map[key].clone(),
            PlainValue::List(items) => items[key.parse::<usize>().unwrap()].clone(),
            _ => panic!("{node:?} has no parts"),
        };
        let list = child(&child(&found[0], "a"), "b");
        let lines = [list.line, child(&list, "0").line, child(&child(&list, "1"), "c").line];
        assert_eq!(lines, [2, 3, 4]);
        assert_eq!(child(&child(&found[0], "f"), "e").line, 6);
        let json = "[\n {\"a\":\n 1},\n 2]";
        let found = plain_nodes(Source { name: "f", text: json }, Format::Json, &Limits::default()).unwrap();
        assert_eq!((child(&found[0], "0").line, child(&found[0], "1").line), (2, 4));
    }

    #[test]
    fn faults_have_a_place() {
        let deep = "[".repeat(100) + &"]".repeat(100);
        let bomb = (1..40)
            .fold("a0: &a0 [x, x]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1));
        for (text, start, says) in [
            ("a: [1\n", "f:1:4: ", "not YAML"),
            ("a: 1\na: 2\n", "f:2:1: ", "occurs twice; the first is at line 1"),
            ("? [a]\n: b\n", "f:1:3: ", "a key must be a string"),
            ("a: *a\n", "f:1:4: ", "not YAML"),
            ("a: 1\n---\nb: 1\n---\nc: 1\n---\nd: 1\n", "f:7:1: ", "more than 3 documents in one text"),
            (&deep, "f:1:65: ", "nested more than 64 levels deep"),
            (&bomb, "f:", "more than"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.starts_with(start) && fault.contains(says), "{text}: {fault}");
        }
    }
}
