//! A client of OCI registries for components: pulls and pushes them with their signatures, lists tags and repositories.
//!
//! # Contract
//! Content is used only if its SHA-256 is the one that was asked for: that of a reference with a digest, or that of the
//! manifest. The layout is that of WebAssembly artifacts (a config of the type [`manifest::WASM_CONFIG`], and one layer
//! of the type [`manifest::WASM_LAYER`]), as `wkg`, `wash` and `oras` have it; `.ci/registries` tries `oras`. A signature in
//! minisign's format is an artifact of the type [`manifest::MINISIGN`] that refers to the component's manifest. It is
//! listed by the referrers API, and by the tag `sha256-DIGEST` where a registry lacks that. Nothing here decides
//! whether a signature is trusted.
//!
//! Credentials come from docker's file ([`credentials`]), and go to the registry and its authority alone (`session`).
//! Plain http is for loopback addresses, unless it is allowed.
//!
//! # Cost and limits
//! A connection for each request, as a pull has about six. A manifest has at most 4 MiB, a signature 16 KiB, a
//! component as much as [`Options::component_bytes`], a list 20,000 names in 100 pages; 8 signatures are read. An
//! operation takes at most [`Options::timeout`].
//!
//! # Why no library
//! `oci-client` 0.18 has 138 crates below it, 22 of which the workspace lacks; among them are reqwest, a second client
//! of HTTP, and a second library of dates. It does not have the referrers API with its tag, helpers of credentials, nor
//! a bound for the bytes of a layer. The part of the protocol that components need is `api` and `session`.

mod api;
mod artifact;
mod challenge;
pub mod credentials;
mod digest;
mod error;
pub mod layout;
pub mod manifest;
mod reference;
mod registry;
mod session;
mod transport;
mod versions;
mod wasm;

pub use api::Listing;
pub use artifact::{About, Artifact};
pub use credentials::{CredentialError, CredentialSource, Credentials};
pub use digest::{Digest, DigestError};
pub use error::RegistryError;
pub use reference::{Place, Reference, ReferenceError, Repository, SCHEME};
pub use registry::{Options, Pulled, Registry, Resolved};
pub use semver::Version;
pub use versions::{Policy, Update, newest, version};
