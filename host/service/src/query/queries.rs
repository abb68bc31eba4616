//! The state of queries: searches, and watches by the content of resources.

use std::sync::Arc;

use mortise_query::RecentlyDecoded;
use tokio::sync::Semaphore;

use super::{field_index::indexes::FieldIndexes, past::KeptVersions};
use crate::{core::Core, lists::Lists};

/// Bytes of the pages of all watches.
pub(super) const TOTAL_VIEW_BYTES: usize = 128 << 20;

/// State of searches and their watches. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Queries {
    pub(super) core: Core,
    pub(super) lists: Lists,
    /// Indexes of fields that types declare.
    pub(super) field_indexes: FieldIndexes,
    /// Contents that are kept for pages of one version.
    pub(super) kept: KeptVersions,
    /// Recently decoded data of watches.
    pub(super) decoded: Arc<RecentlyDecoded>,
    /// KiB of the pages of watches.
    pub(super) views: Arc<Semaphore>,
}

impl Queries {
    pub(crate) fn new(lists: &Lists) -> Self {
        let core = lists.core.clone();
        Self {
            field_indexes: FieldIndexes::new(core.options.index_bytes),
            kept: KeptVersions::new(),
            decoded: Arc::default(),
            views: Arc::new(Semaphore::new(TOTAL_VIEW_BYTES >> 10)),
            lists: lists.clone(),
            core,
        }
    }
}
