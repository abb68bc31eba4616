//! Resources as JSON, in Consul's form: keys in alphabetical order, indented by two blanks, and data without the
//! `@type` that its type implies. The mapping is that of `mortise_text`, which the command line has too, [`consul`] its
//! form for Consul.
//!
//! Data that proto3 JSON has no form for (a time out of range, more than 100 levels of messages; a gRPC client may
//! store these) is printed as its type and its bytes in base64, so that it does not spoil a list, and is taken back
//! like that.

use axum::http::{HeaderName, HeaderValue, header::CONTENT_TYPE};
use mortise_resource::pb;
use mortise_text::{Indent, OneType, Types, WholeMeta, consul};
use prost_reflect::MessageDescriptor;
use serde_json::Value;

/// The form of every answer that is a resource.
pub(super) const JSON: (HeaderName, HeaderValue) = (CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// Prints resources of one type. It does not hold on to a plugin.
#[derive(Clone)]
pub(super) struct Printer {
    of: OneType,
    /// With what the server keeps in meta.
    whole_meta: bool,
}

impl Printer {
    /// For resources with data of that message.
    pub(super) fn new(data: &MessageDescriptor) -> Self {
        Self { of: OneType(data.clone()), whole_meta: false }
    }

    /// For those of a query that says which part of them it wants.
    pub(super) fn with_whole_meta(self, whole_meta: bool) -> Self {
        Self { whole_meta, ..self }
    }

    /// The resource, indented by two blanks.
    pub(super) fn pretty(&self, resource: &pb::Resource) -> String {
        self.print(resource, Indent::Spaces(2))
    }

    /// The resource on one line.
    pub(super) fn compact(&self, resource: &pb::Resource) -> String {
        self.print(resource, Indent::Compact)
    }

    fn print(&self, resource: &pb::Resource, indent: Indent) -> String {
        let whole = WholeMeta(&self.of);
        let types: &dyn Types = if self.whole_meta { &whole } else { &self.of };
        consul::resource(resource, types, indent)
    }

    /// The resource as a part of something larger.
    pub(super) fn value(&self, resource: &pb::Resource) -> Value {
        // By way of text, which knows that 0.1 of a `float` is not 0.10000000149011612.
        serde_json::from_str(&self.compact(resource)).unwrap_or_default()
    }
}

/// A tree, indented by two blanks.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}
