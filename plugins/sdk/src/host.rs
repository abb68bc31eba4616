//! Host calls of a reconciler, in encoded form.
//!
//! In a component the host is `Imports`, a type that the compiler knows, so that an unused call leaves no import
//! behind: a component declares only the imports that it uses. In native builds it is any [`Host`], such as
//! [`crate::testing::World`].

use mortise_resource::pb;

use crate::{
    Failure,
    http_message::{HttpRequest, HttpResponse},
};

/// Key to look up in an index.
#[derive(Debug, Clone, Copy)]
pub enum Key<'k> {
    /// Key for indexes of owners and references; the uid is ignored. When listing, an empty tenancy unit or `*` ends
    /// the key there.
    Id(&'k pb::Id),
    /// Key for indexes of values, names and metadata; when listing, a prefix.
    Value(&'k str),
    /// Key like [`Self::Value`], but the whole value when listing too.
    Exact(&'k str),
}

/// Host of a [`crate::Context`]: in a component its imports, in native builds any [`Host`].
#[cfg(target_arch = "wasm32")]
pub type AnyHost = Imports;
/// Host of a [`crate::Context`]: in a component its imports, in native builds any [`Host`].
#[cfg(not(target_arch = "wasm32"))]
pub type AnyHost = dyn Host;

#[cfg(target_arch = "wasm32")]
pub use crate::bindings::imports::Imports;

/// Calls of all interfaces that reconcilers may import; `wit/` specifies each. Ids and resources are encoded messages.
#[allow(clippy::missing_errors_doc, reason = "each fails as its interface specifies")]
pub trait Host {
    /// `resources.read`.
    fn read(&self, id: &[u8]) -> Result<Vec<u8>, Failure>;
    /// `resources.list`.
    fn list(&self, of: pb::Type, tenancy: pb::Tenancy, name_prefix: &str) -> Result<Vec<Vec<u8>>, Failure>;
    /// `resources.list-by-owner`.
    fn list_by_owner(&self, owner: &[u8]) -> Result<Vec<Vec<u8>>, Failure>;
    /// `resources.write`.
    fn write(&self, resource: &[u8]) -> Result<Vec<u8>, Failure>;
    /// `resources.write-status`.
    fn write_status(&self, id: &[u8], version: &str, key: &str, status: &[u8]) -> Result<Vec<u8>, Failure>;
    /// `resources.delete`.
    fn delete(&self, id: &[u8], version: &str) -> Result<(), Failure>;

    /// `queries.search`: an encoded `mortise.v1.SearchRequest`, answered by a `SearchResponse`.
    fn search(&self, request: &[u8]) -> Result<Vec<u8>, Failure>;
    /// `queries.update`: an encoded `mortise.v1.UpdateRequest`, answered by an `UpdateResponse`.
    fn update(&self, request: &[u8]) -> Result<Vec<u8>, Failure>;

    /// `cache.get`.
    fn cache_get(&self, of: pb::Type, index: &str, key: Key<'_>) -> Result<Option<Vec<u8>>, Failure>;
    /// `cache.list`.
    fn cache_list(&self, of: pb::Type, index: &str, key: Key<'_>) -> Result<Vec<Vec<u8>>, Failure>;

    /// `cache-pages.list`: resources with names from `names.0` on and before `names.1`, and whether there are more.
    fn cache_page(
        &self,
        of: pb::Type,
        tenancy: pb::Tenancy,
        index: (&str, Key<'_>),
        names: (&str, &str),
        limit: u32,
    ) -> Result<(Vec<Vec<u8>>, bool), Failure>;

    /// `probes.set`: an encoded `mortise.probe.v1.Probes`.
    fn set_probes(&self, of: &[u8], probes: &[u8]) -> Result<(), Failure>;

    /// `kv.get`.
    fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;
    /// `kv.set`.
    fn kv_set(&self, key: &str, value: &[u8]) -> Result<(), Failure>;
    /// `kv.remove`.
    fn kv_remove(&self, key: &str) -> Result<(), Failure>;
    /// `kv.keys`.
    fn kv_keys(&self, prefix: &str) -> Result<Vec<String>, Failure>;

    /// `private-bytes.get`.
    fn private_bytes_get(&self, id: &[u8]) -> Result<Option<Vec<u8>>, Failure>;
    /// `private-bytes.set`.
    fn private_bytes_set(&self, id: &[u8], value: &[u8]) -> Result<(), Failure>;
    /// `private-bytes.remove`.
    fn private_bytes_remove(&self, id: &[u8]) -> Result<(), Failure>;

    /// `files.read`.
    fn file_read(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Failure>;
    /// `files.write`.
    fn file_write(&self, directory: &str, name: &str, content: &[u8]) -> Result<(), Failure>;
    /// `files.remove`.
    fn file_remove(&self, directory: &str, name: &str) -> Result<(), Failure>;
    /// `files.list`.
    fn file_list(&self, directory: &str) -> Result<Vec<String>, Failure>;

    /// `secrets.get`.
    fn secret(&self, name: &str) -> Result<Vec<u8>, Failure>;

    /// `wasi:http`: sends a request and answers the whole response.
    fn http(&self, request: &HttpRequest) -> Result<HttpResponse, Failure>;

    /// `tcp.connect`: answers microseconds.
    fn tcp_connect(&self, host: &str, port: u16, timeout_ms: u32) -> Result<u32, Failure>;

    /// `clock.now`: answers milliseconds.
    fn now(&self) -> u64;
    /// `clock.elapsed`: answers nanoseconds.
    fn elapsed(&self) -> u64;
    /// `run.cancelled`.
    fn cancelled(&self) -> bool;
}
