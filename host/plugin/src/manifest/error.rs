//! Faults in a manifest.

use std::{borrow::Cow, error::Error, fmt};

/// A fault in a manifest: the place, such as `controller "x": watch of demo.v2.Artist`, the fault, and the next step.
#[derive(Debug)]
pub struct ManifestError {
    place: String,
    fault: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ManifestError {
    /// Makes a fault; [`ManifestError::at`] adds its place.
    pub(crate) fn new(fault: impl Into<Cow<'static, str>>) -> Self {
        Self { place: String::new(), fault: fault.into(), source: None }
    }

    /// Makes a fault with the text of another error.
    pub(crate) fn caused_by(source: impl Error + Send + Sync + 'static) -> Self {
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
