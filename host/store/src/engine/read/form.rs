//! The form in which a scan returns the resources of a page.

use std::thread;

use mortise_resource::EncodedResource;

use crate::{
    StoreError,
    engine::{
        read::walk::{Match, YIELD_KEYS},
        tree::{keys, table::Decoder},
    },
};

/// A form of resources.
pub(crate) trait Form: Clone + Send + 'static {
    /// Item of a page.
    type Item: Send + 'static;

    /// Makes the items of a page. Returns also the fault of the first resource that cannot be read; the items end
    /// before it.
    fn items(&self, matches: Vec<Match>, decoder: &Decoder) -> (Vec<Self::Item>, Option<StoreError>);
}

/// Resources with the positions of their parts.
#[derive(Clone)]
pub(crate) struct Parsed;

impl Form for Parsed {
    type Item = EncodedResource;

    fn items(&self, matches: Vec<Match>, decoder: &Decoder) -> (Vec<EncodedResource>, Option<StoreError>) {
        let mut resources = Vec::with_capacity(matches.len());
        for (number, Match { key, payload }) in matches.into_iter().enumerate() {
            yield_at(number);
            match decoder.parse(&key, payload) {
                Ok(resource) => resources.push(resource),
                Err(source) => return (resources, Some(unreadable(&key, source))),
            }
        }
        (resources, None)
    }
}

/// Yields the processor after each [`YIELD_KEYS`] items.
pub(crate) fn yield_at(number: usize) {
    if number > 0 && number.is_multiple_of(YIELD_KEYS) {
        thread::yield_now();
    }
}

/// Adds the place of a record to the error of its content.
pub(crate) fn unreadable(key: &[u8], source: StoreError) -> StoreError {
    match keys::resource_list_key(key) {
        Some(place) => StoreError::Unreadable { place: Box::new(place), source: Box::new(source) },
        None => source,
    }
}
