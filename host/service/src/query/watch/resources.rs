//! Watches of many resources of a type, of both types of watch.

use mortise_resource::{
    Error,
    data::{SearchRequest, WatchResourcesRequest, WatchResourcesResponse},
    goten::WatchType,
};

use super::{session::Session, stateful::Stateful, stateless::Stateless};
use crate::{call::Caller, query::queries::Queries};

/// An open watch of many resources. Dropping it closes it.
pub struct ResourcesChanges(WatchMode);

enum WatchMode {
    Stateful(Box<Stateful>),
    Stateless(Box<Stateless>),
}

impl Queries {
    /// Opens a watch of resources of a type.
    ///
    /// # Errors
    /// Those of [`crate::ResourceService::watch_resources`].
    pub(crate) async fn watch_resources(
        &self,
        caller: &Caller,
        request: WatchResourcesRequest,
    ) -> Result<ResourcesChanges, Error> {
        let kind = WatchType::try_from(request.r#type)
            .map_err(|_| Error::invalid(format!("type: {} is not a type of watch", request.r#type)))?;
        check(kind, &request)?;
        let chunk = usize::try_from(request.max_chunk_size).map_err(|_| {
            Error::invalid(format!("max_chunk_size: {} is negative; use 0 for the default", request.max_chunk_size))
        })?;
        let query = SearchRequest {
            r#type: request.resource_type,
            tenancy: request.tenancy,
            parent: request.parent,
            selector: request.selector,
            filter: request.filter,
            order_by: request.order_by,
            page_size: request.page_size,
            page_token: request.page_token,
            field_mask: request.field_mask,
            view: request.view,
            include_paging_info: false,
            explain: false,
            at: String::new(),
        };
        let session = Session::open(self, caller, query).await?;
        Ok(ResourcesChanges(match kind {
            WatchType::Stateful => WatchMode::Stateful(Box::new(Stateful::new(session, chunk))),
            WatchType::Stateless => {
                let watch = Stateless::new(session, chunk, &request.resume_token, request.starting_time)?;
                WatchMode::Stateless(Box::new(watch))
            }
        }))
    }
}

/// Refuses fields of the other type of watch.
fn check(kind: WatchType, request: &WatchResourcesRequest) -> Result<(), Error> {
    let (name, foreign) = match kind {
        WatchType::Stateful => (
            "STATEFUL",
            [
                ("resume_token", !request.resume_token.is_empty()),
                ("starting_time", request.starting_time.is_some()),
                ("", false),
            ],
        ),
        WatchType::Stateless => (
            "STATELESS",
            [
                ("page_size", request.page_size != 0),
                ("page_token", !request.page_token.is_empty()),
                ("order_by", !request.order_by.is_empty()),
            ],
        ),
    };
    match foreign.iter().find(|(_, is_given)| *is_given) {
        Some((field, _)) => Err(Error::invalid(format!("{field} is not for a {name} watch; leave it out"))),
        None => Ok(()),
    }
}

impl ResourcesChanges {
    /// Waits for the next message. Not safe to cancel.
    ///
    /// # Errors
    /// `Aborted`: the reader starts again. Any other error ends the watch, too.
    pub async fn next(&mut self) -> Result<WatchResourcesResponse, Error> {
        match &mut self.0 {
            WatchMode::Stateful(watch) => watch.next().await,
            WatchMode::Stateless(watch) => watch.next().await,
        }
    }
}
