//! Lists of existing resources for `terraform query`: a query of the server, a page at a time, with the identity of
//! each resource. Core takes as many as it wants, and makes `import` blocks of them.

use std::sync::Arc;

use mortise_resource::pb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    answer::Faults,
    diagnostic::{error, stored_warning, warning},
    identity,
    search::{MAX_LISTED_RESOURCES, Search, condition_faults},
    session::{Server, Session, resource},
    wire::{decode, encode},
};
use crate::{
    mapping::Divergences,
    proto::tfplugin6::{
        Diagnostic, DynamicValue,
        list_resource::{Event, Request},
    },
    schema::ResourceSchema,
    state::{hidden, id_text, state},
    value::Value,
};

/// Events that wait for core at most.
const MAX_WAITING_EVENTS: usize = 16;

/// The events of a list.
pub(super) type Events = ReceiverStream<Result<Event, Status>>;

type Sender = mpsc::Sender<Result<Event, Status>>;

/// Lists resources. The list ends when core has enough, or goes away.
pub(super) fn list(session: Arc<Session>, request: Request) -> Events {
    let (events, receiver) = mpsc::channel(MAX_WAITING_EVENTS);
    tokio::spawn(async move {
        let sent = tokio::select! {
            sent = send_all(&session, &request, &events) => sent,
            () = events.closed() => return,
        };
        if let Err(diagnostic) = sent {
            // Core went away.
            _ = events.send(Ok(Event { diagnostic, ..Event::default() })).await;
        }
    });
    ReceiverStream::new(receiver)
}

/// Checks the condition of a list; skips unknown parts.
pub(super) fn check(schema: &ResourceSchema, config: Option<&DynamicValue>) -> Result<Faults, Faults> {
    let config = decode(config, &schema.query_type())?;
    Ok(condition_faults(schema, &config))
}

/// Sends an event for each resource, at most as many as core wants. The last one has a warning if there are more.
async fn send_all(session: &Session, request: &Request, events: &Sender) -> Result<(), Faults> {
    let types = session.schema().await?;
    let schema = resource(&types, &request.type_name)?;
    let config = decode(request.config.as_ref(), &schema.query_type())?;
    let server = session.server().await?;
    let limit = usize::try_from(request.limit).unwrap_or(0).min(MAX_LISTED_RESOURCES);
    let mut search = Search::new(schema, &server, &config)?;
    let (mut sent, mut held) = (0, None);
    while sent < limit {
        // The page may have a resource more than core wants, for the warning.
        let Some(page) = search.page(limit - sent + 1).await? else { break };
        for found in page {
            // The list goes on after the held resource.
            let Some(known) = held.replace(found) else { continue };
            sent += 1;
            let mut event = event(schema, &server, &known, request.include_resource_object);
            if sent == limit {
                event.diagnostic.push(cut(limit));
            }
            if events.send(Ok(event)).await.is_err() || sent == limit {
                return Ok(());
            }
        }
        if session.is_stopped() {
            return Err(vec![error("the list was stopped", "")]);
        }
    }
    if let Some(last) = held {
        // Core went away.
        _ = events.send(Ok(event(schema, &server, &last, request.include_resource_object))).await;
    }
    Ok(())
}

fn event(schema: &ResourceSchema, server: &Server, found: &pb::Resource, is_whole: bool) -> Event {
    let keys = &server.defaults.controller_keys;
    let (shown, faults) = state(schema, found, &Value::Null, &Divergences::default(), keys);
    let whole = is_whole.then(|| encode(&hidden(schema, &shown, &Value::Null))).flatten();
    Event {
        identity: identity::of_state(schema, &shown),
        display_name: found.id.as_ref().map(|id| id_text(schema.scope, id)).unwrap_or_default(),
        diagnostic: if is_whole { faults.iter().map(stored_warning).collect() } else { Vec::new() },
        resource_object: whole,
    }
}

fn cut(limit: usize) -> Diagnostic {
    let mut found = warning(format!("there are more than {limit} resources"));
    found.detail = match limit {
        MAX_LISTED_RESOURCES => "A list has no more. Narrow it with filter, selector or name_prefix.".to_owned(),
        _ => "Set limit in the list block to a higher number, or narrow the list with filter, selector or name_prefix."
            .to_owned(),
    };
    found
}
