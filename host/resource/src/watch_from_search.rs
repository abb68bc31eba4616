//! The watch of what a search finds.

use crate::{
    data::{SearchRequest, WatchResourcesRequest},
    goten::WatchType,
};

impl WatchResourcesRequest {
    /// The watch of what a search finds, in its order if the kind has one; from a resume token on if there is one.
    #[must_use]
    pub fn from_search(search: SearchRequest, kind: WatchType, resume_token: String) -> Self {
        // Counts and plans are a search's alone.
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
