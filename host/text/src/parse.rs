//! Parses a text into its documents.

use std::sync::Arc;

use mortise_resource::FieldPath;

use crate::{
    Format, Types,
    diagnostic::{DiagnosticSink, Diagnostics},
    document::{self, Document},
    limits::{Budget, Limits},
    location::{Lines, Position, Span},
    node::Node,
    read,
};

impl Format {
    /// The format by the look of a text: JSON when it begins with `{` or `[`, HCL when its first line with content is a
    /// block or an attribute (`ID {`, `ID = …`), and YAML otherwise.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with(['{', '[']) {
            return Self::Json;
        }
        if read::hcl::looks_like(text) { Self::Hcl } else { Self::Yaml }
    }

    /// The format by the rule of Consul's command line: JSON when the text begins with `{`, HCL otherwise.
    #[must_use]
    pub fn of_consul_text(text: &str) -> Self {
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') { Self::Json } else { Self::Hcl }
    }
}

/// A text and its name.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file as its user named it; `-` is the standard input.
    pub name: &'a str,
    /// Content of the file.
    pub text: &'a str,
}

/// Reads every resource of a text, within the default [`Limits`]. Without a format, the extension of the name decides,
/// and after that the text.
///
/// # Errors
/// The faults of the text; there are no documents then.
pub fn parse(source: Source<'_>, format: Option<Format>, types: &dyn Types) -> Result<Vec<Document>, Diagnostics> {
    parse_within(source, format, types, &Limits::default())
}

/// Reads every resource of a text as [`parse`] does, within other limits.
///
/// # Errors
/// The faults of the text; there are no documents then.
pub fn parse_within(
    source: Source<'_>,
    format: Option<Format>,
    types: &dyn Types,
    limits: &Limits,
) -> Result<Vec<Document>, Diagnostics> {
    let format = format.or_else(|| Format::of_name(source.name)).unwrap_or_else(|| Format::of_text(source.text));
    parse_part(source, Position::START, format, types, limits)
}

/// Reads a part of a file that begins at `begin`.
pub(crate) fn parse_part(
    source: Source<'_>,
    begin: Position,
    format: Format,
    types: &dyn Types,
    limits: &Limits,
) -> Result<Vec<Document>, Diagnostics> {
    let (nodes, mut sink) = read_nodes(source, begin, format, limits);
    let nodes = document::split_collections(nodes);
    if exceeds_documents(&nodes, limits, "resources", &mut sink) {
        return sink.finish().map(|()| Vec::new());
    }
    let mut documents = Vec::with_capacity(nodes.len());
    for node in nodes {
        if sink.is_full() {
            break;
        }
        documents.extend(document::read(node, types, &mut sink));
    }
    sink.finish().map(|()| documents)
}

/// Reads the trees of a text, within the limits except that of documents.
pub(crate) fn read_nodes(
    Source { name, text }: Source<'_>,
    begin: Position,
    format: Format,
    limits: &Limits,
) -> (Vec<Node>, DiagnosticSink) {
    let too_long = text.len() > limits.bytes;
    let text = if too_long { "" } else { text.strip_prefix('\u{feff}').unwrap_or(text) };
    let mut sink = DiagnosticSink::new(name, format, Arc::new(Lines::new(text, begin)), limits.diagnostics);
    if too_long {
        let message = format!("the text is larger than {} bytes", limits.bytes);
        sink.add(Span::default(), &FieldPath::default(), message, Some("split it, or use import".to_owned()));
        return (Vec::new(), sink);
    }
    let mut budget = Budget::new(limits);
    let nodes = match format {
        Format::Yaml => read::yaml::read(text, &mut sink, &mut budget),
        Format::Json => read::json::read(text, &mut sink, &mut budget),
        Format::Hcl => read::hcl::read(text, &mut sink, &mut budget),
    };
    (nodes, sink)
}

/// Whether there are more documents than allowed; reports the first one beyond the limit.
pub(crate) fn exceeds_documents(nodes: &[Node], limits: &Limits, noun: &str, sink: &mut DiagnosticSink) -> bool {
    let Some(beyond) = nodes.get(limits.documents) else { return false };
    let message = format!("more than {} {noun} in one text", limits.documents);
    let start = Span::new(beyond.span.start, beyond.span.start);
    sink.add(start, &FieldPath::default(), message, Some("split it, or use import".into()));
    true
}
