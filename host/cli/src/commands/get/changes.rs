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

use super::watch::{EventKind, Printer};
use crate::{CliError, CriticalSection, Exit, Session};

/// Pause before an ended watch is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Prints events until Ctrl-C, until the server is gone, or until the output is closed. Ctrl-C prints the token of the
/// last change.
pub(super) async fn follow(
    session: &Session,
    query: SearchRequest,
    resume: String,
    printer: Printer<'_>,
) -> Result<Exit, CliError> {
    let mut changes = Changes { resume, is_current: false, printer };
    let _section = CriticalSection::enter();
    let ended = tokio::select! {
        ended = changes.follow(session, &query) => ended,
        interrupted = tokio::signal::ctrl_c() => match interrupted {
            Ok(()) => Ok(Exit::Interrupted),
            Err(error) => Err(CliError::failed("cannot listen for Ctrl-C").caused_by(error)),
        },
    };
    if !changes.resume.is_empty() {
        changes.printer.ui().note(&format!("to continue from here: --resume {}", changes.resume));
    }
    ended
}

struct Changes<'c> {
    /// Token of the position reached; empty before the end of the first snapshot.
    resume: String,
    /// Whether events are changes by now, and no longer the initial state.
    is_current: bool,
    printer: Printer<'c>,
}

impl Changes<'_> {
    async fn follow(&mut self, session: &Session, query: &SearchRequest) -> Result<Exit, CliError> {
        let ty = query.r#type.clone().unwrap_or_default();
        loop {
            // After a position there are only changes.
            self.is_current = !self.resume.is_empty();
            let request = WatchResourcesRequest::from_search(query.clone(), WatchType::Stateless, self.resume.clone());
            let opened = session.call(gvk(&ty), async { session.watches().watch_resources(request).await });
            let mut messages = opened.await?;
            loop {
                match messages.message().await {
                    Ok(Some(message)) => self.print(message)?,
                    Ok(None) => break,
                    Err(status) if status.code() == tonic::Code::Aborted => {
                        let why = status.message();
                        self.printer.ui().warn(&format!("the server ended the watch: {why}; continuing"));
                        break;
                    }
                    Err(status) => return Err(CliError::rpc(gvk(&ty), &status)),
                }
            }
            tokio::time::sleep(REOPEN_PAUSE).await;
        }
    }

    fn print(&mut self, message: WatchResourcesResponse) -> Result<(), CliError> {
        if message.is_hard_reset || message.is_soft_reset {
            self.printer.ui().warn("the server cannot continue from there; all matching resources follow again");
            self.is_current = false;
            self.resume.clear();
        }
        for change in message.changes {
            match change.change_type {
                Some(ChangeType::Current(Current { resource: Some(resource) })) => {
                    let kind = if self.is_current { EventKind::Written } else { EventKind::Present };
                    self.printer.event(kind, &resource)?;
                }
                Some(ChangeType::Removed(Removed { name, .. })) => {
                    let resource = pb::Resource { id: name, ..pb::Resource::default() };
                    self.printer.event(EventKind::Removed, &resource)?;
                }
                _ => {}
            }
        }
        if message.is_current {
            self.is_current = true;
            self.printer.complete()?;
            if !message.resume_token.is_empty() {
                self.printer.position(&message.resume_token)?;
                self.resume = message.resume_token;
            }
        }
        Ok(())
    }
}
