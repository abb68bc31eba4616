//! The resources of a type: GET lists them.
//!
//! The answer is printed while it is sent, some resources at a time, from the service's encoded list; an answer that
//! fits into the first portion is sent whole.

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use mortise_resource::pb;
use mortise_service::EncodedList;
use prost::Message as _;

use super::{
    error::HttpError,
    json::{JSON, Printer},
    request::TypeRequest,
};
use crate::call::{run_guarded, type_span};

/// Bytes of a printed portion.
pub(super) const PORTION_BYTES: usize = 64 << 10;

/// GET: lists the collection.
pub(super) async fn list(request: TypeRequest) -> Result<Response, HttpError> {
    let caller = request.caller_of_list();
    let rpc = pb::ListRequest {
        r#type: Some(request.kind.gvk.to_pb()),
        tenancy: Some(request.query.tenancy()),
        name_prefix: request.query.name_prefix(),
    };
    let span = type_span("List", rpc.r#type.as_ref());
    let listed = run_guarded(span, Box::pin(request.shared.service.list(&caller, rpc))).await?;
    let mut pages = ListPages::new(request.printer(), listed);
    let first = pages.next().unwrap_or_default();
    let body = match pages.is_done {
        true => Body::from(first),
        false => {
            let rest = stream::iter(std::iter::once(first).chain(pages));
            Body::from_stream(futures::StreamExt::map(rest, Ok::<_, std::convert::Infallible>))
        }
    };
    Ok(([JSON], body).into_response())
}

/// The answer being printed. Printed pieces are freed.
struct ListPages {
    printer: Printer,
    list: EncodedList,
    /// The unprinted rest of the last piece.
    left: std::iter::Peekable<std::vec::IntoIter<pb::Resource>>,
    begun: bool,
    /// Whether the end is printed.
    is_done: bool,
}

impl ListPages {
    fn new(printer: Printer, list: EncodedList) -> Self {
        Self { printer, list, left: Vec::new().into_iter().peekable(), begun: false, is_done: false }
    }

    /// Whether nothing is left; fetches the next piece if needed.
    fn is_empty(&mut self) -> bool {
        while self.left.peek().is_none() {
            let Some(piece) = self.list.next_piece() else { return true };
            // The server itself encoded the piece, so it decodes.
            let resources = pb::ListResponse::decode(piece).unwrap_or_default().resources;
            self.left = resources.into_iter().peekable();
        }
        false
    }
}

impl Iterator for ListPages {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let mut page = String::new();
        if !self.begun {
            page.push_str("{\n  \"resources\": [");
        }
        while page.len() < PORTION_BYTES
            && !self.is_empty()
            && let Some(resource) = self.left.next()
        {
            page.push_str(if self.begun { ",\n    " } else { "\n    " });
            // Strings in JSON contain no raw line break.
            page.push_str(&self.printer.pretty(&resource).replace('\n', "\n    "));
            self.begun = true;
        }
        if self.is_empty() {
            page.push_str(if self.begun { "\n  ]\n}" } else { "]\n}" });
            self.is_done = true;
        }
        Some(page.into())
    }
}
