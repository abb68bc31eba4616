//! Patterns of names: `[partition/][namespace/]name`, with `-` for anything.

use mortise_resource::IdRef;

/// The reason why a text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NamePatternError {
    #[error("a segment of the name is empty; write [partition/][namespace/]name")]
    EmptySegment,
    #[error("the name has more than 3 segments; write [partition/][namespace/]name")]
    TooManySegments,
}

/// A pattern. `None` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamePattern {
    pub(crate) partition: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

impl NamePattern {
    /// Reads a pattern, from the right.
    pub(crate) fn parse(text: &str) -> Result<Self, NamePatternError> {
        let mut segments = text.rsplit('/').map(|segment| match segment {
            "" => Err(NamePatternError::EmptySegment),
            "-" => Ok(None),
            segment => Ok(Some(segment.to_owned())),
        });
        let mut next = || segments.next().transpose().map(Option::flatten);
        let (name, namespace, partition) = (next()?, next()?, next()?);
        match segments.next() {
            Some(_) => Err(NamePatternError::TooManySegments),
            None => Ok(Self { partition, namespace, name }),
        }
    }

    pub(crate) fn matches(&self, id: IdRef<'_>) -> bool {
        let is = |pattern: &Option<String>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern == text);
        is(&self.name, id.name) && is(&self.namespace, id.namespace) && is(&self.partition, id.partition)
    }
}
