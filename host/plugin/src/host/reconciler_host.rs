//! Host interface for reconcilers, implemented by the runtime of controllers.
//!
//! # Contract
//! The sandbox has done its part before a call gets here: bytes are decoded, the plugin's grants allow the type, keys
//! are of a legal size, and the call was counted. It encodes the answer, bounds it (`sandbox.reply_bytes`), a list
//! while it is read, and gives each call a deadline (`controllers.host_call_ms`), after which it drops the future: an
//! implementation must stay consistent if its future is dropped early.
//!
//! A plugin at low priority runs on threads of another runtime, of low priority and without I/O, and so do its host
//! calls: an implementation that needs a certain runtime must bring its handle.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use async_trait::async_trait;
use mortise_resource::{
    Code,
    data::{SearchRequest, SearchResponse, UpdateRequest, UpdateResponse},
    pb,
    redaction::Secrets,
};

use crate::{bindings, failure::Failure, probes::ProbeWriter};

impl From<Failure> for bindings::Failure {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message }
    }
}

/// Key to look up in an index of the cache.
#[derive(Debug, Clone, PartialEq)]
pub enum CacheKey {
    /// An id or a reference; its uid is ignored.
    Id(pb::Id),
    /// A value; when listing, a prefix of it.
    Value(String),
}

/// Callback that gets the resources of a list one by one while it is read; its failure ends the list.
pub type EachResource<'a> = &'a mut (dyn FnMut(&pb::Resource) -> Result<(), Failure> + Send);

/// Answers the host calls of a reconciler. `wit/v0.1.0` specifies each.
#[async_trait]
pub trait ReconcilerHost: Send + Sync {
    /// `resources.read`.
    async fn read(&self, id: pb::Id) -> Result<pb::Resource, Failure>;

    /// `resources.list`; an absent unit of the tenancy is empty, and `*` is every unit.
    async fn list(
        &self,
        resource_type: pb::Type,
        within: pb::Tenancy,
        name_prefix: String,
        each: EachResource<'_>,
    ) -> Result<(), Failure>;

    /// `resources.list-by-owner`. `each` skips resources of types that the plugin may not read.
    async fn list_by_owner(&self, owner: pb::Id, each: EachResource<'_>) -> Result<(), Failure>;

    /// `resources.write`; answers the stored resource.
    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Failure>;

    /// `resources.write-status`; an empty version accepts any stored version.
    async fn write_status(
        &self,
        id: pb::Id,
        version: String,
        key: String,
        status: pb::Status,
    ) -> Result<pb::Resource, Failure>;

    /// `resources.delete`.
    async fn delete(&self, id: pb::Id, version: String) -> Result<(), Failure>;

    /// `queries.search`, of a type that the plugin may read.
    async fn search(&self, _request: SearchRequest) -> Result<SearchResponse, Failure> {
        Err(queries_unavailable())
    }

    /// `queries.update`, of a type that the plugin may write.
    async fn update(&self, _request: UpdateRequest) -> Result<UpdateResponse, Failure> {
        Err(queries_unavailable())
    }

    /// `cache.get`.
    async fn cache_get(
        &self,
        resource_type: pb::Type,
        index: String,
        key: CacheKey,
    ) -> Result<Option<pb::Resource>, Failure>;

    /// `cache.list`.
    async fn cache_list(
        &self,
        resource_type: pb::Type,
        index: String,
        key: CacheKey,
        each: EachResource<'_>,
    ) -> Result<(), Failure>;

    /// `cache-pages.list`: resources of one tenancy with names in a range (an empty end is the last name), at most
    /// `most` of them. The default reads the whole list.
    async fn cache_page(
        &self,
        resource_type: pb::Type,
        tenancy: pb::Tenancy,
        (index, key): (String, CacheKey),
        (from, before): (String, String),
        most: usize,
    ) -> Result<Vec<pb::Resource>, Failure> {
        let mut found = Vec::new();
        let mut each = |resource: &pb::Resource| {
            let id = resource.id.as_ref();
            let is_here = id.is_some_and(|id| id.tenancy.as_ref() == Some(&tenancy));
            let name = id.map(|id| id.name.as_str()).unwrap_or_default();
            if is_here && name >= from.as_str() && (before.is_empty() || name < before.as_str()) && found.len() < most {
                found.push(resource.clone());
            }
            Ok(())
        };
        self.cache_list(resource_type, index, key, &mut each).await?;
        Ok(found)
    }

    /// Writer for the results of `probes`; `None` if this host performs none.
    fn probe_writer(&self) -> Option<Arc<dyn ProbeWriter>> {
        None
    }

    /// Adds the contents of a resource's redacted fields to `_secrets`. The default knows no types and adds nothing.
    fn note_secrets(&self, _resource: &pb::Resource, _secrets: &mut Secrets) {}

    /// `clock.now`: milliseconds since 1970. The default is the date of the run, which never goes back.
    fn now(&self) -> u64 {
        let since = mortise_clock::date().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Answers a request by `wasi:http` with its whole body to a granted host, or `None` to have it sent.
    ///
    /// Called only if [`ReconcilerHost::answers_http`] is true.
    async fn http(&self, _request: http::Request<Vec<u8>>) -> Option<Result<http::Response<Vec<u8>>, Failure>> {
        None
    }

    /// Whether [`ReconcilerHost::http`] is called for each request.
    fn answers_http(&self) -> bool {
        false
    }

    /// Answers `tcp.connect` to a granted host and port with the duration of the connect, or `None` to have it
    /// connected.
    async fn tcp_connect(&self, _to: &str) -> Option<Result<Duration, Failure>> {
        None
    }

    /// `kv.get`. The default has no store, and fails.
    async fn kv_get(&self, _key: String) -> Result<Option<Vec<u8>>, Failure> {
        Err(kv_unavailable())
    }

    /// `kv.set`.
    async fn kv_set(&self, _key: String, _value: Vec<u8>) -> Result<(), Failure> {
        Err(kv_unavailable())
    }

    /// `kv.remove`.
    async fn kv_remove(&self, _key: String) -> Result<(), Failure> {
        Err(kv_unavailable())
    }

    /// `kv.keys`.
    async fn kv_keys(&self, _prefix: String) -> Result<Vec<String>, Failure> {
        Err(kv_unavailable())
    }

    /// `private-bytes.get`: of a resource of a type that the plugin may read, by an id with a uid.
    async fn private_bytes_get(&self, _id: pb::Id) -> Result<Option<Vec<u8>>, Failure> {
        Err(private_bytes_unavailable())
    }

    /// `private-bytes.set`, of at most [`crate::MAX_PRIVATE_BYTES`].
    async fn private_bytes_set(&self, _id: pb::Id, _value: Vec<u8>) -> Result<(), Failure> {
        Err(private_bytes_unavailable())
    }

    /// `private-bytes.remove`.
    async fn private_bytes_remove(&self, _id: pb::Id) -> Result<(), Failure> {
        Err(private_bytes_unavailable())
    }
}

fn queries_unavailable() -> Failure {
    Failure::new(Code::FailedPrecondition, "queries is not available: this host stores no resources")
}

fn private_bytes_unavailable() -> Failure {
    Failure::new(Code::FailedPrecondition, "private-bytes is not available: this host stores none")
}

fn kv_unavailable() -> Failure {
    Failure::new(Code::FailedPrecondition, "kv is not available: this host stores no values for plugins")
}
