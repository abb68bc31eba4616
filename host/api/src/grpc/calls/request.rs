//! A request's message while it arrives: counted, and ended when it takes too long.
//!
//! All bytes count, from the first on, by one atomic addition for a frame. Over the limit a message is refused that has
//! more than [`SMALL_MESSAGE`] bytes itself. So small calls go on while large messages are waited for; connections and
//! streams bound those: `grpc.max_connections` times `service.max_streams` times [`SMALL_MESSAGE`].

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use tonic::{Status, body::Body};

/// A message of so many bytes is never refused for want of room.
pub(crate) const SMALL_MESSAGE: usize = 4 << 10;

/// What the messages that are being received share.
pub(super) struct RequestBytes {
    held: Arc<AtomicUsize>,
    limit: usize,
}

impl RequestBytes {
    /// So many bytes, all free.
    pub(super) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    /// Nothing of them yet, for one request.
    pub(super) fn share(&self) -> Arc<ReceivedShare> {
        Arc::new(ReceivedShare { held: self.held.clone(), limit: self.limit, bytes: AtomicUsize::new(0) })
    }
}

/// The memory of a request, which it has until it is answered.
pub(super) struct ReceivedShare {
    /// That of all requests.
    held: Arc<AtomicUsize>,
    limit: usize,
    bytes: AtomicUsize,
}

impl ReceivedShare {
    /// Counts what came. False when there is no room for it.
    fn add(&self, bytes: usize) -> bool {
        let own = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if own > SMALL_MESSAGE && before.saturating_add(bytes) > self.limit {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes.store(own, Ordering::Relaxed);
        true
    }
}

impl Drop for ReceivedShare {
    fn drop(&mut self) {
        self.held.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// A request that is being received.
pub(super) struct RequestBody {
    inner: Body,
    /// Resolves when it has taken too long.
    limit: BoxFuture<'static, Status>,
    /// `None` for a stream of messages, which are bounded one by one elsewhere.
    share: Option<Arc<ReceivedShare>>,
}

impl RequestBody {
    /// A message that ends with the status that `limit` resolves to, unless it is there before.
    pub(super) fn new(inner: Body, limit: BoxFuture<'static, Status>, share: Option<Arc<ReceivedShare>>) -> Self {
        Self { inner, limit, share }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if self.share.as_ref().is_none_or(|share| share.add(bytes)) {
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    /// A request whose frames come without its end.
    fn unfinished(frames: Vec<usize>, share: Option<Arc<ReceivedShare>>) -> RequestBody {
        let frames = frames.into_iter().map(|bytes| Ok::<_, Status>(Frame::data(Bytes::from(vec![0; bytes]))));
        RequestBody::new(Body::new(StreamBody::new(futures::stream::iter(frames))), Box::pin(pending()), share)
    }

    /// As many of its frames as are taken, and what is said of the next.
    async fn taken(body: &mut RequestBody) -> (usize, Option<Status>) {
        let mut frames = 0;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(_) => frames += 1,
                Err(status) => return (frames, Some(status)),
            }
        }
        (frames, None)
    }

    #[tokio::test]
    async fn bytes_count_from_the_first_and_small_messages_are_not_refused() {
        let all = RequestBytes::new(100 << 10);
        let held = || all.held.load(Ordering::Relaxed);
        let (mut first, second) = (unfinished(vec![60 << 10], Some(all.share())), all.share());
        assert_eq!(taken(&mut first).await.0, 1);
        assert_eq!(held(), 60 << 10);
        let (frames, refused) = taken(&mut unfinished(vec![30 << 10, 30 << 10], Some(second.clone()))).await;
        let refused = refused.unwrap();
        assert_eq!((frames, refused.code(), held()), (1, tonic::Code::ResourceExhausted, 90 << 10), "{refused}");
        assert!(refused.message().contains("grpc.request_bytes"), "{refused}");
        assert!(taken(&mut unfinished(vec![10 << 10], Some(second.clone()))).await.1.is_none(), "to the last byte");
        for (bytes, fits) in [(SMALL_MESSAGE, true), (SMALL_MESSAGE + 1, false)] {
            assert_eq!(taken(&mut unfinished(vec![bytes], Some(all.share()))).await.1.is_none(), fits, "{bytes}");
            assert_eq!(held(), 100 << 10);
        }
        drop((first, second));
        assert_eq!(held(), 0, "all comes back");
    }

    /// A stream may say as much as it likes, one message after the other, and takes nothing from others meanwhile.
    #[tokio::test]
    async fn streams_do_not_count() {
        assert_eq!(taken(&mut unfinished(vec![1 << 20; 1_000], None)).await.0, 1_000);
    }
}
