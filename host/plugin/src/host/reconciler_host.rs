//! What a reconciler may ask of the host: the runtime of controllers implements it.
//!
//! # Contract
//! The sandbox has done its part before a question gets here: bytes decoded, the plugin's grants allow the type, keys
//! are of a legal size, and the call was counted. It encodes the answer, bounds it (`sandbox.reply_bytes`), a list
//! while it is read, and gives each question a deadline (`controllers.host_call_ms`), after which the future is
//! dropped: an answer must not depend on being polled to its end to leave things whole.
//!
//! A plugin at low priority runs on threads of another runtime, of low priority and without I/O, and so do its
//! questions: what needs a certain runtime's handle brings that along.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use mortise_resource::{
    Code, Error,
    data::{SearchRequest, SearchResponse, UpdateRequest, UpdateResponse},
    pb,
    redaction::Secrets,
};

use crate::bindings;

/// How a question fails, as the guest hears it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A code of gRPC; `wit/v0.1.0/failures.wit` says which are used.
    pub code: u32,
    /// What failed, and what to do about it.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: (code as i32).unsigned_abs(), message: message.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<Failure> for bindings::Failure {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message }
    }
}

/// What to look for in an index of the cache.
#[derive(Debug, Clone, PartialEq)]
pub enum CacheKey {
    /// An id or a reference; its uid does not count.
    Id(pb::Id),
    /// A value; when listing, a prefix of it.
    Value(String),
}

/// Takes the resources of a list one by one while it is read; a failure of it ends the reading.
pub type EachResource<'a> = &'a mut (dyn FnMut(&pb::Resource) -> Result<(), Failure> + Send);

/// Answers a reconciler's questions. `wit/v0.1.0` says what each means.
#[async_trait]
pub trait ReconcilerHost: Send + Sync {
    /// `resources.read`.
    async fn read(&self, id: pb::Id) -> Result<pb::Resource, Failure>;

    /// `resources.list`; an absent unit of the tenancy is empty, and `*` is every one.
    async fn list(
        &self,
        of: pb::Type,
        within: pb::Tenancy,
        name_prefix: String,
        each: EachResource<'_>,
    ) -> Result<(), Failure>;

    /// `resources.list-by-owner`. `each` passes over resources of types that the plugin may not read.
    async fn list_by_owner(&self, owner: pb::Id, each: EachResource<'_>) -> Result<(), Failure>;

    /// `resources.write`; answers what is stored.
    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Failure>;

    /// `resources.write-status`; an empty version takes whatever is there.
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
        Err(no_queries())
    }

    /// `queries.update`, of a type that the plugin may write.
    async fn update(&self, _request: UpdateRequest) -> Result<UpdateResponse, Failure> {
        Err(no_queries())
    }

    /// `cache.get`.
    async fn cache_get(&self, of: pb::Type, index: String, key: CacheKey) -> Result<Option<pb::Resource>, Failure>;

    /// `cache.list`.
    async fn cache_list(
        &self,
        of: pb::Type,
        index: String,
        key: CacheKey,
        each: EachResource<'_>,
    ) -> Result<(), Failure>;

    /// Adds what the redacted fields of a resource hold. Without types of its own to know them by, nothing.
    fn note_secrets(&self, _resource: &pb::Resource, _secrets: &mut Secrets) {}

    /// `clock.now`: milliseconds since 1970. Without a clock of its own, the machine's.
    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// A request by `wasi:http` to a host that was granted, with its whole body, or none: it is sent.
    ///
    /// Only asked where [`ReconcilerHost::answers_http`] says so.
    async fn http(&self, _request: http::Request<Vec<u8>>) -> Option<Result<http::Response<Vec<u8>>, Failure>> {
        None
    }

    /// Whether [`ReconcilerHost::http`] is to be asked about each request.
    fn answers_http(&self) -> bool {
        false
    }

    /// `tcp.connect` to a host and port that were granted: how long it took, or none: it is connected to.
    async fn tcp_connect(&self, _to: &str) -> Option<Result<Duration, Failure>> {
        None
    }

    /// `kv.get`. Without a store for them, values of plugins are not available.
    async fn kv_get(&self, _key: String) -> Result<Option<Vec<u8>>, Failure> {
        Err(no_values())
    }

    /// `kv.set`.
    async fn kv_set(&self, _key: String, _value: Vec<u8>) -> Result<(), Failure> {
        Err(no_values())
    }

    /// `kv.remove`.
    async fn kv_remove(&self, _key: String) -> Result<(), Failure> {
        Err(no_values())
    }

    /// `kv.keys`.
    async fn kv_keys(&self, _prefix: String) -> Result<Vec<String>, Failure> {
        Err(no_values())
    }

    /// `private-bytes.get`: of a resource of a type that the plugin may read, by an id with a uid.
    async fn private_bytes_get(&self, _id: pb::Id) -> Result<Option<Vec<u8>>, Failure> {
        Err(no_private_bytes())
    }

    /// `private-bytes.set`, of at most [`crate::MAX_PRIVATE_BYTES`].
    async fn private_bytes_set(&self, _id: pb::Id, _value: Vec<u8>) -> Result<(), Failure> {
        Err(no_private_bytes())
    }

    /// `private-bytes.remove`.
    async fn private_bytes_remove(&self, _id: pb::Id) -> Result<(), Failure> {
        Err(no_private_bytes())
    }
}

fn no_queries() -> Failure {
    Failure::new(Code::FailedPrecondition, "queries is not available: this host has no resources to look through")
}

fn no_private_bytes() -> Failure {
    Failure::new(Code::FailedPrecondition, "private-bytes is not available: this host keeps none for plugins")
}

fn no_values() -> Failure {
    Failure::new(Code::FailedPrecondition, "kv is not available: this host keeps no values for plugins")
}
