//! What is wrong in a manifest.

use std::{borrow::Cow, error::Error, fmt};

/// A fault in a manifest: the place, such as `controller "x": watch of demo.v2.Artist`, and what is wrong there, with
/// what to do.
#[derive(Debug)]
pub struct ManifestError {
    place: String,
    fault: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ManifestError {
    /// A fault whose place is given by [`ManifestError::at`].
    pub(crate) fn new(fault: impl Into<Cow<'static, str>>) -> Self {
        Self { place: String::new(), fault: fault.into(), source: None }
    }

    /// A fault that another error tells, in its words.
    pub(crate) fn of(source: impl Error + Send + Sync + 'static) -> Self {
        Self { fault: source.to_string().into(), source: Some(Box::new(source)), ..Self::new("") }
    }

    /// The same fault inside of `place`.
    #[must_use]
    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = format!("{place}: {}", self.place);
        self
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.fault)
    }
}

impl Error for ManifestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
