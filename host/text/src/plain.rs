//! YAML files without resources, as plain values: cases of plugins, rules of policies, files of other tools.
//!
//! Unquoted scalars follow YAML 1.2's core schema, except that numbers are JSON's alone: `007`, `0x1f` and `1_000` stay
//! texts, which a field of numbers rejects by name. The merge key `<<` adds the entries of a map, or of a list of maps,
//! under keys that its own map does not have. Bounds and faults are those of resources.

use serde_json::{Map, Number, Value};

use crate::{
    Diagnostics, Format, Limits, Source,
    location::Position,
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

/// Reads every document of a YAML text; empty ones are left out.
///
/// # Errors
/// The faults of the text; there are no documents then.
pub fn plain_documents(source: Source<'_>, limits: &Limits) -> Result<Vec<PlainDocument>, Diagnostics> {
    let (nodes, mut sink) = read_nodes(source, Position::START, Format::Yaml, limits);
    exceeds_documents(&nodes, limits, "documents", &mut sink);
    let lines = sink.lines.clone();
    sink.finish()?;
    let document = |node: Node| PlainDocument { line: lines.position(node.span.start).line, value: plain(node) };
    Ok(nodes.into_iter().map(document).collect())
}

fn plain(node: Node) -> Value {
    match node.value {
        node::Value::Null | node::Value::Wrong => Value::Null,
        node::Value::Bool(value) => Value::Bool(value),
        node::Value::Text(text) => Value::String(text),
        node::Value::Plain(text) | node::Value::Number(text) => scalar(text),
        node::Value::List(items) | node::Value::Blocks(items) => items.into_iter().map(plain).collect(),
        node::Value::Map(entries) => Value::Object(map(entries)),
    }
}

fn scalar(text: String) -> Value {
    if plain_null(&text) {
        return Value::Null;
    }
    match (plain_bool(&text), serde_json::from_str::<Number>(&text)) {
        (Some(value), _) => Value::Bool(value),
        (_, Ok(number)) => Value::Number(number),
        _ => Value::String(text),
    }
}

fn map(entries: Vec<Entry>) -> Map<String, Value> {
    let (mut map, mut added) = (Map::new(), Vec::new());
    for Entry { key, value, .. } in entries {
        match plain(value) {
            Value::Object(other) if key == MERGE_KEY => added.push(other),
            Value::Array(items) if key == MERGE_KEY && items.iter().all(Value::is_object) => {
                added.extend(
                    items.into_iter().filter_map(|item| if let Value::Object(map) = item { Some(map) } else { None }),
                );
            }
            value => drop(map.insert(key, value)),
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
