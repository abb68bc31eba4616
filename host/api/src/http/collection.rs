//! The resources of a type: GET lists them.
//!
//! The answer is printed as it is taken, some resources at a time; one that fits into the first portion is sent whole.

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use mortise_resource::pb;

use super::{dispatch::Asked, fault::Fault, item::JSON, json::Printer};
use crate::call::{guarded, span_of_type};

/// How much is printed at a time, bytes.
const PORTION: usize = 64 << 10;

/// GET.
pub(super) async fn list(asked: Asked) -> Result<Response, Fault> {
    let caller = asked.query.caller_of_list(&asked.parts.headers);
    let request = pb::ListRequest {
        r#type: Some(asked.kind.gvk.to_pb()),
        tenancy: Some(asked.query.tenancy()),
        name_prefix: asked.query.name_prefix(),
    };
    let span = span_of_type("List", request.r#type.as_ref());
    let listed = guarded(span, Box::pin(asked.shared.service.list(&caller, request))).await?;
    let mut pages = Pages::new(asked.printer()?, listed.resources);
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
struct Pages {
    printer: Printer,
    /// What is left; none once the end is printed.
    resources: Option<std::iter::Peekable<std::vec::IntoIter<pb::Resource>>>,
    begun: bool,
}

impl Pages {
    fn new(printer: Printer, resources: Vec<pb::Resource>) -> Self {
        Self { printer, resources: Some(resources.into_iter().peekable()), begun: false }
    }
}

impl Iterator for Pages {
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
            page.push_str(&self.printer.pretty(resource).replace('\n', "\n    "));
            self.begun = true;
        }
        if left.peek().is_none() {
            page.push_str(if self.begun { "\n  ]\n}" } else { "]\n}" });
            self.resources = None;
        }
        Some(page.into())
    }
}
