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
use http_body_util::BodyExt as _;
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
    /// First piece, if it was waited for.
    first: Option<Frame<Bytes>>,
    ended: bool,
}

impl MeasuredBody {
    pub(super) fn request(body: WasiBody, taken: Arc<AtomicUsize>, limit: usize) -> Self {
        Self { body, taken, limit, answer: None, first: None, ended: false }
    }

    pub(super) fn response(
        body: WasiBody,
        taken: Arc<AtomicUsize>,
        limit: usize,
        until: tokio::time::Instant,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        let answer = Some((Box::pin(tokio::time::sleep_until(until)), turn));
        Self { body, taken, limit, answer, first: None, ended: false }
    }

    /// Waits for the first piece, or for the end of a body without one: only then is an empty body known as such, and
    /// its request goes out without chunks.
    ///
    /// # Errors
    /// That of the body.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        self.first = self.frame().await.transpose()?;
        self.ended |= self.first.is_none();
        Ok(())
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
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
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
        self.first.is_none() && (self.ended || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.first, self.ended) {
            (None, true) => SizeHint::with_exact(0),
            (None, false) => self.body.size_hint(),
            // The rest has a hint of its own, without the first piece.
            (Some(_), _) => SizeHint::default(),
        }
    }
}
