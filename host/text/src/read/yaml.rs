//! Reads YAML 1.2: any number of documents.
//!
//! granit-parser parses. Scalars without quotes keep their text, since the field decides their type. Aliases are
//! replaced by their values. Each copy counts against [`crate::Limits::values`], and its text against
//! [`crate::Limits::bytes`]; this stops a "billion laughs" file.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use mortise_resource::FieldPath;

use crate::{
    diagnostic::DiagnosticSink,
    limits::Budget,
    location::Span,
    node::{Entry, Node, Value, plain_bool, plain_null},
    read::refuse_duplicates,
};

/// Reads every document of a text; empty ones are left out. The documents before a syntax error are returned, so that
/// their faults are found too.
pub(crate) fn read(text: &str, sink: &mut DiagnosticSink, budget: &mut Budget) -> Vec<Node> {
    let mut builder = Builder { sink, budget, open: Vec::new(), anchors: HashMap::new(), documents: Vec::new() };
    let options = granit_parser::options! { emit_comments: false };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => {
                let range = span.byte_range().unwrap_or_default();
                if builder.event(event, Span::new(range.start, range.end)).is_none() {
                    break;
                }
            }
            Err(error) => {
                let offset = error.marker().byte_offset().unwrap_or(text.len());
                let message = format!("not YAML: {}", error.info());
                builder.sink.add(Span::new(offset, offset), &FieldPath::default(), message, None);
                break;
            }
        }
    }
    builder.documents
}

/// A list or a map that is not closed yet.
struct OpenCollection {
    span: Span,
    anchor: usize,
    size: Size,
    content: Content,
}

/// Size of a value.
#[derive(Clone, Copy)]
struct Size {
    /// Number of values, the value itself included.
    values: usize,
    /// Bytes of scalars and keys.
    bytes: usize,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, Span)> },
}

struct Builder<'s> {
    sink: &'s mut DiagnosticSink,
    budget: &'s mut Budget,
    open: Vec<OpenCollection>,
    /// Values of anchors with their sizes; `None` while the value is not closed.
    anchors: HashMap<usize, Option<(Node, Size)>>,
    documents: Vec<Node>,
}

impl Builder<'_> {
    /// Handles an event of the parser. `None` if reading must stop; the fault has been reported.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.budget.take(1, self.open.len() + 1, span, self.sink)?;
                let size = Size { values: 1, bytes: text.len() };
                let value = self.scalar(text.into_owned(), style, tag.as_deref(), span);
                self.keep_anchor(anchor, &value, size)?;
                self.push(value, size)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.collection(span, anchor, tag.as_deref(), "seq", Content::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                let content = Content::Map { entries: Vec::new(), key: None };
                self.collection(span, anchor, tag.as_deref(), "map", content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => {
                let Some(Some((node, size))) = self.anchors.get(&id) else {
                    self.fault(span, "the alias is inside the value that it refers to", None);
                    return None;
                };
                let size = *size;
                self.budget.take(size.values, self.open.len() + 1 + depth(node), span, self.sink)?;
                self.budget.copy(size.bytes, span, self.sink)?;
                let mut node = node.clone();
                node.span = span;
                self.push(node, size)
            }
            Event::DocumentStart(..) => {
                self.anchors.clear();
                Some(())
            }
            _ => Some(()),
        }
    }

    fn fault(&mut self, span: Span, message: &str, remedy: Option<String>) {
        self.sink.add(span, &FieldPath::default(), message, remedy);
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Node {
        let plain = style == ScalarStyle::Plain;
        let value = match tag.map(|tag| tag.core_suffix().ok_or_else(|| tag.original())) {
            None if plain => Value::Plain(text),
            None | Some(Ok("str")) => Value::Text(text),
            Some(Ok("null")) if plain_null(&text) => Value::Null,
            Some(Ok("int" | "float")) => Value::Plain(text),
            Some(Ok("bool")) if plain_bool(&text).is_some() => Value::Plain(text),
            Some(Ok(tag)) => {
                self.fault(span, &format!("{text:?} is not a value of its tag !!{tag}"), None);
                Value::Text(text)
            }
            // The non-specific tag makes a scalar a string.
            Some(Err(tag)) if tag == "!" => Value::Text(text),
            Some(Err(tag)) => {
                self.unknown_tag(span, &tag);
                Value::Text(text)
            }
        };
        Node::new(span, value)
    }

    fn unknown_tag(&mut self, span: Span, tag: &str) {
        self.fault(span, &format!("the tag {tag} is unknown"), Some("leave it out; the field decides the type".into()));
    }

    fn collection(
        &mut self,
        span: Span,
        anchor: usize,
        tag: Option<&Tag>,
        expected: &str,
        content: Content,
    ) -> Option<()> {
        self.budget.take(1, self.open.len() + 1, span, self.sink)?;
        if let Some(tag) = tag
            && !tag.is_yaml_core_schema_tag(expected)
            && tag.original() != "!"
        {
            self.unknown_tag(span, &tag.original());
        }
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(OpenCollection { span, anchor, size: Size { values: 1, bytes: 0 }, content });
        Some(())
    }

    fn close(&mut self, end: Span) -> Option<()> {
        let open = self.open.pop()?;
        let value = match open.content {
            Content::List(items) => Value::List(items),
            Content::Map { mut entries, .. } => {
                refuse_duplicates(&mut entries, self.sink);
                Value::Map(entries)
            }
        };
        let node = Node::new(Span::new(open.span.start, end.end), value);
        self.keep_anchor(open.anchor, &node, open.size)?;
        self.push(node, open.size)
    }

    /// Keeps a copy of an anchor's value; nested anchors keep one each, so each copy counts against the limits.
    fn keep_anchor(&mut self, anchor: usize, node: &Node, size: Size) -> Option<()> {
        if anchor > 0 {
            self.budget.take(size.values, 1, node.span, self.sink)?;
            self.budget.copy(size.bytes, node.span, self.sink)?;
            self.anchors.insert(anchor, Some((node.clone(), size)));
        }
        Some(())
    }

    /// Adds a finished value to its parent, or to the documents.
    fn push(&mut self, node: Node, size: Size) -> Option<()> {
        let Some(parent) = self.open.last_mut() else {
            if !node.is_null() {
                self.documents.push(node);
            }
            return Some(());
        };
        parent.size.values += size.values;
        parent.size.bytes += size.bytes;
        match &mut parent.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key } => match key.take() {
                Some((key, key_span)) => entries.push(Entry { key, key_span, value: node }),
                None => match node.value {
                    Value::Text(text) | Value::Plain(text) => *key = Some((text, node.span)),
                    _ => {
                        self.fault(node.span, "a key must be a string", None);
                        return None;
                    }
                },
            },
        }
        Some(())
    }
}

/// Levels of lists and maps in a value.
fn depth(node: &Node) -> usize {
    match &node.value {
        Value::List(items) | Value::Blocks(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|entry| depth(&entry.value)).max().unwrap_or(0),
        _ => 0,
    }
}
