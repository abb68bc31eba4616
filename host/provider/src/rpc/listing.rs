//! Lists of existing resources for `terraform query`: a query of the server, a page at a time, with the identity of
//! each resource. Core takes as many as it wants, and makes `import` blocks of them.

use std::sync::Arc;

use mortise_query::{Filter, Schema, Selector, label_selector};
use mortise_resource::{
    data::{SearchRequest, SearchResponse},
    goten::LabelSelector,
    name, pb,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    answer::Faults,
    diagnostic::{error, error_at, stored_warning, warning},
    identity,
    read::{MAX_LISTED_RESOURCES, listed_place},
    session::{Server, Session, resource},
    wire::{decode, encode},
};
use crate::{
    mapping::Divergences,
    proto::tfplugin6::{
        DynamicValue,
        list_resource::{Event, Request},
    },
    schema::ResourceSchema,
    state::{hidden, id_text, state},
    value::{Step, Value},
};

/// Events that wait for core at most.
const MAX_WAITING_EVENTS: usize = 16;

/// Most resources of a page.
const MAX_PAGE: usize = 1_000;

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
    Ok(selector_and_faults(schema, &config).1)
}

/// The condition on labels, and the faults of the whole condition.
fn selector_and_faults(schema: &ResourceSchema, config: &Value) -> (Option<LabelSelector>, Faults) {
    let text = |attribute: &str| config.get(attribute).as_str().filter(|text| !text.is_empty());
    let at = |attribute: &str, fault: String| error_at(&[Step::Attribute(attribute.to_owned())], fault);
    let units = ["partition", "namespace"].into_iter();
    let mut faults: Faults = units
        .filter_map(|unit| Some(at(unit, text(unit).filter(|text| *text != "*").and_then(name::fault)?)))
        .collect();
    let fields = Schema::new(Some(schema.data.message.clone()));
    if let Some(Err(fault)) = text("filter").map(|text| Filter::parse(text, &fields)) {
        faults.push(at("filter", fault.to_string()));
    }
    let selector = text("selector").map(|text| {
        let selector = label_selector(text)?;
        Selector::new(&selector).map(|_| selector)
    });
    match selector.transpose() {
        Ok(selector) => (selector, faults),
        Err(fault) => {
            faults.push(at("selector", fault.to_string()));
            (None, faults)
        }
    }
}

/// The query of a condition, without the size of its page.
fn query(schema: &ResourceSchema, server: &Server, config: &Value) -> Result<SearchRequest, Faults> {
    let (selector, faults) = selector_and_faults(schema, config);
    if !faults.is_empty() {
        return Err(faults);
    }
    let text = |name: &str| config.get(name).as_str().unwrap_or_default().to_owned();
    Ok(SearchRequest {
        parent: text("name_prefix"),
        filter: text("filter"),
        selector,
        r#type: Some(schema.kind.clone()),
        tenancy: Some(listed_place(schema.scope, config, server)),
        // All pages are as of one version.
        at: "now".to_owned(),
        ..SearchRequest::default()
    })
}

/// Sends an event for each resource, at most as many as core wants. The last one has a warning if there are more.
async fn send_all(session: &Session, request: &Request, events: &Sender) -> Result<(), Faults> {
    let types = session.schema().await?;
    let schema = resource(&types, &request.type_name)?;
    let config = decode(request.config.as_ref(), &schema.query_type())?;
    let server = session.server().await?;
    let limit = usize::try_from(request.limit).unwrap_or(0).min(MAX_LISTED_RESOURCES);
    let mut query = query(schema, &server, &config)?;
    let (mut sent, mut held) = (0, None);
    while sent < limit {
        // The page may have a resource more than core wants, for the warning.
        let wanted = (limit - sent + 1).min(MAX_PAGE);
        query.page_size = i32::try_from(wanted).unwrap_or(i32::MAX);
        let page = server.client.search(query.clone()).await.map_err(|status| server.faults("listing", &status))?;
        let SearchResponse { resources, next_page_token, at, .. } = page;
        for found in resources {
            // The list goes on after the held resource.
            let Some(known) = held.replace(found) else { continue };
            sent += 1;
            let mut event = event(schema, &known, request.include_resource_object);
            if sent == limit {
                event.diagnostic.push(cut(limit));
            }
            if events.send(Ok(event)).await.is_err() || sent == limit {
                return Ok(());
            }
        }
        if next_page_token.is_empty() {
            break;
        }
        if session.is_stopped() {
            return Err(vec![error("the list was stopped", "")]);
        }
        // A server of an earlier version has no versions.
        (query.page_token, query.at) = (next_page_token, at);
    }
    if let Some(last) = held {
        // Core went away.
        _ = events.send(Ok(event(schema, &last, request.include_resource_object))).await;
    }
    Ok(())
}

fn event(schema: &ResourceSchema, found: &pb::Resource, is_whole: bool) -> Event {
    let (shown, faults) = state(schema, found, &Value::Null, &Divergences::default());
    let whole = is_whole.then(|| encode(&hidden(schema, &shown, &Value::Null))).flatten();
    Event {
        identity: identity::of_state(schema, &shown),
        display_name: found.id.as_ref().map(|id| id_text(schema.scope, id)).unwrap_or_default(),
        diagnostic: if is_whole { faults.iter().map(stored_warning).collect() } else { Vec::new() },
        resource_object: whole,
    }
}

fn cut(limit: usize) -> crate::proto::tfplugin6::Diagnostic {
    let mut found = warning(format!("there are more than {limit} resources"));
    found.detail = match limit {
        MAX_LISTED_RESOURCES => "A list has no more. Narrow it with filter, selector or name_prefix.".to_owned(),
        _ => "Set limit in the list block to a higher number, or narrow the list with filter, selector or name_prefix."
            .to_owned(),
    };
    found
}
