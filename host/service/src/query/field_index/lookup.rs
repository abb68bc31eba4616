//! Questions to the index of a type, and their answers: look-ups by values, and walks in the order of values.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

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

/// A request for the resources whose key is in a range, in the order of keys and places. Resources with unknown values
/// come first.
#[derive(Clone)]
pub(crate) struct Walk {
    /// The field, by its number in the declaration.
    pub(crate) field: usize,
    pub(crate) low: Bound<String>,
    pub(crate) high: Bound<String>,
    /// Whether absent values belong to it, which precede all keys.
    pub(crate) with_absent: bool,
    /// Whether keys and places descend.
    pub(crate) is_descending: bool,
    /// The key and the place behind which it begins.
    pub(crate) start: Option<(String, String)>,
    /// Query that bounds the places; its type is that of the index.
    pub(crate) query: Arc<Query>,
}

/// A position in a walk: a key, or `None` among the resources with unknown values, and a place.
pub(crate) type WalkPosition = (Option<String>, String);

/// A page of a walk: resources in its order, with their keys.
#[derive(Debug)]
pub(crate) struct WalkPage {
    pub(in crate::query) found: Vec<(Option<String>, ListKey)>,
    /// Position behind which the next page begins; `None` after the last.
    pub(crate) next: Option<WalkPosition>,
    /// Number of entries of the range in all places, counted up to [`MAX_COUNTED`].
    pub(in crate::query) entries: usize,
}

/// Entries of a range up to which they are counted.
pub(crate) const MAX_COUNTED: usize = 10_000;

/// A question that waits for its answer.
pub(super) enum Question {
    Find { lookup: Lookup, after: Option<ListKey>, answer: oneshot::Sender<LookupPage> },
    Walk { walk: Walk, after: Option<WalkPosition>, answer: oneshot::Sender<WalkPage> },
}
