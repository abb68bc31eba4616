//! Queries by content: GET of a collection with a filter, a selector, an order, a page or fields; and GET of a part of
//! one resource.

use axum::response::{IntoResponse as _, Response};
use mortise_resource::{
    Code, Error,
    data::{BatchGetRequest, QueryPlan, SearchResponse},
};
use serde_json::{Map, Value, json};

use super::{
    error::HttpError,
    json::{JSON, pretty},
    request::TypeRequest,
};
use crate::call::{guarded, span, span_of_type};

/// GET of a collection: one page.
pub(super) async fn search(request: TypeRequest) -> Result<Response, HttpError> {
    let caller = request.caller_of_list();
    let rpc = request.query.search(request.kind.gvk.to_pb())?;
    let (counts, span) = (rpc.include_paging_info, span_of_type("query.Search", rpc.r#type.as_ref()));
    let found = guarded(span, Box::pin(request.shared.service.search(&caller, rpc))).await?;
    let SearchResponse { resources, prev_page_token, next_page_token, current_offset, total_results_count, plan } =
        found;
    let printer = request.printer().with_whole_meta(request.query.is_part());
    let mut page = Map::new();
    page.insert("resources".to_owned(), resources.iter().map(|resource| printer.value(resource)).collect());
    for (key, token) in [("prevPageToken", prev_page_token), ("nextPageToken", next_page_token)] {
        if !token.is_empty() {
            page.insert(key.to_owned(), token.into());
        }
    }
    if counts {
        page.insert("currentOffset".to_owned(), current_offset.into());
        page.insert("totalResultsCount".to_owned(), total_results_count.into());
    }
    if let Some(plan) = plan {
        page.insert("plan".to_owned(), explained(&plan));
    }
    Ok(([JSON], pretty(&Value::Object(page))).into_response())
}

/// GET of an item with a view or with fields.
pub(super) async fn read_part(request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let caller = request.caller();
    let (view, field_mask) = request.query.part()?;
    let id = request.id(name);
    let span = span("query.BatchGet", Some(&id));
    let rpc = BatchGetRequest { ids: vec![id], field_mask, view };
    let found = guarded(span, Box::pin(request.shared.service.batch_get(&caller, rpc))).await?;
    let resource = found.resources.first().ok_or_else(|| Error::new(Code::NotFound, "resource not found"))?;
    Ok(([JSON], request.printer().with_whole_meta(true).pretty(resource)).into_response())
}

/// How resources were found.
fn explained(plan: &QueryPlan) -> Value {
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
