//! Follows one page of a query's results: `mortise get --watch` with an order or a page size.

use mortise_resource::{
    data::{
        ResourceChange, SearchRequest, WatchResourcesRequest,
        resource_change::{Added, ChangeType, Modified, Removed},
    },
    goten::WatchType,
    pb,
    types::gvk,
};

use crate::{CliError, Exit, Session, resources::search::Found};

/// Shows the page now and after each change, until the server ends the watch or the output is closed. A reset by the
/// server empties the page first.
pub(super) async fn follow(
    session: &Session,
    query: SearchRequest,
    mut show: impl AsyncFnMut(&Found) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let ty = query.r#type.clone().unwrap_or_default();
    let request = WatchResourcesRequest::from_search(query, WatchType::Stateful, String::new());
    let opened = session.call(gvk(&ty), async { session.watches().watch_resources(request).await });
    let mut messages = opened.await?;
    let mut page = Found::default();
    while let Some(message) = messages.message().await.map_err(|status| CliError::rpc(gvk(&ty), &status))? {
        if message.is_hard_reset || message.is_soft_reset {
            page = Found::default();
        }
        for change in message.changes {
            apply(&mut page.resources, change);
        }
        if let Some(tokens) = message.page_token_change {
            (page.before, page.after) = (tokens.prev_page_token, tokens.next_page_token);
        }
        if message.is_current {
            show(&page).await?;
        }
    }
    Err(CliError::new(Exit::Unreachable, "the server ended the watch").remedy("run the command again"))
}

/// Applies a change to a page; the indices are those at this moment.
fn apply(page: &mut Vec<pb::Resource>, change: ResourceChange) {
    let position = |index: i32| usize::try_from(index).unwrap_or(usize::MAX);
    let mut take = |index: usize| (index < page.len()).then(|| page.remove(index));
    let put = match change.change_type {
        Some(ChangeType::Added(Added { resource, view_index })) => Some((view_index, resource)),
        Some(ChangeType::Modified(Modified { resource, previous_view_index, view_index, .. })) => {
            take(position(previous_view_index));
            Some((view_index, resource))
        }
        Some(ChangeType::Removed(Removed { view_index, .. })) => {
            take(position(view_index));
            None
        }
        Some(ChangeType::Current(_)) | None => None,
    };
    if let Some((index, Some(resource))) = put {
        page.insert(position(index).min(page.len()), resource);
    }
}
