//! A look-up in the index of a type, and its answer.

use std::{collections::BTreeSet, sync::Arc};

use mortise_store::{ListKey, Query};
use tokio::sync::oneshot;

/// A request for the resources with one of some values.
#[derive(Clone)]
pub(crate) struct Lookup {
    /// The field, by its number in the declaration.
    pub(crate) field: usize,
    pub(crate) values: Arc<BTreeSet<String>>,
    /// Query that bounds the places; its type is that of the index.
    pub(crate) query: Arc<Query>,
}

/// The answer to a look-up: some places, in order.
#[derive(Debug)]
pub(crate) struct LookupPage {
    pub(in crate::query) places: Vec<ListKey>,
    /// ListKey behind which the next look-up begins; `None` after the last.
    pub(crate) next: Option<ListKey>,
    /// Number of entries for the values, in all places.
    pub(in crate::query) entries: usize,
}

/// A look-up behind a place.
pub(super) struct PendingLookup {
    pub(super) lookup: Lookup,
    pub(super) after: Option<ListKey>,
    pub(super) answer: oneshot::Sender<LookupPage>,
}
