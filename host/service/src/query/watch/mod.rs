//! Watches by what is in resources: of one, of a page, and of everything that matches.
//!
//! # Contract
//! A watch of a page (STATEFUL) shows after each message that is current what a search with the same arguments shows as
//! of one commit. A watch of everything (STATELESS) sends what matches as of one commit, and then every change of it,
//! each once, in commit order; its resume tokens are positions in the history of the store, and outlive the server.
//! Whether a change concerns a watch is judged by what the resource was and is, so what leaves a filter is told
//! as removed, also to who was away. Only where the history does not have what a resource was, it may be told as
//! removed to who never had it.
//!
//! Who reads slowly is brought up to date from the history, or, where that does not reach back, is told to
//! forget everything (a hard reset) and gets a new snapshot. Nothing is left out unnoticed.
//!
//! # Limits
//! Those of every watch ([`open_watch`](crate::lists::open_watch)). Snapshots and replays wait for one of the places among
//! `service.max_snapshots`, pages for room among `service.list_bytes`, which they hold until the client has taken them. The
//! pages of all watches hold [`VIEWS`](crate::service::VIEWS) of keys and ids together.
//!
//! # Cost
//! A watch that requires names, one tenancy, or values of labels or of fields hears of changes of resources only that have
//! these, before or after ([`terms`]); any other evaluates each change of its type. A page that loses a row while more follow it is read again, as often as leaves half of the time
//! to others.

mod page_view;
mod session;
mod single;
mod stateful;
mod stateless;
mod terms;

use mortise_resource::{
    Error,
    data::{SearchRequest, WatchResourcesRequest, WatchResourcesResponse},
    goten::WatchType,
};

pub use crate::query::watch::single::ResourceChanges;
use crate::{
    call::{
        audit::{Call, Method},
        caller::Caller,
    },
    query::watch::{session::Session, stateful::Stateful, stateless::Stateless},
    service::ResourceService,
};

/// An open watch of many resources. Dropping it closes it.
pub struct ResourcesChanges(Kind);

enum Kind {
    Stateful(Box<Stateful>),
    Stateless(Box<Stateless>),
}

impl ResourceService {
    /// Opens a watch of resources of a type.
    ///
    /// # Errors
    /// Those of [`ResourceService::search`]; `InvalidArgument`: fields of the other type of watch, a resume token that is
    /// none, a starting time in the future; `ResourceExhausted`: too many watches.
    pub async fn watch_resources(
        &self,
        caller: &Caller,
        request: WatchResourcesRequest,
    ) -> Result<ResourcesChanges, Error> {
        let mut call = Call::begin(&self.core, caller, Method::WatchResources).await?;
        call.about_many(request.resource_type.as_ref(), request.tenancy.as_ref(), &request.parent);
        let opened = self.resources_watched(caller, request).await;
        call.end(opened).await
    }

    async fn resources_watched(
        &self,
        caller: &Caller,
        request: WatchResourcesRequest,
    ) -> Result<ResourcesChanges, Error> {
        let kind = WatchType::try_from(request.r#type)
            .map_err(|_| Error::invalid(format!("type: there is no watch type {}", request.r#type)))?;
        check(kind, &request)?;
        let chunk = usize::try_from(request.max_chunk_size).map_err(|_| {
            Error::invalid(format!("max_chunk_size: {} is negative; say 0 for the default", request.max_chunk_size))
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
        };
        let session = Session::open(self, caller, query).await?;
        Ok(ResourcesChanges(match kind {
            WatchType::Stateful => Kind::Stateful(Box::new(Stateful::new(session, chunk))),
            WatchType::Stateless => {
                let watch = Stateless::new(session, chunk, &request.resume_token, request.starting_time)?;
                Kind::Stateless(Box::new(watch))
            }
        }))
    }
}

/// Refuses what belongs to the other type of watch.
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
            Kind::Stateful(watch) => watch.next().await,
            Kind::Stateless(watch) => watch.next().await,
        }
    }
}

/// A message that is no report of a size.
fn message() -> WatchResourcesResponse {
    WatchResourcesResponse { snapshot_size: -1, ..WatchResourcesResponse::default() }
}
