//! Resources as text: YAML, JSON and HCL, typed by the descriptors of their messages.
//!
//! [`parse()`] turns a text into [`Document`]s, or into [`Diagnostics`] that each name the file, line, column and
//! field, the fault and the remedy. [`to_yaml`] and [`to_json`] print a resource so that it reads back as the same one,
//! and [`consul`] prints as Consul does. [`Reader`] and [`Writer`] do the same for streams of any length.
//! [`diff::diff`] compares. Descriptors of types come through [`Types`], usually from a [`TypeTable`] that
//! TypeService's answers fill. Nothing here uses a file system or a network.
//!
//! # Form of a resource
//!
//! ```yaml
//! type: demo.v2.Artist        # or id: {type: {group: demo, groupVersion: v2, kind: Artist}, name: korn, …}
//! name: korn
//! namespace: default          # partition and namespace, as far as the type has them, may be left to `place_in`
//! owner: demo.v1.RecordLabel/immortal
//! metadata: {genre: nu-metal}
//! meta: {labels: {env: prod}, tags: [live]}
//! data:
//!   name: Korn
//!   genre: GENRE_METAL
//!   groupMembers: {jonathan: vocals}
//! ```
//!
//! A text holds any number of resources: YAML documents, JSON values after each other, lists, `{"resources": […]}`, and
//! `{"resource": …}` for one.
//! `version` and `generation` are read; `status` and `schemaVersion`, which the server sets, are not. Only the client's
//! part of `meta` is printed, unless the types are wrapped in [`WholeMeta`]; the server ignores the rest of a written
//! `meta`. [`Document::place_in`] fills in the tenancy that a text leaves open. Data is proto3's JSON in YAML and JSON,
//! with these additions: names may be protobuf's, durations may be written as in Go (`1h30m`), `@unknown` holds fields
//! that the descriptor does not know, and data that JSON cannot express is `@type` and `@bytes`. A string field takes a
//! YAML scalar without quotes as it is written: `1.10` stays `1.10`, `no` stays `no`.
//!
//! # Cost and limits
//!
//! Reading takes time in proportion to the text, and memory for its tree; [`Limits`] bound both, nesting and aliases
//! included. HCL has tighter bounds (1 MiB, 5,000 entries), since its parser is not linear. [`Reader`] holds one value
//! of a stream at a time.
//!
//! # Example
//!
//! ```
//! use mortise_resource::{DESCRIPTORS, Scope, types};
//! use mortise_text::{Format, Source, TypeTable, parse, to_yaml};
//! use prost_reflect::DescriptorPool;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Usually `TypeTable::add` takes what TypeService answers.
//! let pool = DescriptorPool::decode(DESCRIPTORS)?;
//! let message = pool.get_message_by_name("mortise.v1.Value").ok_or("no such message")?;
//! let mut table = TypeTable::new();
//! table.add_message(types::value(), message, Some(Scope::Cluster), Vec::new());
//!
//! let text = "type: mortise.v1.Value\nname: x\ndata:\n  plugin: demo\n  kye: answer\n";
//! let faults = parse(Source { name: "value.yaml", text }, None, &table).unwrap_err();
//! assert_eq!(faults.to_string(), "value.yaml:5:3: data.kye: there is no such field; did you mean `key`?");
//!
//! let text = text.replace("kye", "key");
//! for document in parse(Source { name: "-", text: &text }, Some(Format::Yaml), &table)? {
//!     assert_eq!(document.locate("data.key").to_string(), "<stdin>:5:3");
//!     assert!(to_yaml(&document.resource, &table).ends_with("data:\n  plugin: demo\n  key: answer\n"));
//! }
//! # Ok(())
//! # }
//! ```

mod data;
mod diagnostic;
pub mod diff;
mod document;
mod envelope;
mod format;
mod limits;
mod location;
mod message;
mod node;
mod parse;
mod path;
mod plain;
mod print;
mod read;
pub mod schema;
mod stream;
mod tree;
mod types;

pub use data::nearest;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use document::Document;
pub use format::Format;
pub use limits::Limits;
pub use location::{Position, SourceLocation, file_name};
pub use message::{
    answer_to_json, data_from_json, data_to_json, encode_message, message_from_json, request_from_json,
    unnamed_from_yaml,
};
pub use parse::{Source, parse, parse_within};
pub use plain::{PlainDocument, PlainNode, PlainValue, plain_documents, plain_nodes};
pub use print::{
    json::{Indent, consul, list_to_json, to_json},
    yaml::{list_to_yaml, to_yaml},
};
pub use stream::{ReadError, Reader, StreamFormat, Writer};
pub use types::{OneType, TypeTable, Types, TypesError, WholeMeta};
