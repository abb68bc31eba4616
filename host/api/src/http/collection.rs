//! The resources of a type: GET lists them.
//!
//! The answer is printed as it is taken, some resources at a time; one that fits into the first portion is sent whole.

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use mortise_resource::pb;

use super::{
    error::HttpError,
    json::{JSON, Printer},
    request::TypeRequest,
};
use crate::call::{guarded, span_of_type};

/// How much is printed at a time, bytes.
const PORTION: usize = 64 << 10;

/// GET.
pub(super) async fn list(request: TypeRequest) -> Result<Response, HttpError> {
    let caller = request.query.caller_of_list(&request.parts.headers);
    let rpc = pb::ListRequest {
        r#type: Some(request.kind.gvk.to_pb()),
        tenancy: Some(request.query.tenancy()),
        name_prefix: request.query.name_prefix(),
    };
    let span = span_of_type("List", rpc.r#type.as_ref());
    let listed = guarded(span, Box::pin(request.shared.service.list(&caller, rpc))).await?;
    let mut pages = ListPages::new(request.printer(), listed.resources);
    let first = pages.next().unwrap_or_default();
    let body = match pages.resources {
        None => Body::from(first),
        Some(_) => {
            let rest = stream::iter(std::iter::once(first).chain(pages));
            Body::from_stream(futures::StreamExt::map(rest, Ok::<_, std::convert::Infallible>))
        }
    };
    Ok(([JSON], body).into_response())
}

/// A list on its way.
struct ListPages {
    printer: Printer,
    /// What is left; none once the end is printed.
    resources: Option<std::iter::Peekable<std::vec::IntoIter<pb::Resource>>>,
    begun: bool,
}

impl ListPages {
    fn new(printer: Printer, resources: Vec<pb::Resource>) -> Self {
        Self { printer, resources: Some(resources.into_iter().peekable()), begun: false }
    }
}

impl Iterator for ListPages {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let left = self.resources.as_mut()?;
        let mut page = String::new();
        if !self.begun {
            page.push_str("{\n  \"resources\": [");
        }
        while page.len() < PORTION
            && let Some(resource) = left.next()
        {
            page.push_str(if self.begun { ",\n    " } else { "\n    " });
            // No string of JSON has a real line break in it.
            page.push_str(&self.printer.pretty(&resource).replace('\n', "\n    "));
            self.begun = true;
        }
        if left.peek().is_none() {
            page.push_str(if self.begun { "\n  ]\n}" } else { "]\n}" });
            self.resources = None;
        }
        Some(page.into())
    }
}
