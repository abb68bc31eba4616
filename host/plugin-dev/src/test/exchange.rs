//! Host calls of a reconciler and their answers, as data that can be listed, recorded and compared.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use mortise_plugin_host::{CacheKey, EachResource, Failure, ReconcilerHost};
use mortise_resource::{
    Code,
    data::{SearchRequest, SearchResponse, UpdateRequest, UpdateResponse},
    pb,
};
use parking_lot::Mutex;
use prost_types::FieldMask;
use serde_json::{Value, json};

use super::{
    codec::{Codec, id_json, type_name},
    error::CaseError,
};

/// A call of a reconciler into its host, with all its arguments.
#[derive(Debug, Clone)]
pub(super) enum HostCall {
    Read(pb::Id),
    List {
        kind: pb::Type,
        within: pb::Tenancy,
        name_prefix: String,
    },
    ListByOwner(pb::Id),
    Write(Box<pb::Resource>),
    WriteStatus {
        id: pb::Id,
        version: String,
        key: String,
        status: pb::Status,
    },
    Delete {
        id: pb::Id,
        version: String,
    },
    Search(Box<SearchRequest>),
    Update(Box<UpdateRequest>),
    CacheGet {
        kind: pb::Type,
        index: String,
        key: CacheKey,
    },
    CacheList {
        kind: pb::Type,
        index: String,
        key: CacheKey,
    },
    KvGet(String),
    KvSet(String, Vec<u8>),
    KvRemove(String),
    KvKeys(String),
    PrivateBytesGet(pb::Id),
    PrivateBytesSet(pb::Id, Vec<u8>),
    PrivateBytesRemove(pb::Id),
    Http {
        method: String,
        url: String,
        headers: BTreeMap<String, String>,
        body: Vec<u8>,
    },
    /// Connect to a host and port.
    Connect(String),
}

/// The host's answer to a call that succeeded.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Nothing,
    Resource(Option<Box<pb::Resource>>),
    Resources(Vec<pb::Resource>),
    Page { resources: Vec<pb::Resource>, prev: String, next: String },
    Value(Option<Vec<u8>>),
    Keys(Vec<String>),
    Http { status: u16, headers: BTreeMap<String, String>, body: Vec<u8> },
}

/// A host call and its answer.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) ask: HostCall,
    pub(super) answer: Result<Answer, Failure>,
}

/// Answers the host calls of one reconcile, in the order in which they are made.
#[async_trait]
pub(super) trait Responder: Send + Sync {
    async fn answer(&self, ask: &HostCall) -> Result<Answer, Failure>;
    /// Current time in milliseconds since 1970.
    fn now(&self) -> u64;
}

/// A reconciler's host that records every call and its answer.
pub(super) struct Journal {
    responder: Arc<dyn Responder>,
    exchanges: Mutex<Vec<Exchange>>,
}

impl Journal {
    pub(super) fn new(responder: Arc<dyn Responder>) -> Arc<Self> {
        Arc::new(Self { responder, exchanges: Mutex::default() })
    }

    /// Returns the calls so far, in order.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().clone()
    }

    async fn ask(&self, ask: HostCall) -> Result<Answer, Failure> {
        let answer = self.responder.answer(&ask).await;
        self.exchanges.lock().push(Exchange { ask, answer: answer.clone() });
        answer
    }

    async fn resource(&self, ask: HostCall) -> Result<Option<pb::Resource>, Failure> {
        match self.ask(ask).await? {
            Answer::Resource(found) => Ok(found.map(|resource| *resource)),
            _ => Err(unfit()),
        }
    }

    async fn stored(&self, ask: HostCall) -> Result<pb::Resource, Failure> {
        self.resource(ask).await?.ok_or_else(unfit)
    }

    async fn resources(&self, ask: HostCall, each: EachResource<'_>) -> Result<(), Failure> {
        match self.ask(ask).await? {
            Answer::Resources(found) => found.iter().try_for_each(each),
            _ => Err(unfit()),
        }
    }

    async fn nothing(&self, ask: HostCall) -> Result<(), Failure> {
        self.ask(ask).await.map(drop)
    }
}

/// Error for an answer of the wrong kind, as only a recording written by hand has it.
fn unfit() -> Failure {
    Failure::new(Code::Internal, "the recorded answer does not fit this call")
}

#[async_trait]
impl ReconcilerHost for Journal {
    async fn read(&self, id: pb::Id) -> Result<pb::Resource, Failure> {
        self.stored(HostCall::Read(id)).await
    }

    async fn list(
        &self,
        resource_type: pb::Type,
        within: pb::Tenancy,
        name_prefix: String,
        each: EachResource<'_>,
    ) -> Result<(), Failure> {
        self.resources(HostCall::List { kind: resource_type, within, name_prefix }, each).await
    }

    async fn list_by_owner(&self, owner: pb::Id, each: EachResource<'_>) -> Result<(), Failure> {
        self.resources(HostCall::ListByOwner(owner), each).await
    }

    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Failure> {
        self.stored(HostCall::Write(Box::new(resource))).await
    }

    async fn write_status(
        &self,
        id: pb::Id,
        version: String,
        key: String,
        status: pb::Status,
    ) -> Result<pb::Resource, Failure> {
        self.stored(HostCall::WriteStatus { id, version, key, status }).await
    }

    async fn delete(&self, id: pb::Id, version: String) -> Result<(), Failure> {
        self.nothing(HostCall::Delete { id, version }).await
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, Failure> {
        match self.ask(HostCall::Search(Box::new(request))).await? {
            Answer::Page { resources, prev: prev_page_token, next: next_page_token } => {
                Ok(SearchResponse { resources, prev_page_token, next_page_token, ..SearchResponse::default() })
            }
            _ => Err(unfit()),
        }
    }

    async fn update(&self, request: UpdateRequest) -> Result<UpdateResponse, Failure> {
        let resource = self.stored(HostCall::Update(Box::new(request))).await?;
        Ok(UpdateResponse { resource: Some(resource), warnings: Vec::new() })
    }

    async fn cache_get(
        &self,
        resource_type: pb::Type,
        index: String,
        key: CacheKey,
    ) -> Result<Option<pb::Resource>, Failure> {
        self.resource(HostCall::CacheGet { kind: resource_type, index, key }).await
    }

    async fn cache_list(
        &self,
        resource_type: pb::Type,
        index: String,
        key: CacheKey,
        each: EachResource<'_>,
    ) -> Result<(), Failure> {
        self.resources(HostCall::CacheList { kind: resource_type, index, key }, each).await
    }

    async fn kv_get(&self, key: String) -> Result<Option<Vec<u8>>, Failure> {
        match self.ask(HostCall::KvGet(key)).await? {
            Answer::Value(value) => Ok(value),
            _ => Err(unfit()),
        }
    }

    async fn kv_set(&self, key: String, value: Vec<u8>) -> Result<(), Failure> {
        self.nothing(HostCall::KvSet(key, value)).await
    }

    async fn kv_remove(&self, key: String) -> Result<(), Failure> {
        self.nothing(HostCall::KvRemove(key)).await
    }

    async fn kv_keys(&self, prefix: String) -> Result<Vec<String>, Failure> {
        match self.ask(HostCall::KvKeys(prefix)).await? {
            Answer::Keys(keys) => Ok(keys),
            _ => Err(unfit()),
        }
    }

    async fn private_bytes_get(&self, id: pb::Id) -> Result<Option<Vec<u8>>, Failure> {
        match self.ask(HostCall::PrivateBytesGet(id)).await? {
            Answer::Value(value) => Ok(value),
            _ => Err(unfit()),
        }
    }

    async fn private_bytes_set(&self, id: pb::Id, value: Vec<u8>) -> Result<(), Failure> {
        self.nothing(HostCall::PrivateBytesSet(id, value)).await
    }

    async fn private_bytes_remove(&self, id: pb::Id) -> Result<(), Failure> {
        self.nothing(HostCall::PrivateBytesRemove(id)).await
    }

    fn now(&self) -> u64 {
        self.responder.now()
    }

    async fn tcp_connect(&self, to: &str) -> Option<Result<Duration, Failure>> {
        // The connect takes no time, since nothing leaves the machine.
        Some(self.nothing(HostCall::Connect(to.to_owned())).await.map(|()| Duration::ZERO))
    }

    fn answers_http(&self) -> bool {
        true
    }

    async fn http(&self, request: http::Request<Vec<u8>>) -> Option<Result<http::Response<Vec<u8>>, Failure>> {
        let headers = request
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let (method, url) = (request.method().to_string(), request.uri().to_string());
        let ask = HostCall::Http { method, url, headers: headers.collect(), body: request.body().clone() };
        let answer = match self.ask(ask).await {
            Ok(Answer::Http { status, headers, body }) => {
                let mut response = http::Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                response.body(body).map_err(|e| Failure::new(Code::Internal, format!("an answer of the case: {e}")))
            }
            Ok(_) => Err(unfit()),
            Err(failure) => Err(failure),
        };
        Some(answer)
    }
}

impl HostCall {
    /// Name of the call in the contract.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "resources.read",
            Self::List { .. } => "resources.list",
            Self::ListByOwner(_) => "resources.list-by-owner",
            Self::Write(_) => "resources.write",
            Self::WriteStatus { .. } => "resources.write-status",
            Self::Delete { .. } => "resources.delete",
            Self::Search(_) => "queries.search",
            Self::Update(_) => "queries.update",
            Self::CacheGet { .. } => "cache.get",
            Self::CacheList { .. } => "cache.list",
            Self::KvGet(_) => "kv.get",
            Self::KvSet(..) => "kv.set",
            Self::KvRemove(_) => "kv.remove",
            Self::KvKeys(_) => "kv.keys",
            Self::PrivateBytesGet(_) => "private-bytes.get",
            Self::PrivateBytesSet(..) => "private-bytes.set",
            Self::PrivateBytesRemove(_) => "private-bytes.remove",
            Self::Http { .. } => "http",
            Self::Connect(_) => "tcp.connect",
        }
    }

    /// Renders the call with its arguments, as in recordings.
    pub(super) fn json(&self, codec: &Codec) -> Value {
        let cached = |resource_type: &pb::Type, index: &str, key: &CacheKey| {
            let key = match key {
                CacheKey::Id(id) => id_json(id),
                CacheKey::Value(value) => value.as_str().into(),
            };
            json!({"type": type_name(Some(resource_type)), "index": index, "key": key})
        };
        let mut asked = match self {
            Self::Read(id) | Self::ListByOwner(id) | Self::PrivateBytesGet(id) | Self::PrivateBytesRemove(id) => {
                json!({"id": id_json(id)})
            }
            Self::PrivateBytesSet(id, value) => json!({"id": id_json(id), "value": bytes_json(value)}),
            Self::List { kind: resource_type, within, name_prefix } => json!({
                "type": type_name(Some(resource_type)),
                "partition": within.partition,
                "namespace": within.namespace,
                "prefix": name_prefix,
            }),
            Self::Write(resource) => json!({"resource": codec.json(resource)}),
            Self::WriteStatus { id, version, key, status } => {
                json!({"id": id_json(id), "version": version, "key": key, "status": codec.status(status)})
            }
            Self::Delete { id, version } => json!({"id": id_json(id), "version": version}),
            Self::Search(request) => searched(request),
            Self::Update(request) => updated(request, codec),
            Self::CacheGet { kind: resource_type, index, key }
            | Self::CacheList { kind: resource_type, index, key } => cached(resource_type, index, key),
            Self::Connect(to) => json!({"to": to}),
            Self::KvGet(key) | Self::KvRemove(key) => json!({"key": key}),
            Self::KvSet(key, value) => json!({"key": key, "value": bytes_json(value)}),
            Self::KvKeys(prefix) => json!({"prefix": prefix}),
            Self::Http { method, url, headers, body } => {
                json!({"method": method, "url": url, "headers": headers, "body": bytes_json(body)})
            }
        };
        if let Some(asked) = asked.as_object_mut() {
            asked.insert("call".into(), self.name().into());
        }
        asked
    }

    /// Reads the answer to this call in a recording.
    pub(super) fn read_answer(&self, json: &Value, codec: &Codec) -> Result<Answer, CaseError> {
        let resource = |json: &Value| codec.read(self.name(), json);
        let list = |json: &Value| json.as_array().cloned().ok_or("the answer must be a list");
        Ok(match self {
            Self::Read(_) | Self::Write(_) | Self::WriteStatus { .. } | Self::Update(_) | Self::CacheGet { .. } => {
                let found = Some(json).filter(|json| !json.is_null()).map(resource).transpose()?;
                Answer::Resource(found.map(Box::new))
            }
            Self::List { .. } | Self::ListByOwner(_) | Self::CacheList { .. } => {
                Answer::Resources(list(json)?.iter().map(resource).collect::<Result<_, _>>()?)
            }
            Self::Search(_) => {
                let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let found = list(json.get("resources").unwrap_or(&Value::Null))?;
                Answer::Page {
                    resources: found.iter().map(resource).collect::<Result<_, _>>()?,
                    prev: text("prevPageToken"),
                    next: text("nextPageToken"),
                }
            }
            Self::Delete { .. }
            | Self::KvSet(..)
            | Self::KvRemove(_)
            | Self::PrivateBytesSet(..)
            | Self::PrivateBytesRemove(_)
            | Self::Connect(_) => Answer::Nothing,
            Self::KvGet(_) | Self::PrivateBytesGet(_) => {
                Answer::Value(Some(json).filter(|json| !json.is_null()).map(read_bytes).transpose()?)
            }
            Self::KvKeys(_) => {
                let keys = list(json)?.iter().map(|key| key.as_str().unwrap_or_default().to_owned()).collect();
                Answer::Keys(keys)
            }
            Self::Http { .. } => Answer::Http {
                status: json.get("status").and_then(Value::as_u64).and_then(|s| u16::try_from(s).ok()).unwrap_or(200),
                headers: serde_json::from_value(json.get("headers").cloned().unwrap_or_default()).unwrap_or_default(),
                body: json.get("body").map(read_bytes).transpose()?.unwrap_or_default(),
            },
        })
    }
}

impl Answer {
    /// Renders the answer, as in recordings.
    pub(super) fn json(&self, codec: &Codec) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Resource(found) => found.as_ref().map_or(Value::Null, |resource| codec.json(resource)),
            Self::Resources(found) => found.iter().map(|resource| codec.json(resource)).collect(),
            Self::Page { resources, prev, next } => json!({
                "resources": resources.iter().map(|resource| codec.json(resource)).collect::<Vec<_>>(),
                "prevPageToken": prev,
                "nextPageToken": next,
            }),
            Self::Value(value) => value.as_ref().map_or(Value::Null, |value| bytes_json(value)),
            Self::Keys(keys) => json!(keys),
            Self::Http { status, headers, body } => {
                json!({"status": status, "headers": headers, "body": bytes_json(body)})
            }
        }
    }
}

/// Renders a search with its arguments.
fn searched(request: &SearchRequest) -> Value {
    let tenancy = request.tenancy.clone().unwrap_or_default();
    let selector = request.selector.clone().unwrap_or_default();
    let expressions = selector.match_expressions.iter();
    json!({
        "type": type_name(request.r#type.as_ref()),
        "partition": tenancy.partition,
        "namespace": tenancy.namespace,
        "prefix": request.parent,
        "filter": request.filter,
        "labels": selector.match_labels,
        "expressions": expressions
            .map(|resource| json!({"key": resource.key, "operator": resource.operator, "values": resource.values}))
            .collect::<Vec<_>>(),
        "orderBy": request.order_by,
        "pageSize": request.page_size,
        "pageToken": request.page_token,
        "fields": request.field_mask.as_ref().map(|mask| mask.paths.as_slice()).unwrap_or_default(),
        "view": request.view().as_str_name(),
    })
}

/// Renders an update with its arguments.
fn updated(request: &UpdateRequest, codec: &Codec) -> Value {
    let paths = |mask: &Option<FieldMask>| mask.as_ref().map(|mask| mask.paths.clone()).unwrap_or_default();
    let resource = |resource: &Option<pb::Resource>| resource.as_ref().map_or(Value::Null, |found| codec.json(found));
    json!({
        "resource": resource(&request.resource),
        "fields": paths(&request.update_mask),
        "allowMissing": request.allow_missing,
        "condition": request.cas.as_ref().map_or(Value::Null, |cas| {
            json!({"resource": resource(&cas.conditional_state), "fields": paths(&cas.field_mask)})
        }),
    })
}

/// Renders text as it is, and other bytes in base64.
fn bytes_json(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({"base64": BASE64_STANDARD.encode(bytes)}),
    }
}

fn read_bytes(json: &Value) -> Result<Vec<u8>, CaseError> {
    match (json.as_str(), json.get("base64").and_then(Value::as_str)) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(text)) => BASE64_STANDARD.decode(text).map_err(|e| CaseError::field("base64", e)),
        (None, None) => Err("bytes must be a text, or { \"base64\": TEXT }".into()),
    }
}
