//! State of a decoder, and how it reports faults.

use mortise_resource::{FieldPath, PathStep, redaction::RedactedFields};

use crate::{
    Format, Types,
    diagnostic::DiagnosticSink,
    location::{Position, Span},
    node::{self, Node},
};

/// Turns nodes into messages and reports faults on the way. A fault in one field does not keep the others from being
/// checked.
pub(crate) struct Decoder<'a, 's> {
    pub(crate) types: &'a dyn Types,
    pub(crate) sink: &'s mut DiagnosticSink,
    /// Path of the current node, from the resource down.
    pub(crate) path: FieldPath,
    /// The text's name of the latest field; HCL's faults name it.
    pub(crate) argument: String,
    pub(super) redacted: RedactedFields,
    /// True if the data of resources within messages has the form of the HTTP API ([`super::embedded`]).
    pub(crate) embeds_resources: bool,
}

impl<'a, 's> Decoder<'a, 's> {
    pub(crate) fn new(types: &'a dyn Types, sink: &'s mut DiagnosticSink) -> Self {
        Self {
            types,
            sink,
            path: FieldPath::default(),
            argument: String::new(),
            redacted: RedactedFields::default(),
            embeds_resources: false,
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.sink.format
    }

    pub(crate) fn is_hcl(&self) -> bool {
        self.format() == Format::Hcl
    }

    /// Runs `inner` one step further down.
    pub(crate) fn within<T>(&mut self, step: PathStep, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.path.0.push(step);
        let result = inner(self);
        self.path.0.pop();
        result
    }

    /// Reports a fault of a value.
    pub(crate) fn fault(&mut self, span: Span, message: impl Into<String>, remedy: Option<String>) {
        let mut message = message.into();
        if self.is_hcl() && !self.argument.is_empty() {
            message = format!("Failed to unmarshal argument {}: {message}", self.argument);
        }
        self.sink.add(span, &self.path, message, remedy);
    }

    /// Reports that a value is of another kind than its field.
    pub(crate) fn mismatch(&mut self, node: &Node, expected: &str, remedy: Option<String>) {
        if node.value == node::Value::Wrong {
            return;
        }
        if let node::Value::Blocks(blocks) = &node.value
            && let [first, second, ..] = blocks.as_slice()
        {
            let name = self.argument.clone();
            let Position { line, column } = self.sink.lines.position(first.span.start);
            let message = format!(
                "Duplicate {name} block; Only one {name} block is allowed. The first is at {}:{line},{column}.",
                self.sink.file
            );
            self.sink.add(second.span, &self.path, message, None);
            return;
        }
        let bare = |text: &str| text.trim_start_matches("a ").trim_start_matches("an ").to_owned();
        let message = if self.is_hcl() {
            let actual = match node.kind() {
                "a map" => "object".to_owned(),
                "a boolean" => "bool".to_owned(),
                kind => bare(kind),
            };
            let expected = bare(expected).replace("boolean", "bool").replace("map", "object");
            format!("expected value of type {expected} but actual type is {actual}")
        } else {
            format!("expected {expected}, found {}", node.kind())
        };
        self.fault(node.span, message, remedy);
    }
}
