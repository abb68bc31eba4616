//! A conversion from a search to the watch of its results.

use crate::{
    data::{SearchRequest, WatchResourcesRequest},
    goten::WatchType,
};

impl WatchResourcesRequest {
    /// Builds the watch of a search's results. Only a stateful watch, one that follows a page of the results, uses the
    /// search's order and page. A resume token, if not empty, continues an earlier watch.
    #[must_use]
    pub fn from_search(search: SearchRequest, kind: WatchType, resume_token: String) -> Self {
        // Counts, plans and versions exist for searches only.
        let SearchRequest {
            parent,
            page_size,
            page_token,
            order_by,
            filter,
            field_mask,
            view,
            r#type,
            tenancy,
            selector,
            include_paging_info: _,
            explain: _,
            at: _,
        } = search;
        Self {
            parent,
            page_size,
            page_token,
            order_by,
            filter,
            field_mask,
            view,
            r#type: kind.into(),
            resume_token,
            resource_type: r#type,
            tenancy,
            selector,
            ..Self::default()
        }
    }
}
