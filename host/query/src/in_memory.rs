//! Searches and updates of resources in memory, for the hosts that plugins are tested with.
//!
//! Both behave as the server's do. The caller chooses resources by type, tenancy and name, and passes them in the order
//! of names. Supported are filter, selector, order, pages in both directions, views and masks, and of updates
//! conditions and masks.
//!
//! # Limits
//! The paths of the views BASIC and DETAIL come from the type's plugin and are not known here, so these views show what
//! the mask shows. Answers have no query plan and no version. An update checks its own condition,
//! and neither owner nor version.
//!
//! # Cost
//! Each search encodes all given resources, and sorts all matches.

use mortise_resource::{
    EncodedResource,
    data::{SearchRequest, SearchResponse, UpdateRequest},
    goten::View,
    pb, resource_meta,
};

use crate::{
    Binding, Candidate, Direction, Filter, Mask, OrderBy, PageToken, QueryError, Schema, Selector, Undecodable,
    page_size,
};

/// Errors of a search or an update in memory.
#[derive(Debug, thiserror::Error)]
pub enum InMemoryError {
    /// The query is invalid.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A resource does not decode.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// A resource does not encode.
    #[error(transparent)]
    Encoding(#[from] mortise_resource::EncodingError),
    /// An update's condition does not hold.
    #[error("cas: the resource is not as conditional_state says")]
    Condition,
}

/// Answers one page of the matching resources.
///
/// # Errors
/// The query is invalid, or a resource does not decode by the schema.
pub fn search(
    resources: impl IntoIterator<Item = pb::Resource>,
    request: &SearchRequest,
    schema: &Schema,
) -> Result<SearchResponse, InMemoryError> {
    let filter = Filter::parse(&request.filter, schema)?;
    let selector = request.selector.as_ref().map(Selector::new).transpose()?;
    let order = OrderBy::parse(&request.order_by, schema)?;
    let size = page_size(request.page_size)?;
    let binding = Binding::new(&[request.filter.as_bytes(), request.order_by.as_bytes(), request.parent.as_bytes()]);
    let token = match request.page_token.as_str() {
        "" => None,
        text => Some(PageToken::decode(text, &binding, &order)?),
    };
    let view = View::try_from(request.view).unwrap_or_default();
    let paths = request.field_mask.as_ref().map(|mask| mask.paths.as_slice()).unwrap_or_default();
    let mask = Mask::of_view(view, None, paths, schema)?;

    let mut found = Vec::new();
    for mut resource in resources {
        resource_meta::complete_server_part(&mut resource);
        let encoded = EncodedResource::encode(&resource)?;
        let candidate = Candidate::new(&encoded, schema);
        let labels = resource.meta.as_ref().map(|meta| &meta.labels);
        let selected = selector.as_ref().is_none_or(|selector| selector.matches(labels.unwrap_or(&Default::default())));
        if selected && filter.matches(&candidate)? {
            found.push((order.key(&candidate)?, resource));
        }
    }
    found.sort_by(|(left, _), (other, _)| left.cmp(other));
    let total = found.len();
    let range = match &token {
        None => 0..size.min(total),
        Some(PageToken { direction, is_inclusive, boundary }) => match direction {
            Direction::Right => {
                let first = found.partition_point(|(key, _)| key < boundary || (!is_inclusive && key == boundary));
                first..first.saturating_add(size).min(total)
            }
            Direction::Left => {
                let end = found.partition_point(|(key, _)| key < boundary || (*is_inclusive && key == boundary));
                end.saturating_sub(size)..end
            }
        },
    };
    let beside = |offset: Option<usize>, direction| {
        let boundary = found.get(offset?).map(|(key, _)| key.clone())?;
        Some(PageToken { direction, is_inclusive: true, boundary }.encode(&binding)).filter(|_| !range.is_empty())
    };
    let prev_page_token = beside(range.start.checked_sub(1), Direction::Left).unwrap_or_default();
    let next_page_token = beside(Some(range.end), Direction::Right).unwrap_or_default();
    let page = found.get(range.clone()).unwrap_or_default().iter();
    let count = |number: usize| if request.include_paging_info { i32::try_from(number).unwrap_or(i32::MAX) } else { 0 };
    Ok(SearchResponse {
        resources: page.map(|(_, resource)| mask.project(resource)).collect::<Result<_, _>>()?,
        prev_page_token,
        next_page_token,
        current_offset: count(range.start),
        total_results_count: count(total),
        ..SearchResponse::default()
    })
}

/// Applies an update to a stored resource; returns the request's resource where none is stored.
///
/// # Errors
/// A mask is invalid, or the condition does not hold.
pub fn update(
    stored: Option<&pb::Resource>,
    request: &UpdateRequest,
    schema: &Schema,
) -> Result<pb::Resource, InMemoryError> {
    let incoming = request.resource.clone().unwrap_or_default();
    let Some(stored) = stored else { return Ok(incoming) };
    let paths =
        |mask: &Option<prost_types::FieldMask>| mask.as_ref().map(|mask| mask.paths.clone()).unwrap_or_default();
    if let Some(cas) = &request.cas {
        let expected = cas.conditional_state.clone().unwrap_or_default();
        if !Mask::parse(&paths(&cas.field_mask), schema)?.is_equal(stored, &expected)? {
            return Err(InMemoryError::Condition);
        }
    }
    let mut next = Mask::parse_write(&paths(&request.update_mask), schema)?.update(stored, &incoming)?;
    next.id.clone_from(&stored.id);
    next.version.clone_from(&stored.version);
    next.meta.get_or_insert_default();
    Ok(next)
}
