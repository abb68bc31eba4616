//! Faults of a case, not of the plugin, that keep the case from being run.

use std::{borrow::Cow, error::Error, io, path::PathBuf};

use mortise_plugin_host::LoadError;
use mortise_text::Diagnostics;

/// An error of another crate, or a text.
type BoxError = Box<dyn Error + Send + Sync>;

/// A case that cannot be run, or a recording that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseError {
    /// A rule of the format is broken; the text names it, and the correct form.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// The fields are not those of a case.
    #[error(transparent)]
    Fields(#[from] serde_json::Error),
    /// The value of a field cannot be used.
    #[error("{field}: {source}")]
    Field { field: String, source: BoxError },
    /// A resource cannot be read. Prints one fault a line.
    #[error("{}", lines(field, source))]
    Resource { field: String, source: Diagnostics },
    /// A file of the case cannot be read or written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File { verb: &'static str, path: PathBuf, source: io::Error },
    /// The plugin does not load with the settings and grants of the case.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store refuses a resource of the case.
    #[error(transparent)]
    Store(#[from] mortise_plugin::Failure),
}

impl CaseError {
    /// Makes an error about a field with an unusable value.
    pub(super) fn field(field: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Field { field: field.into(), source: source.into() }
    }

    /// Makes an error about a file, for `map_err`.
    pub(super) fn file(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { verb, path, source }
    }
}

impl From<String> for CaseError {
    fn from(text: String) -> Self {
        Self::Invalid(text.into())
    }
}

impl From<&'static str> for CaseError {
    fn from(text: &'static str) -> Self {
        Self::Invalid(text.into())
    }
}

/// Lists diagnostics by the path in the field, since their text is not that of a file.
fn lines(field: &str, found: &Diagnostics) -> String {
    let line = |fault: &mortise_text::Diagnostic| {
        let path = if fault.path.is_empty() { String::new() } else { format!(".{}", fault.path) };
        let remedy = fault.remedy.iter().map(|remedy| format!("; {remedy}")).collect::<String>();
        format!("{field}{path}: {}{remedy}", fault.message)
    };
    found.diagnostics.iter().map(line).collect::<Vec<_>>().join("\n")
}
