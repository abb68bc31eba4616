//! Bounds on the size of a text.

use mortise_resource::FieldPath;

use crate::{diagnostic::DiagnosticSink, location::Span};

/// Bounds of one text. All are finite by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of a text, bytes.
    pub bytes: usize,
    /// Values in a text (scalars, lists, maps), YAML's aliases expanded.
    pub values: usize,
    /// Nesting of lists and maps. Decoders of protobuf stop at 100 levels of messages.
    pub depth: usize,
    /// Resources in a text.
    pub documents: usize,
    /// Most diagnostics of a text; reading stops after them.
    pub diagnostics: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 64 << 20, values: 2_000_000, depth: 128, documents: 100_000, diagnostics: 20 }
    }
}

/// The unused part of [`Limits::values`], [`Limits::bytes`] and [`Limits::depth`] while a text is read.
#[derive(Debug)]
pub(crate) struct Budget {
    values: usize,
    /// Unused part of [`Limits::bytes`] for expanded aliases.
    copied: usize,
    limits: Limits,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { values: limits.values, copied: limits.bytes, limits: limits.clone() }
    }

    /// Takes bytes for the copy of a text that an alias means, or reports why that is not possible.
    pub(crate) fn copy(&mut self, bytes: usize, span: Span, sink: &mut DiagnosticSink) -> Option<()> {
        let Some(left) = self.copied.checked_sub(bytes) else {
            let message = format!("aliases expand to more than {} bytes", self.limits.bytes);
            sink.add(
                Span::new(span.start, span.start),
                &FieldPath::default(),
                message,
                Some("use fewer aliases".into()),
            );
            return None;
        };
        self.copied = left;
        Some(())
    }

    /// Takes some values at a depth (the outermost is 1), or reports why that is not possible. Reading must stop then.
    pub(crate) fn take(&mut self, values: usize, depth: usize, span: Span, sink: &mut DiagnosticSink) -> Option<()> {
        let at_fault = Span::new(span.start, span.start);
        if depth > self.limits.depth {
            let message = format!("nested more than {} levels deep", self.limits.depth);
            sink.add(at_fault, &FieldPath::default(), message, None);
            return None;
        }
        let Some(left) = self.values.checked_sub(values) else {
            let message = format!("more than {} values in one text", self.limits.values);
            sink.add(at_fault, &FieldPath::default(), message, Some("split it into several files".into()));
            return None;
        };
        self.values = left;
        Some(())
    }
}
