//! Reads HCL: one resource in the shape that Consul's command line takes.
//!
//! hcl-edit parses. Messages are blocks or objects, names are the format's own ([`crate::data::names::hcl_name`]), and
//! the only function is `gvk("group.version.Kind")`, which makes a type. There are no variables, so other expressions
//! have no use.

use std::collections::HashMap;

use hcl_edit::{
    Span as _,
    expr::{Expression, FuncCall, ObjectKey, UnaryOperator},
    structure::{Block, Body, Structure},
    template::{Element, Template},
};
use mortise_resource::{FieldPath, types::Gvk};

use crate::{
    diagnostic::DiagnosticSink,
    limits::Budget,
    location::{Position, Span},
    node::{Entry, Node, Value},
};

/// Largest HCL text, bytes.
const MAX_BYTES: usize = 1 << 20;

/// Most entries of an HCL text: the parser compares each entry with all others of its block; 60,000 took 150 s.
const MAX_ENTRIES: usize = 5_000;

/// Reads a text, which is one document.
pub(crate) fn read(text: &str, sink: &mut DiagnosticSink, budget: &mut Budget) -> Vec<Node> {
    let mut reader = Reader { text, sink, budget };
    // Every entry has one of these; those in strings count too, which is harmless at this size.
    let entries = text.bytes().filter(|byte| matches!(byte, b'=' | b':')).count();
    if text.len() > MAX_BYTES || entries > MAX_ENTRIES {
        let limits = format!("At most {MAX_BYTES} bytes with {MAX_ENTRIES} entries are read");
        reader.fault(Span::default(), format!("HCL text too large; {limits}. YAML and JSON have no such limit."));
        return Vec::new();
    }
    match hcl_edit::parser::parse_body(text) {
        Ok(body) => {
            if body.is_empty() {
                return Vec::new();
            }
            let Some(entries) = reader.body(&body, 1) else { return Vec::new() };
            let begin = entries.first().map(|entry| entry.key_span.start).unwrap_or_default();
            vec![Node::new(Span::new(begin, begin), Value::Map(entries))]
        }
        Err(error) => {
            let offset = error.location().offset();
            let rest = text.get(offset..).unwrap_or_default();
            let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
            if error.message().contains("redefined attribute") && !name.is_empty() {
                let message = format!("Attribute redefined; The argument {name:?} was already set.");
                reader.fault(Span::new(offset, offset + name.len()), message);
            } else {
                reader.fault(Span::new(offset, offset), format!("Invalid HCL; {}", error.message()));
            }
            Vec::new()
        }
    }
}

/// Whether the first line with content is a block or an attribute.
pub(crate) fn looks_like(text: &str) -> bool {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        rest = if let Some(comment) = rest.strip_prefix("/*") {
            match comment.split_once("*/") {
                Some((_, after)) => after.trim_start(),
                None => return true,
            }
        } else if rest.starts_with('#') || rest.starts_with("//") {
            match rest.split_once('\n') {
                Some((_, after)) => after.trim_start(),
                None => return false,
            }
        } else {
            break;
        };
    }
    let after_name = rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    after_name.len() < rest.len() && after_name.trim_start_matches([' ', '\t']).starts_with(['{', '='])
}

struct Reader<'a, 's> {
    text: &'a str,
    sink: &'s mut DiagnosticSink,
    budget: &'s mut Budget,
}

impl Reader<'_, '_> {
    fn fault(&mut self, span: Span, message: impl Into<String>) {
        self.sink.add(span, &FieldPath::default(), message, None);
    }

    fn body(&mut self, body: &Body, depth: usize) -> Option<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for structure in body {
            let (key, key_span) = match structure {
                Structure::Attribute(attribute) => (attribute.key.as_str(), span(attribute.key.span())),
                Structure::Block(block) => (block.ident.as_str(), span(block.ident.span())),
            };
            let value = match structure {
                Structure::Attribute(attribute) => self.expression(&attribute.value, depth + 1)?,
                Structure::Block(block) => self.block(block, key_span, depth + 1)?,
            };
            match (seen.get(key).and_then(|index| entries.get_mut(*index)), value.value) {
                (None, content) => {
                    seen.insert(key, entries.len());
                    entries.push(Entry { key: key.to_owned(), key_span, value: Node::new(value.span, content) });
                }
                (Some(Entry { value: Node { value: Value::Blocks(blocks), .. }, .. }), Value::Blocks(more)) => {
                    blocks.extend(more);
                }
                (Some(first), _) => {
                    let Position { line, column } = self.sink.lines.position(first.key_span.start);
                    let message = format!(
                        "Attribute redefined; The argument {key:?} was already set, at {}:{line},{column}.",
                        self.sink.file
                    );
                    self.fault(key_span, message);
                }
            }
        }
        Some(entries)
    }

    fn block(&mut self, block: &Block, key_span: Span, depth: usize) -> Option<Node> {
        self.budget.take(1, depth, key_span, self.sink)?;
        if let Some(label) = block.labels.first() {
            let name = block.ident.as_str();
            let message = format!("Extraneous label for {name}; No labels are expected for {name} blocks.");
            self.fault(span(label.span()), message);
        }
        let entries = self.body(&block.body, depth)?;
        Some(Node::new(key_span, Value::Blocks(vec![Node::new(key_span, Value::Map(entries))])))
    }

    /// Reads an expression. `None` once a limit is reached; other faults are reported and marked in the node.
    fn expression(&mut self, expression: &Expression, depth: usize) -> Option<Node> {
        let place = span(expression.span());
        self.budget.take(1, depth, place, self.sink)?;
        let value = match expression {
            Expression::Null(_) => Value::Null,
            Expression::Bool(value) => Value::Bool(*value.value()),
            Expression::Number(_) => Value::Number(self.literal(place)),
            Expression::UnaryOp(operation)
                if *operation.operator.value() == UnaryOperator::Neg && operation.expr.is_number() =>
            {
                Value::Number(format!("-{}", self.literal(span(operation.expr.span()))))
            }
            Expression::String(text) => Value::Text(text.value().clone()),
            Expression::StringTemplate(template) => self.template(template, place),
            Expression::HeredocTemplate(heredoc) => self.heredoc(&heredoc.template, place),
            Expression::Parenthesis(inner) => return self.expression(inner.inner(), depth + 1),
            Expression::Array(items) => {
                Value::List(items.iter().map(|item| self.expression(item, depth + 1)).collect::<Option<_>>()?)
            }
            Expression::Object(object) => {
                let mut entries = Vec::with_capacity(object.len());
                for (key, value) in object {
                    let (name, key_span) = match key {
                        ObjectKey::Ident(name) => (Some(name.as_str().to_owned()), span(name.span())),
                        ObjectKey::Expression(key) => {
                            let key_place = span(key.span());
                            (self.expression(key, depth + 1).and_then(|key| key_text(key.value)), key_place)
                        }
                    };
                    let value = self.expression(value.expr(), depth + 1)?;
                    match name {
                        Some(key) => entries.push(Entry { key, key_span, value }),
                        None => self.fault(key_span, "Invalid key; A key is a name or a string."),
                    }
                }
                Value::Map(entries)
            }
            Expression::FuncCall(call) => self.call(call, place),
            Expression::Variable(_) | Expression::Traversal(_) => {
                self.fault(place, "Variables not allowed; Variables may not be used here.");
                Value::Wrong
            }
            _ => {
                self.fault(place, "Unsupported expression; Values must be literal; gvk(\"…\") is the only function.");
                Value::Wrong
            }
        };
        Some(Node::new(place, value))
    }

    /// The literal of a number.
    fn literal(&self, place: Span) -> String {
        self.text.get(place.start..place.end).unwrap_or_default().trim().to_owned()
    }

    /// A string of literal parts.
    fn template<'e>(&mut self, elements: impl IntoIterator<Item = &'e Element>, location: Span) -> Value {
        let mut text = String::new();
        for element in elements {
            match element {
                Element::Literal(literal) => text.push_str(literal.value()),
                Element::Interpolation(_) | Element::Directive(_) => {
                    let place = element.span().map_or(location, |found| span(Some(found)));
                    self.fault(place, "Variables not allowed; Variables may not be used here. Write $${ for ${.");
                    return Value::Wrong;
                }
            }
        }
        Value::Text(text)
    }

    fn heredoc(&mut self, template: &Template, place: Span) -> Value {
        self.template(template, place)
    }

    fn call(&mut self, call: &FuncCall, place: Span) -> Value {
        let name = call.name.name.as_str();
        if name != "gvk" || call.name.is_namespaced() {
            self.fault(
                place,
                format!("Call to unknown function; There is no function named {name:?}. The only function is gvk."),
            );
            return Value::Wrong;
        }
        let mut arguments = call.args.iter();
        let (Some(text), None) = (arguments.next().and_then(Expression::as_str), arguments.next()) else {
            let message = "Error in function call; Call to function \"gvk\" failed: it takes one string, \
                           such as gvk(\"demo.v2.Artist\").";
            self.fault(place, message);
            return Value::Wrong;
        };
        match text.parse() {
            Ok(Gvk { group, group_version, kind }) => {
                let entry = |key: &str, value| Entry {
                    key: key.to_owned(),
                    key_span: place,
                    value: Node::new(place, Value::Text(value)),
                };
                Value::Map(vec![entry("Group", group), entry("GroupVersion", group_version), entry("Kind", kind)])
            }
            Err(_) => {
                let message = format!(
                    "Error in function call; Call to function \"gvk\" failed: GVK string must be in the form \
                     <Group>.<GroupVersion>.<Kind>, got: {text}"
                );
                self.fault(place, message);
                Value::Wrong
            }
        }
    }
}

fn key_text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) | Value::Number(text) => Some(text),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

fn span(range: Option<std::ops::Range<usize>>) -> Span {
    range.map(|range| Span::new(range.start, range.end)).unwrap_or_default()
}
