//! Queries by content: GET of a collection with a filter, a selector, an order, a page or fields; and GET of a part of
//! a resource.
//!
//! A page is printed while it is sent, some resources at a time, like a list.

use std::{convert::Infallible, vec};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream};
use mortise_resource::{
    Code, Error,
    data::{BatchGetRequest, QueryPlan, SearchResponse},
    pb,
};
use serde_json::{Value, json};

use super::{
    collection::PORTION_BYTES,
    error::HttpError,
    json::{JSON, Printer, pretty},
    link,
    request::TypeRequest,
};
use crate::call::{run_guarded, span, type_span};

/// GET of a collection: answers one page.
pub(super) async fn search(request: TypeRequest) -> Result<Response, HttpError> {
    let caller = request.caller_of_list();
    let rpc = request.query.search(request.kind.gvk.to_pb())?;
    let (counts, span) = (rpc.include_paging_info, type_span("query.Search", rpc.r#type.as_ref()));
    let found = run_guarded(span, Box::pin(request.shared.service.search(&caller, rpc))).await?;
    let SearchResponse {
        resources,
        prev_page_token,
        next_page_token,
        current_offset,
        total_results_count,
        plan,
        at,
        resume_token,
    } = found;
    let links = link::pages(&request.parts.uri, &next_page_token, &prev_page_token, &at);
    let mut rest = Vec::new();
    for (key, token) in [
        ("prevPageToken", prev_page_token),
        ("nextPageToken", next_page_token),
        ("at", at),
        ("resumeToken", resume_token),
    ] {
        if !token.is_empty() {
            rest.push((key, token.into()));
        }
    }
    if counts {
        rest.push(("currentOffset", current_offset.into()));
        rest.push(("totalResultsCount", total_results_count.into()));
    }
    if let Some(plan) = plan {
        rest.push(("plan", plan_json(&plan)));
    }
    let printer = request.printer().with_whole_meta(request.query.has_projection());
    let pieces = Pieces { printer, resources: resources.into_iter(), rest, begun: false, is_done: false };
    let mut answer = ([JSON], Body::from_stream(stream::iter(pieces).map(Ok::<_, Infallible>))).into_response();
    answer.headers_mut().extend(links);
    Ok(answer)
}

/// A page being printed, in pieces.
struct Pieces {
    printer: Printer,
    resources: vec::IntoIter<pb::Resource>,
    /// Keys and values after the resources.
    rest: Vec<(&'static str, Value)>,
    begun: bool,
    is_done: bool,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let mut piece = String::new();
        while piece.len() < PORTION_BYTES
            && let Some(resource) = self.resources.next()
        {
            piece.push_str(if self.begun { ",\n    " } else { "{\n  \"resources\": [\n    " });
            // Strings in JSON contain no raw line break.
            piece.push_str(&self.printer.pretty(&resource).replace('\n', "\n    "));
            self.begun = true;
        }
        if self.resources.as_slice().is_empty() {
            piece.push_str(if self.begun { "\n  ]" } else { "{\n  \"resources\": []" });
            for (key, value) in &self.rest {
                piece.push_str(&format!(",\n  \"{key}\": {}", pretty(value).replace('\n', "\n  ")));
            }
            piece.push_str("\n}");
            self.is_done = true;
        }
        Some(piece.into())
    }
}

/// GET of an item with a view or fields: answers a part of the resource.
pub(super) async fn read_part(request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let caller = request.caller();
    let (view, field_mask) = request.query.projection()?;
    let id = request.id(name);
    let span = span("query.BatchGet", Some(&id));
    let rpc = BatchGetRequest { ids: vec![id], field_mask, view };
    let found = run_guarded(span, Box::pin(request.shared.service.batch_get(&caller, rpc))).await?;
    let resource = found.resources.first().ok_or_else(|| Error::new(Code::NotFound, "resource not found"))?;
    Ok(([JSON], request.printer().with_whole_meta(true).pretty(resource)).into_response())
}

/// The plan of a query in JSON.
fn plan_json(plan: &QueryPlan) -> Value {
    json!({
        "access": plan.access().as_str_name().trim_start_matches("ACCESS_"),
        "keys": plan.keys,
        "scanned": plan.scanned,
        "decoded": plan.decoded,
        "matched": plan.matched,
        "sorted": plan.sorted,
        "durationUs": plan.duration_us,
    })
}
