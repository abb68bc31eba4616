//! Diagnostics: errors and warnings about a resource, with their place in it.

pub use mortise_resource::Severity;
use mortise_resource::{FieldPath, PathStep};

use crate::Failure;

/// An error or warning about a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity: an error refuses the request, a warning is reported to its caller.
    pub severity: Severity,
    /// Path of the place, from the resource down; empty for the resource as a whole.
    pub path: FieldPath,
    /// A sentence.
    pub summary: String,
    /// Details, or empty.
    pub detail: String,
}

impl Diagnostic {
    fn new(severity: Severity, summary: impl Into<String>) -> Self {
        Self { severity, path: FieldPath::default(), summary: summary.into(), detail: String::new() }
    }

    /// Sets the place: `.at(field("group_members").key("drums"))`.
    pub fn at(&mut self, path: Path) -> &mut Self {
        self.path = path.0;
        self
    }

    /// Adds details to the sentence.
    pub fn detail(&mut self, detail: impl Into<String>) -> &mut Self {
        self.detail = detail.into();
        self
    }
}

/// Diagnostics in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Makes an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Makes a list of one error: for `return Err(Diagnostics::refusal("…"))` in a mutate hook.
    pub fn refusal(summary: impl Into<String>) -> Self {
        Self(vec![Diagnostic::new(Severity::Error, summary)])
    }

    /// Adds an error, which refuses the request.
    pub fn error(&mut self, summary: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::new(Severity::Error, summary))
    }

    /// Adds a warning, which is reported to the caller of the request.
    pub fn warning(&mut self, summary: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::new(Severity::Warning, summary))
    }

    fn push(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        self.0.push_mut(diagnostic)
    }

    /// Whether the request is refused.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|one| one.severity != Severity::Warning)
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All sentences in one text.
    pub(crate) fn summaries(&self) -> String {
        self.0.iter().map(|one| one.summary.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// Iterates in the order of adding.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }
}

/// A refusal with the host's text: for `?` in hooks that call the host.
impl From<Failure> for Diagnostics {
    fn from(failure: Failure) -> Self {
        Self::refusal(failure.message)
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<T: IntoIterator<Item = Diagnostic>>(&mut self, more: T) {
        self.0.extend(more);
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Path to a place in a resource, step by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(FieldPath);

/// Path of a setting of the plugin, by its key.
#[must_use]
pub fn setting(key: &str) -> Path {
    Path(FieldPath::field(key))
}

/// Path of a field of the resource's data, by its protobuf name.
#[must_use]
pub fn field(name: &str) -> Path {
    Path(FieldPath::field("data")).field(name)
}

/// Path of a key in the resource's metadata.
#[must_use]
pub fn metadata(key: &str) -> Path {
    Path(FieldPath::field("metadata")).key(key)
}

impl Path {
    /// Appends a field of a message, by its protobuf name.
    #[must_use]
    pub fn field(self, name: &str) -> Self {
        self.step(PathStep::Field(name.to_owned()))
    }

    /// Appends an index of a list, from 0.
    #[must_use]
    pub fn index(self, index: u32) -> Self {
        self.step(PathStep::Index(index))
    }

    /// Appends a key of a map.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.step(PathStep::Key(key.to_owned()))
    }

    fn step(mut self, step: PathStep) -> Self {
        self.0.0.push(step);
        self
    }
}

impl From<Path> for FieldPath {
    fn from(path: Path) -> Self {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_refuse_and_warnings_do_not() {
        let mut diagnostics = Diagnostics::new();
        diagnostics.warning("odd").at(field("group_members").key("drums")).detail("nobody plays them");
        assert!(!diagnostics.has_errors());
        diagnostics.error("wrong").at(field("tracks").index(3));
        assert!(diagnostics.has_errors());
        let paths = diagnostics.iter().map(|one| one.path.to_string()).collect::<Vec<_>>();
        assert_eq!(paths, [r#"data.group_members["drums"]"#, "data.tracks[3]"]);
    }
}
