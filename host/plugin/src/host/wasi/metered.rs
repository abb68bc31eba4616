//! Bodies that are counted, and cut off when they get too long or too late.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::Sleep};
use wasmtime_wasi_http::{Error, WasiBody};
use wasmtime_wasi_io::bytes::Bytes;

/// Body of a request or of an answer.
pub(super) struct MeasuredBody {
    body: WasiBody,
    /// Bytes of all bodies of the call in this direction, and their limit.
    taken: Arc<AtomicUsize>,
    limit: usize,
    /// Deadline and permit of an answer; `None` for a request's body, which ends with the request.
    answer: Option<(Pin<Box<Sleep>>, OwnedSemaphorePermit)>,
    ended: bool,
}

impl MeasuredBody {
    pub(super) fn request(body: WasiBody, taken: Arc<AtomicUsize>, limit: usize) -> Self {
        Self { body, taken, limit, answer: None, ended: false }
    }

    pub(super) fn response(
        body: WasiBody,
        taken: Arc<AtomicUsize>,
        limit: usize,
        until: tokio::time::Instant,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        Self { body, taken, limit, answer: Some((Box::pin(tokio::time::sleep_until(until)), turn)), ended: false }
    }

    /// Counts a piece; answers the error if it exceeds the limit.
    fn excess(&self, piece: usize) -> Option<Error> {
        let before = self.taken.fetch_add(piece, Ordering::Relaxed);
        let size = Some(self.limit as u64);
        (before.saturating_add(piece) > self.limit).then(|| match self.answer {
            Some(_) => Error::HttpResponseBodySize(size),
            None => Error::HttpRequestBodySize(size),
        })
    }

    /// Ends the body with its last piece, and frees its permit.
    fn end(&mut self, last: Option<Result<Frame<Bytes>, Error>>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.ended = true;
        self.answer = None;
        Poll::Ready(last)
    }
}

impl Body for MeasuredBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some((until, _)) = &mut self.answer
            && until.as_mut().poll(context).is_ready()
        {
            return self.end(Some(Err(Error::HttpResponseTimeout)));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => match self.excess(frame.data_ref().map_or(0, Bytes::len)) {
                Some(excess) => self.end(Some(Err(excess))),
                None => Poll::Ready(Some(Ok(frame))),
            },
            Poll::Ready(last) => self.end(last),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
