//! What a plugin has to say about a resource, and where in it.

pub use mortise_resource::Severity;
use mortise_resource::{FieldPath, PathStep};

use crate::Failure;

/// Something to say about a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error refuses the request, warning travels back to the caller.
    pub severity: Severity,
    /// Where, from the resource down; empty means the resource as a whole.
    pub path: FieldPath,
    /// One sentence.
    pub summary: String,
    /// More, or empty.
    pub detail: String,
}

impl Diagnostic {
    fn new(severity: Severity, summary: impl Into<String>) -> Self {
        Self { severity, path: FieldPath::default(), summary: summary.into(), detail: String::new() }
    }

    /// Says where it is: `.at(field("group_members").key("drums"))`.
    pub fn at(&mut self, path: Path) -> &mut Self {
        self.path = path.0;
        self
    }

    /// Says more than a sentence.
    pub fn detail(&mut self, detail: impl Into<String>) -> &mut Self {
        self.detail = detail.into();
        self
    }
}

/// Diagnostics in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Nothing to say.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One error: for `return Err(Diagnostics::refusal("…"))` in a mutate hook.
    pub fn refusal(summary: impl Into<String>) -> Self {
        Self(vec![Diagnostic::new(Severity::Error, summary)])
    }

    /// Adds an error; refuses the request.
    pub fn error(&mut self, summary: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::new(Severity::Error, summary))
    }

    /// Adds a warning; the request goes on, and its caller hears of it.
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

    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All sentences in one.
    pub(crate) fn summaries(&self) -> String {
        self.0.iter().map(|one| one.summary.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// In order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }
}

/// A refusal in the host's words: for `?` in hooks that ask the host for something.
impl From<Failure> for Diagnostics {
    fn from(failure: Failure) -> Self {
        Self::refusal(failure.message)
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

/// Where in a resource, step by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(FieldPath);

/// One of the plugin's settings, by its key.
#[must_use]
pub fn setting(key: &str) -> Path {
    Path(FieldPath::field(key))
}

/// A field of the resource's data, by its protobuf name.
#[must_use]
pub fn field(name: &str) -> Path {
    Path(FieldPath::field("data")).field(name)
}

/// A key of the resource's metadata.
#[must_use]
pub fn metadata(key: &str) -> Path {
    Path(FieldPath::field("metadata")).key(key)
}

impl Path {
    /// Into a field of a message, by its protobuf name.
    #[must_use]
    pub fn field(self, name: &str) -> Self {
        self.step(PathStep::Field(name.to_owned()))
    }

    /// Into a list, counted from zero.
    #[must_use]
    pub fn index(self, index: u32) -> Self {
        self.step(PathStep::Index(index))
    }

    /// Into a map.
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
