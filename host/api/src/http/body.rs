//! Reads the body of a write within bounds, and parses it.
//!
//! A body is an object with `data` (the type's message as proto3 JSON), `metadata` (a map of strings), `owner` (an id
//! as proto3 JSON) and `meta` (labels and the like, as proto3 JSON). Other keys are ignored, so that an answer of the
//! server can be written back.
//!
//! JSON is also accepted with the content type of a form, which is curl's default, of plain text or bytes, or without
//! one. Other content types, and all content encodings, are rejected: nothing is decompressed here.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap,
        header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
    },
};
use http_body_util::BodyExt as _;
use mortise_resource::{Code, Error, FieldPath, PathStep, SERVER_STOPPING, pb};
use mortise_text::{Limits, data_from_json, message_from_json};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    descriptors::no_host_message,
    error::{ErrorKind, HttpError},
};

/// Consul's text for a body that is not JSON or has the wrong shape.
const BAD_FORMAT_TEXT: &str = "Request body format is invalid";

/// Consul's text for data that is absent or not of the type.
const BAD_SCHEMA_TEXT: &str = "Request body didn't follow the resource schema";

/// Bytes of an oversized body that are still read, so that the client reads the answer.
const MAX_DRAINED_BYTES: usize = 8 << 20;

/// The known keys of a body.
#[derive(Deserialize)]
struct BodyFields<'a> {
    #[serde(default, deserialize_with = "metadata")]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, borrow)]
    owner: Option<&'a RawValue>,
    #[serde(default, borrow)]
    meta: Option<&'a RawValue>,
}

/// Reads metadata other than null; rejects repeated keys.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Option<BTreeMap<String, String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<String, String>()? {
                if entries.insert(key.clone(), value).is_some() {
                    return Err(A::Error::custom(format!("the key {key:?} occurs twice; remove one")));
                }
            }
            Ok(Some(entries))
        }
    }
    from.deserialize_any(Entries)
}

/// Largest small body, bytes. Small bodies need no budget: the limit of connections bounds them well enough.
const SMALL_BODY_BYTES: usize = 64 << 10;

/// Number of largest bodies that the budget holds.
const LARGEST_BODIES: usize = 4;

/// Bodies above this size, bytes, are parsed one at a time: each of their values takes more than a hundred bytes
/// meanwhile.
const PARALLEL_PARSE_BYTES: usize = 1 << 20;

/// Memory for bodies that are not small, in units of [`SMALL_BODY_BYTES`], and the permit to parse a large one.
#[derive(Clone)]
pub(super) struct Budget {
    units: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Budget {
    /// Creates the budget for bodies of up to `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let units = (limit / SMALL_BODY_BYTES + 1).saturating_mul(LARGEST_BODIES);
        let units = Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)));
        Self { units, large: Arc::new(Semaphore::new(1)) }
    }
}

/// A body with its share of the budget, kept until it is dropped.
pub(super) struct BufferedBody {
    bytes: Bytes,
    share: Option<OwnedSemaphorePermit>,
    large: Arc<Semaphore>,
    /// Most values in the JSON: a resource has no more values than bytes, and a body may be eight times as large.
    values: usize,
}

/// Reads a body.
///
/// # Errors
/// 415 for an unsupported content type or encoding, 413 for more than `limit` bytes, 408 if it does not arrive `within`
/// the time, 503 when the budget is used up, and when the server stops before the rest has arrived.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    within: Duration,
    budget: &Budget,
) -> Result<BufferedBody, HttpError> {
    if let Err(fault) = media(headers) {
        drain(body, within).await;
        return Err(fault);
    }
    let too_large = || {
        let limits = "limits service.max_request_bytes and store.max_resource_bytes";
        HttpError::new(ErrorKind::TooLarge, format!("the body has more than {limit} bytes ({limits})"))
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit.saturating_add(MAX_DRAINED_BYTES)) {
        return Err(too_large());
    }
    match tokio::time::timeout(within, collect(body, limit, budget)).await {
        Ok(CollectOutcome::Whole(read)) => Ok(read),
        Ok(CollectOutcome::TooLarge) => Err(too_large()),
        Ok(CollectOutcome::NoRoom) => Err(HttpError::new(
            ErrorKind::Busy,
            "too many large bodies are being received (the limit follows store.max_resource_bytes); try again",
        )
        .with_header(RETRY_AFTER, "1")),
        Ok(CollectOutcome::StreamError(e)) if e.to_string().starts_with(SERVER_STOPPING) => {
            Err(Error::new(Code::Unavailable, e.to_string()).into())
        }
        // The client is gone or sends nonsense; it may never read this.
        Ok(CollectOutcome::StreamError(e)) => {
            Err(HttpError::body(BAD_FORMAT_TEXT, String::new(), format!("it ended early: {e}")))
        }
        Err(_) => Err(HttpError::new(
            ErrorKind::TooSlow,
            format!("the body did not arrive within {} ms (limit http.request_timeout_ms)", within.as_millis()),
        )),
    }
}

/// The outcome of reading a body.
enum CollectOutcome {
    Whole(BufferedBody),
    TooLarge,
    NoRoom,
    StreamError(axum::Error),
}

/// Reads the whole body. The excess of an oversized body is read and dropped, up to a bound.
async fn collect(mut body: Body, limit: usize, budget: &Budget) -> CollectOutcome {
    let mut bytes = Vec::new();
    let mut share: Option<OwnedSemaphorePermit> = None;
    let mut units = 0;
    let mut seen = 0_usize;
    let mut no_room = false;
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(e) => return CollectOutcome::StreamError(e),
        };
        seen = seen.saturating_add(data.len());
        if seen > limit.saturating_add(MAX_DRAINED_BYTES) {
            break;
        }
        if seen > limit || no_room {
            (bytes, share) = (Vec::new(), None);
            continue;
        }
        if seen / SMALL_BODY_BYTES > units {
            let more = u32::try_from(seen / SMALL_BODY_BYTES - units).unwrap_or(u32::MAX);
            // Waiting here would hold memory that other bodies wait for.
            match (budget.units.clone().try_acquire_many_owned(more), &mut share) {
                (Ok(more), Some(share)) => share.merge(more),
                (Ok(more), None) => share = Some(more),
                (Err(_), _) => {
                    no_room = true;
                    continue;
                }
            }
            units = seen / SMALL_BODY_BYTES;
        }
        bytes.extend_from_slice(&data);
    }
    match () {
        () if seen > limit => CollectOutcome::TooLarge,
        () if no_room => CollectOutcome::NoRoom,
        () => CollectOutcome::Whole(BufferedBody {
            bytes: bytes.into(),
            share,
            large: budget.large.clone(),
            values: limit / 8 + SMALL_BODY_BYTES / 8,
        }),
    }
}

/// Reads and drops an unneeded body, up to bounds in bytes and time: closing the connection earlier could lose the
/// answer.
pub(super) async fn drain(mut body: Body, within: Duration) {
    let taking = async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > MAX_DRAINED_BYTES {
                return;
            }
        }
    };
    // The outcome makes no difference.
    let _ = tokio::time::timeout(within, taking).await;
}

fn media(headers: &HeaderMap) -> Result<(), HttpError> {
    let refused = |what: &str, got: &str| {
        HttpError::new(ErrorKind::MediaType, format!("{what} {got:?} is not supported; send application/json as it is"))
    };
    for value in headers.get_all(CONTENT_ENCODING) {
        let encoding = value.to_str().unwrap_or("?");
        if !encoding.eq_ignore_ascii_case("identity") {
            return Err(refused("content encoding", encoding).with_header(ACCEPT_ENCODING, "identity"));
        }
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or("?");
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let known = matches!(
        media.as_str(),
        "" | "application/json" | "application/x-www-form-urlencoded" | "text/plain" | "application/octet-stream"
    ) || (media.starts_with("application/") && media.ends_with("+json"));
    let charset = parts.find_map(|p| p.to_ascii_lowercase().strip_prefix("charset=").map(str::to_owned));
    let utf8 = charset.is_none_or(|c| matches!(c.trim_matches('"'), "utf-8" | "utf8" | "us-ascii"));
    if known && utf8 { Ok(()) } else { Err(refused("media type", text).with_header(ACCEPT, "application/json")) }
}

impl BufferedBody {
    /// Parses the body as a resource without an id. Parsing a large one does not delay other requests.
    ///
    /// # Errors
    /// 400, in Consul's words, with the path of the fault.
    pub(super) async fn resource(
        self,
        host: &DescriptorPool,
        message: &MessageDescriptor,
    ) -> Result<pb::Resource, HttpError> {
        if self.bytes.len() <= SMALL_BODY_BYTES {
            return resource(host, message, &self.bytes, self.values);
        }
        let (host, message) = (host.clone(), message.clone());
        let Self { bytes, share, large, values } = self;
        // The holder of the permit waits for nothing else, and keeps it only while parsing a few MiB.
        let place = match bytes.len() > PARALLEL_PARSE_BYTES {
            true => large.acquire_owned().await.ok(),
            false => None,
        };
        let parsing = tokio::task::spawn_blocking(move || {
            // Held until parsing ends, even if the client is gone.
            let _held = (share, place);
            resource(&host, &message, &bytes, values)
        });
        parsing.await.unwrap_or_else(|_| Err(Error::internal("grpc: panic serving request").into()))
    }
}

fn resource(
    host: &DescriptorPool,
    message: &MessageDescriptor,
    body: &[u8],
    values: usize,
) -> Result<pb::Resource, HttpError> {
    let malformed = |path: &str, e: String| HttpError::body(BAD_FORMAT_TEXT, path.to_owned(), e);
    // serde also reads a struct from a list, but a list is not a body.
    if !matches!(body.trim_ascii_start().first(), Some(b'{' | b'n')) {
        return Err(malformed("", "the body is not a JSON object".to_owned()));
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    let fields = serde_path_to_error::deserialize::<_, Option<BodyFields<'_>>>(&mut from)
        .map_err(|e| malformed(&plain_path(e.path()), e.inner().to_string()))?;
    from.end().map_err(|e| malformed("", e.to_string()))?;
    let Some(fields) = fields else {
        return Err(HttpError::body(BAD_SCHEMA_TEXT, "data".into(), "is required".into()));
    };

    let owner = part(host, "hashicorp.consul.resource.ID", "owner", fields.owner, values)?;
    let meta = part(host, "goten.types.Meta", "meta", fields.meta, values)?.map(Box::new);
    let data = match fields.data.map(RawValue::get) {
        None | Some("null") => return Err(HttpError::body(BAD_SCHEMA_TEXT, "data".into(), "is required".into())),
        Some(text) => data_from_json(text, message, &limits(text, values))
            .map_err(|diagnostics| HttpError::diagnostics(BAD_SCHEMA_TEXT, diagnostics))?,
    };
    Ok(pb::Resource {
        owner,
        metadata: fields.metadata.unwrap_or_default(),
        data: Some(data),
        meta,
        ..pb::Resource::default()
    })
}

/// Reads a part of a body as one of the host's messages; `None` if it is absent or null.
fn part<T: prost::Message + Default>(
    host: &DescriptorPool,
    message: &str,
    key: &str,
    value: Option<&RawValue>,
    values: usize,
) -> Result<Option<T>, HttpError> {
    let Some(text) = value.map(RawValue::get).filter(|text| *text != "null") else { return Ok(None) };
    let message = host.get_message_by_name(message).ok_or_else(no_host_message)?;
    let read = message_from_json(text, key, &message, &limits(text, values))
        .map_err(|diagnostics| HttpError::diagnostics(BAD_FORMAT_TEXT, diagnostics))?;
    let read = read.transcode_to().map_err(|e| HttpError::body(BAD_FORMAT_TEXT, key.to_owned(), e.to_string()))?;
    Ok(Some(read))
}

/// Limits for a part of a body.
fn limits(text: &str, values: usize) -> Limits {
    Limits { bytes: text.len(), values: values.min(text.len()), ..Limits::default() }
}

/// A path in the body's JSON as text.
fn plain_path(path: &Path) -> String {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(PathStep::Index(u32::try_from(*index).unwrap_or(u32::MAX))),
        Segment::Map { key } => Some(PathStep::Field(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    FieldPath(steps.collect()).to_string()
}
