//! Requests and answers under way when the server stops. The rest of a request has a moment to arrive, and a connection
//! without a call, such as one with half the head of a request, ends.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use futures::{FutureExt as _, future::BoxFuture};
use hyper::body::{Frame, Incoming, SizeHint};
use mortise_resource::SERVER_STOPPING;
use mortise_service::Reader;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{places::RunningCall, tasks::STOPPING_REQUEST_WAIT};

/// The body of an answer, whose call runs until it is sent.
pub(super) struct AnswerBody {
    inner: Body,
    /// The client of an answer of HTTP/2, which takes a piece of the body before the next one is asked for.
    reader: Option<Arc<Reader>>,
    _call: RunningCall,
}

impl AnswerBody {
    pub(super) fn new(inner: Body, reader: Option<Arc<Reader>>, call: RunningCall) -> Self {
        Self { inner, reader, _call: call }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Some(reader) = &self.reader {
            reader.set_unread(matches!(polled, Poll::Ready(Some(Ok(_)))).then(Instant::now));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of a request. It fails if it is not complete a moment after the stop.
pub(super) struct RequestBody {
    inner: Incoming,
    stopping: watch::Receiver<bool>,
    /// The end of the moment; made when the body has to be waited for.
    late: Option<BoxFuture<'static, ()>>,
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, stopping: watch::Receiver<bool>) -> Self {
        Self { inner, stopping, late: None }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let mut stopping = self.stopping.clone();
        let late = self.late.get_or_insert_with(|| {
            async move {
                // An error means that the sender is gone, which also means stop.
                let _ = stopping.wait_for(|stopping| *stopping).await;
                sleep(STOPPING_REQUEST_WAIT).await;
            }
            .boxed()
        });
        ready!(late.poll_unpin(cx));
        self.late = None;
        let fault = format!("{SERVER_STOPPING}, and the rest of the request did not arrive; send it again");
        Poll::Ready(Some(Err(axum::Error::new(io::Error::new(io::ErrorKind::TimedOut, fault)))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
