//! Reads texts into trees of [`Node`](crate::node::Node)s: one file for each format.

pub(crate) mod hcl;
pub(crate) mod json;
pub(crate) mod yaml;

use mortise_resource::FieldPath;

use crate::{
    diagnostic::DiagnosticSink,
    location::{Position, Span},
    node::Entry,
};

/// Reports repeated keys of a map, and keeps the first of each.
pub(crate) fn refuse_duplicates(entries: &mut Vec<Entry>, sink: &mut DiagnosticSink) {
    let mut seen: std::collections::HashMap<String, Span> = std::collections::HashMap::with_capacity(entries.len());
    entries.retain(|entry| match seen.get(&entry.key) {
        Some(first) => {
            let Position { line, column } = sink.lines.position(first.start);
            let message = format!("the key {:?} occurs twice", entry.key);
            let remedy = format!("the first is at line {line}, column {column}");
            sink.add(entry.key_span, &FieldPath::default(), message, Some(remedy));
            false
        }
        None => {
            seen.insert(entry.key.clone(), entry.key_span);
            true
        }
    });
}
