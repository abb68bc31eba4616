//! The vocabulary of every other crate: the wire messages, and the rules about names, tenancy, ids and metadata that
//! hold for resources of any type.
//!
//! Nothing here does I/O or has global state, so the crate also compiles for plugins (`wasm32-unknown-unknown`). The
//! rules and their wording come from Consul's resource service (see docs/architecture.md, "Compatibility").
//!
//! The feature `grpc` adds the generated clients and servers, `reflect` functions over messages that only a descriptor
//! describes, and `redaction` the search for fields that a schema marks with `debug_redact`, and for their values in
//! texts.

pub mod authorizer;
pub mod backoff;
pub mod descriptors;
pub mod encoded;
pub mod error;
#[cfg(feature = "grpc")]
pub mod grpc;
mod id_ref;
#[cfg(feature = "reflect")]
pub mod map_key;
pub mod meta;
pub mod name;
mod outline;
pub mod path;
mod pieces;
#[cfg(feature = "redaction")]
pub mod redaction;
pub mod resource_meta;
pub mod scope;
pub mod tenancy;
pub mod types;
pub mod ulid;
mod watch_from_search;
pub mod wire;

pub use encoded::{EncodedResource, EncodingError};
pub use error::{Code, Error, SERVER_STOPPING};
pub use id_ref::IdRef;
pub use outline::Outline;
pub use path::{FieldFault, FieldPath, PathError, PathStep, split_paths};
pub use pieces::{PIECE_BYTES, PieceWriter};
pub use scope::Scope;

/// Generated messages, one module per protobuf package.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto files have the documentation"
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/proto.rs"));
}

/// Messages with the names and numbers of Goten's API (docs/goten.md): meta, selectors, views and kinds of watches.
pub use proto::goten::types as goten;
/// Consul's messages: resources, their ids, types, tenancy and status.
pub use proto::hashicorp::consul::resource as pb;
pub use proto::mortise::v1::{Diagnostic, diagnostic::Severity};

/// Messages of plugins and types as data, and of their services.
pub use proto::mortise::v1 as data;

/// Manifest messages, which a plugin's `describe` returns.
pub use proto::mortise::plugin::v1 as manifest;

/// Messages of the checks that the host performs for controllers.
pub use proto::mortise::probe::v1 as probes;

/// Serialised `FileDescriptorSet` of every file that this crate generates from, imports included.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
