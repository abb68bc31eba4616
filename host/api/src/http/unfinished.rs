//! Requests and answers under way when the server stops. The rest of a request has a moment to arrive, and a connection
//! without a call, such as one with half the head of a request, ends.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use futures::{FutureExt as _, future::BoxFuture};
use hyper::body::{Frame, Incoming, SizeHint};
use mortise_resource::SERVER_STOPPING;
use tokio::{sync::watch, time::sleep};

use crate::tasks::STOPPING_REQUEST_WAIT;

/// Number of a connection's calls, each from the complete head of its request to the end of its answer.
#[derive(Clone, Default)]
pub(super) struct CallCount(Arc<AtomicUsize>);

/// A counted call.
pub(super) struct CountedCall(Arc<AtomicUsize>);

impl CallCount {
    /// Counts a call until the returned value is dropped.
    pub(super) fn begin(&self) -> CountedCall {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedCall(self.0.clone())
    }

    /// Whether no call is in progress.
    pub(super) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer, with its call.
pub(super) struct AnswerBody {
    pub(super) inner: Body,
    pub(super) _call: CountedCall,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
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
