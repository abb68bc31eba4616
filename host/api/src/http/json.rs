//! Resources as JSON in Consul's form: keys in alphabetical order, indented by two blanks, and data without the `@type`
//! that its type implies. The mapping is that of `mortise_text`, as on the command line; [`consul`] gives it Consul's
//! form.
//!
//! Data without a form in proto3 JSON (a time out of range, more than 100 levels of messages; gRPC clients may store
//! these) is printed under another key as its type and its bytes in base64, so that it does not spoil a list. The
//! server accepts this form. Absent data is printed as an empty object.

use axum::http::{HeaderName, HeaderValue, header::CONTENT_TYPE};
use mortise_resource::pb;
use mortise_text::{Indent, OneType, Types, WholeMeta, consul};
use prost_reflect::MessageDescriptor;
use serde_json::Value;

/// The content type of every answer with a resource.
pub(super) const JSON: (HeaderName, HeaderValue) = (CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// Prints resources of one type. Does not keep a plugin alive.
#[derive(Clone)]
pub(super) struct Printer {
    kind: OneType,
    /// Whether to print the server's part of meta.
    whole_meta: bool,
}

impl Printer {
    /// Creates a printer for resources with data of this message.
    pub(super) fn new(data: &MessageDescriptor) -> Self {
        Self { kind: OneType(data.clone()), whole_meta: false }
    }

    /// Sets whether the server's part of meta is printed, for queries that select fields.
    pub(super) fn with_whole_meta(self, whole_meta: bool) -> Self {
        Self { whole_meta, ..self }
    }

    /// Prints the resource, indented by two blanks.
    pub(super) fn pretty(&self, resource: &pb::Resource) -> String {
        self.print(resource, Indent::Spaces(2))
    }

    /// Prints the resource on one line.
    pub(super) fn compact(&self, resource: &pb::Resource) -> String {
        self.print(resource, Indent::Compact)
    }

    /// Prints a resource of which only the id is known, on one line.
    pub(super) fn id_alone(&self, id: pb::Id) -> String {
        consul::resource(&pb::Resource { id: Some(id), ..pb::Resource::default() }, &self.kind, Indent::Compact)
    }

    fn print(&self, resource: &pb::Resource, indent: Indent) -> String {
        let whole = WholeMeta(&self.kind);
        let types: &dyn Types = if self.whole_meta { &whole } else { &self.kind };
        consul::answer(resource, types, indent)
    }

    /// The resource as a JSON value.
    pub(super) fn value(&self, resource: &pb::Resource) -> Value {
        // Goes through text, since a `float` of 0.1 would otherwise become 0.10000000149011612.
        serde_json::from_str(&self.compact(resource)).unwrap_or_default()
    }
}

/// Prints a JSON value, indented by two blanks.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}
