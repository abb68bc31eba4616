//! Follows the results of a query: `mortise get --watch` with a filter, a selector, fields or a view.
//!
//! All matching resources come first, in no order, then the changes; a resource that no longer matches is removed. A
//! watch that the server ended continues from its last token, so that nothing is lost and nothing comes twice.

use std::time::Duration;

use mortise_resource::{
    data::{
        SearchRequest, WatchResourcesRequest, WatchResourcesResponse,
        resource_change::{ChangeType, Current, Removed},
    },
    goten::WatchType,
    pb,
    types::gvk,
};

use super::{sink::Sink, watch::EventKind};
use crate::{CliError, Session};

/// Pause before an ended watch is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Follows the result of a query from a position, or from its present resources if the position is empty, until the
/// server is gone or the output is closed. `resume` is the token of the position reached.
pub(super) async fn follow(
    session: &Session,
    query: &SearchRequest,
    resume: &mut String,
    sink: &mut impl Sink,
) -> Result<(), CliError> {
    let ty = query.r#type.clone().unwrap_or_default();
    loop {
        let request = WatchResourcesRequest::from_search(query.clone(), WatchType::Stateless, resume.clone());
        let opened = session.call(gvk(&ty), async { session.watches().watch_resources(request).await });
        let mut messages = opened.await?;
        // After a position there are only changes.
        let mut changes = Changes { resume, is_current: true };
        if changes.resume.is_empty() {
            changes.begin(sink).await?;
        }
        loop {
            match messages.message().await {
                Ok(Some(message)) => changes.take(message, sink).await?,
                Ok(None) => break,
                Err(status) if status.code() == tonic::Code::Aborted => {
                    let why = status.message();
                    sink.fault(&format!("the server ended the watch: {why}; continuing")).await?;
                    break;
                }
                Err(status) => return Err(CliError::rpc(gvk(&ty), &status)),
            }
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}

struct Changes<'c> {
    /// Token of the position reached; empty before the end of the first snapshot.
    resume: &'c mut String,
    /// True once events are changes, and no longer the initial state.
    is_current: bool,
}

impl Changes<'_> {
    async fn begin(&mut self, sink: &mut impl Sink) -> Result<(), CliError> {
        self.is_current = false;
        self.resume.clear();
        sink.begin().await
    }

    async fn take(&mut self, message: WatchResourcesResponse, sink: &mut impl Sink) -> Result<(), CliError> {
        if message.is_hard_reset || message.is_soft_reset {
            sink.fault("the server cannot continue from there; all matching resources follow again").await?;
            self.begin(sink).await?;
        }
        for change in message.changes {
            match change.change_type {
                Some(ChangeType::Current(Current { resource: Some(resource) })) => {
                    let kind = if self.is_current { EventKind::Written } else { EventKind::Present };
                    sink.event(kind, &resource).await?;
                }
                Some(ChangeType::Removed(Removed { name, .. })) => {
                    let resource = pb::Resource { id: name, ..pb::Resource::default() };
                    sink.event(EventKind::Removed, &resource).await?;
                }
                _ => {}
            }
        }
        if message.is_current {
            self.is_current = true;
            sink.complete(&message.resume_token).await?;
            if !message.resume_token.is_empty() {
                *self.resume = message.resume_token;
            }
        }
        Ok(())
    }
}
