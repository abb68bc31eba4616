//! The newest published event.

use mortise_resource::EncodedResource;

use crate::Position;

/// The last event, with its resource if known.
#[derive(Default)]
pub(crate) struct PublishedHead {
    pub(crate) sequence: u64,
    pub(crate) carried: Option<EncodedResource>,
}

impl PublishedHead {
    /// Returns the position behind the event.
    pub(crate) fn position(&self) -> Position {
        match &self.carried {
            Some(resource) => Position::after(self.sequence, resource),
            // A position that matches no event, so that watches from it start again.
            None => Position { sequence: self.sequence, check: 0 },
        }
    }
}
