//! Reads the body of a request within bounds, and has it parsed.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap,
        header::{CONTENT_LENGTH, RETRY_AFTER},
    },
};
use http_body_util::BodyExt as _;
use mortise_resource::{Code, Error, SERVER_STOPPING, pb};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    body_json::{self, BAD_FORMAT_TEXT},
    body_yaml,
    error::{ErrorKind, HttpError},
    media::{Content, Media},
    patch_document::Patch,
    registry_types::RegistryTypes,
};

/// Bytes of an oversized body that are still read, so that the client reads the answer.
const MAX_DRAINED_BYTES: usize = 8 << 20;

/// Largest small body, bytes. Small bodies need no budget: the limit of connections bounds them well enough.
pub(super) const SMALL_BODY_BYTES: usize = 64 << 10;

/// Number of largest bodies that the budget holds.
const LARGEST_BODIES: usize = 4;

/// Bodies above this size, bytes, are parsed one at a time: each of their values takes more than a hundred bytes
/// meanwhile. So are such answers of RPCs printed.
pub(super) const PARALLEL_PARSE_BYTES: usize = 1 << 20;

/// Memory for bodies that are not small, in units of [`SMALL_BODY_BYTES`], and the permit to parse a large one.
#[derive(Clone)]
pub(super) struct Budget {
    units: Arc<Semaphore>,
    /// Number of the units.
    all_units: usize,
    large: Arc<Semaphore>,
}

impl Budget {
    /// Creates the budget for bodies of up to `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let units = (limit / SMALL_BODY_BYTES + 1).saturating_mul(LARGEST_BODIES);
        let all_units = units.min(Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(all_units)), all_units, large: Arc::new(Semaphore::new(1)) }
    }

    /// Takes a share for so many bytes of an answer, which has to be kept until they are sent; small ones need none.
    ///
    /// # Errors
    /// `Unavailable`: bodies and answers already hold all of it.
    pub(super) fn share(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let units = u32::try_from((bytes / SMALL_BODY_BYTES).min(self.all_units)).unwrap_or(u32::MAX);
        if units == 0 {
            return Ok(None);
        }
        self.units.clone().try_acquire_many_owned(units).map(Some).map_err(|_| {
            let what =
                "too many large answers wait for their clients (the limit follows store.max_resource_bytes); try again";
            Error { retry_after: Some(Duration::from_secs(1)), ..Error::new(Code::Unavailable, what) }
        })
    }

    /// The permit to parse or print something large.
    pub(super) fn large(&self) -> Arc<Semaphore> {
        self.large.clone()
    }
}

/// A body with its share of the budget, kept until it is dropped.
pub(super) struct BufferedBody {
    format: Media,
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
    content: Content,
    body: Body,
    limit: usize,
    within: Duration,
    budget: &Budget,
) -> Result<BufferedBody, HttpError> {
    let format = match content.format(headers) {
        Ok(format) => format,
        Err(fault) => {
            drain(body, within).await;
            return Err(fault);
        }
    };
    let too_large = || {
        let limits = "limits service.max_request_bytes and store.max_resource_bytes";
        HttpError::new(ErrorKind::TooLarge, format!("the body has more than {limit} bytes ({limits})"))
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit.saturating_add(MAX_DRAINED_BYTES)) {
        return Err(too_large());
    }
    match tokio::time::timeout(within, collect(body, format, limit, budget)).await {
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
async fn collect(mut body: Body, format: Media, limit: usize, budget: &Budget) -> CollectOutcome {
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
            format,
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
        let (host, message) = (host.clone(), message.clone());
        self.parsed(move |format, bytes, values| match format {
            Media::Yaml => body_yaml::resource(&message, bytes, values),
            _ => body_json::resource(&host, &message, bytes, values),
        })
        .await
    }

    /// Parses the body as a patch.
    ///
    /// # Errors
    /// 400, with the path of the fault.
    pub(super) async fn patch(self) -> Result<Patch, HttpError> {
        self.parsed(|format, bytes, _| Patch::parse(format, bytes)).await
    }

    /// Parses the body as the request of an RPC; returns it encoded. No body is an empty message.
    ///
    /// # Errors
    /// 400, with the path of the fault.
    pub(super) async fn message(self, message: MessageDescriptor, types: RegistryTypes) -> Result<Vec<u8>, HttpError> {
        self.parsed(move |_, bytes, values| body_json::message(&message, &types, bytes, values)).await
    }

    async fn parsed<T: Send + 'static>(
        self,
        parse: impl FnOnce(Media, &[u8], usize) -> Result<T, HttpError> + Send + 'static,
    ) -> Result<T, HttpError> {
        let Self { format, bytes, share, large, values } = self;
        if bytes.len() <= SMALL_BODY_BYTES {
            return parse(format, &bytes, values);
        }
        // The holder of the permit waits for nothing else, and keeps it only while parsing a few MiB.
        let place = match bytes.len() > PARALLEL_PARSE_BYTES {
            true => large.acquire_owned().await.ok(),
            false => None,
        };
        let parsing = tokio::task::spawn_blocking(move || {
            // Held until parsing ends, even if the client is gone.
            let _held = (share, place);
            parse(format, &bytes, values)
        });
        parsing.await.unwrap_or_else(|_| Err(Error::internal("grpc: panic serving request").into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_the_budget_until_they_are_sent() {
        let budget = Budget::new(1 << 20);
        assert!(budget.share(SMALL_BODY_BYTES - 1).unwrap().is_none(), "small ones need none");
        let held: Vec<_> = (0..LARGEST_BODIES).map(|_| budget.share(1 << 20).unwrap()).collect();
        let refused = budget.share(1 << 20).unwrap_err();
        assert!(refused.code == Code::Unavailable && refused.message.contains("try again"), "{refused}");
        drop(held);
        // One that is larger than all of it is sent alone.
        let alone = budget.share(1 << 30).unwrap();
        assert!(budget.share(SMALL_BODY_BYTES).is_err());
        drop(alone);
        assert!(budget.share(SMALL_BODY_BYTES).unwrap().is_some());
    }
}
