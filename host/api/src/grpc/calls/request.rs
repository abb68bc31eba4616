//! A request's message while it arrives: counted, and ended when it takes too long.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Status, body::Body};

/// What of a request's message is not counted, bytes, and the unit in which the rest is.
pub(super) const SMALL: usize = 64 << 10;

/// The memory of a request, which it has until it is answered.
pub(super) type ReceivedShare = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

/// A request that is being received.
pub(super) struct RequestBody {
    inner: Body,
    /// Resolves when it has taken too long.
    limit: BoxFuture<'static, Status>,
    received: usize,
    /// What messages share, in units of [`SMALL`].
    budget: Arc<Semaphore>,
    share: ReceivedShare,
}

impl RequestBody {
    /// A message that ends with the status that `limit` resolves to, unless it is there before.
    pub(super) fn new(
        inner: Body,
        limit: BoxFuture<'static, Status>,
        budget: Arc<Semaphore>,
        share: ReceivedShare,
    ) -> Self {
        Self { inner, limit, received: 0, budget, share }
    }

    /// Counts what came. False when there is no room for it.
    fn count(&mut self, bytes: usize) -> bool {
        let before = self.received / SMALL;
        self.received = self.received.saturating_add(bytes);
        let more = self.received / SMALL - before;
        if more == 0 {
            return true;
        }
        let more = self.budget.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX));
        let Ok(more) = more else { return false };
        let mut share = self.share.lock();
        match share.as_mut() {
            Some(share) => share.merge(more),
            None => *share = Some(more),
        }
        true
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if self.count(bytes) {
                    return Poll::Ready(Some(Ok(frame)));
                }
                metrics::counter!("mortise_grpc_requests_dropped_total").increment(1);
                let what = "too many large requests are being received (limit grpc.request_bytes); try again later";
                Poll::Ready(Some(Err(Status::resource_exhausted(what))))
            }
            Poll::Pending => self.limit.poll_unpin(cx).map(|late| Some(Err(late))),
            ended => ended,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
