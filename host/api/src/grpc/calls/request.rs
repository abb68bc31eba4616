//! An arriving message of a request: its bytes are counted, and it ends if it takes too long.
//!
//! All bytes count from the first on, by one atomic addition for each frame. Over the limit, messages of more than
//! [`SMALL_MESSAGE_BYTES`] bytes are refused, and over twice the limit all messages: so small calls go on while large
//! messages arrive. Length and number of the messages are checked, too (`messages`). A stream of requests may last for
//! ever, so it counts as much as the largest question to reflection.

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

use super::messages::Messages;

/// Largest small message, bytes. Small messages are refused only beyond twice the budget.
pub(crate) const SMALL_MESSAGE_BYTES: usize = 4 << 10;

/// The budget of all arriving messages.
pub(super) struct RequestBytes {
    held: Arc<AtomicUsize>,
    limit: usize,
}

impl RequestBytes {
    /// Creates a budget of `limit` bytes, all free.
    pub(super) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    /// An empty share for a request.
    pub(super) fn share(&self) -> Arc<ReceivedShare> {
        Arc::new(ReceivedShare { held: self.held.clone(), limit: self.limit, bytes: AtomicUsize::new(0) })
    }
}

/// The share of a request; returned when the answer ends.
pub(super) struct ReceivedShare {
    /// The sum over all requests.
    held: Arc<AtomicUsize>,
    limit: usize,
    bytes: AtomicUsize,
}

impl ReceivedShare {
    /// Counts the bytes of a stream, up to those of a small message.
    fn add_stream_bytes(&self, bytes: usize) -> bool {
        self.add(bytes.min(SMALL_MESSAGE_BYTES.saturating_sub(self.bytes.load(Ordering::Relaxed))))
    }

    /// Counts arriving bytes. Returns false when the budget is used up.
    fn add(&self, bytes: usize) -> bool {
        let own = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let room = if own > SMALL_MESSAGE_BYTES { self.limit } else { self.limit.saturating_mul(2) };
        if before.saturating_add(bytes) > room {
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

/// The body of an arriving request.
pub(super) struct RequestBody {
    inner: Body,
    /// Resolves when the time is up.
    limit: BoxFuture<'static, Status>,
    share: Arc<ReceivedShare>,
    messages: Messages,
    /// Whether this is a stream of messages, which have other bounds one by one.
    is_stream: bool,
}

impl RequestBody {
    /// Wraps a body with messages of up to `message_bytes` bytes. It ends with the status of `limit` if that resolves
    /// before the body ends.
    pub(super) fn new(
        inner: Body,
        limit: BoxFuture<'static, Status>,
        share: Arc<ReceivedShare>,
        is_stream: bool,
        message_bytes: usize,
    ) -> Self {
        Self { inner, limit, share, messages: Messages::new(message_bytes, is_stream), is_stream }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let fits = if self.is_stream { self.share.add_stream_bytes(bytes) } else { self.share.add(bytes) };
                if fits {
                    let taken = frame.data_ref().map_or(Ok(()), |data| self.messages.take(data));
                    return Poll::Ready(Some(taken.map(|()| frame)));
                }
                metrics::counter!("mortise_grpc_requests_dropped_total").increment(1);
                let what = "too many requests are being received (limit grpc.inbound_buffer_bytes); try again later";
                Poll::Ready(Some(Err(Status::resource_exhausted(what))))
            }
            Poll::Pending => self.limit.poll_unpin(cx).map(|late| Some(Err(late))),
            Poll::Ready(None) => Poll::Ready(self.messages.end().err().map(Err)),
            failed => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    /// A request with frames but no end.
    fn unfinished(frames: Vec<usize>, share: Arc<ReceivedShare>, is_stream: bool) -> RequestBody {
        let frames = frames.into_iter().map(|bytes| Ok::<_, Status>(Frame::data(part(bytes))));
        RequestBody::new(
            Body::new(StreamBody::new(futures::stream::iter(frames))),
            Box::pin(pending()),
            share,
            is_stream,
            usize::MAX,
        )
    }

    /// A part of a message that is larger than every test.
    fn part(bytes: usize) -> Bytes {
        let mut part = vec![0; bytes];
        part.iter_mut().take(5).for_each(|byte| *byte = 0x7f);
        part.into()
    }

    /// The number of accepted frames, and the status of the next.
    async fn taken(body: &mut RequestBody) -> (usize, Option<Status>) {
        let mut frames = 0;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(_) => frames += 1,
                // The frames of these tests end within a message.
                Err(status) if status.code() == tonic::Code::InvalidArgument => return (frames, None),
                Err(status) => return (frames, Some(status)),
            }
        }
        (frames, None)
    }

    #[tokio::test]
    async fn bytes_count_from_the_first_and_small_messages_have_as_much_room_again() {
        let all = RequestBytes::new(100 << 10);
        let held = || all.held.load(Ordering::Relaxed);
        let (mut first, second) = (unfinished(vec![60 << 10], all.share(), false), all.share());
        assert_eq!(taken(&mut first).await.0, 1);
        assert_eq!(held(), 60 << 10);
        let (frames, refused) = taken(&mut unfinished(vec![30 << 10, 30 << 10], second.clone(), false)).await;
        let refused = refused.unwrap();
        assert_eq!((frames, refused.code(), held()), (1, tonic::Code::ResourceExhausted, 90 << 10), "{refused}");
        assert!(refused.message().contains("grpc.inbound_buffer_bytes"), "{refused}");
        assert!(taken(&mut unfinished(vec![10 << 10], second.clone(), false)).await.1.is_none(), "to the last byte");
        for (bytes, fits) in [(SMALL_MESSAGE_BYTES, true), (SMALL_MESSAGE_BYTES + 1, false)] {
            assert_eq!(taken(&mut unfinished(vec![bytes], all.share(), false)).await.1.is_none(), fits, "{bytes}");
            assert_eq!(held(), 100 << 10);
        }
        let small = || unfinished(vec![SMALL_MESSAGE_BYTES], all.share(), false);
        let mut many: Vec<_> = (0..25).map(|_| small()).collect();
        for item in &mut many {
            assert!(taken(item).await.1.is_none());
        }
        assert_eq!((held(), taken(&mut small()).await.1.is_some()), (200 << 10, true), "and no more");
        drop((first, second, many));
        assert_eq!(held(), 0, "all comes back");
    }

    /// A stream may carry any number of messages, one after the other, and takes little from others meanwhile.
    #[tokio::test]
    async fn a_stream_counts_as_one_small_message() {
        let all = RequestBytes::new(SMALL_MESSAGE_BYTES);
        let stream = |frames| unfinished(frames, all.share(), true);
        let mut streams = [stream(vec![1 << 20; 1_000]), stream(vec![100; 100])];
        for (stream, frames) in streams.iter_mut().zip([1_000, 100]) {
            assert_eq!(taken(stream).await.0, frames);
        }
        assert_eq!(all.held.load(Ordering::Relaxed), 2 * SMALL_MESSAGE_BYTES);
        assert!(taken(&mut stream(vec![1])).await.1.is_some(), "streams are bounded together, too");
        drop(streams);
        assert_eq!(all.held.load(Ordering::Relaxed), 0);
    }
}
