//! An answer on its way to HTTP/2: split into frames, and dropped when it is ended from outside.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use ::http::{HeaderMap, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{Status, body::Body};

use super::super::status::status;
use super::{CallGuard, CountsItself, OpenCall, Shared};

/// Bytes handed to HTTP/2 at once; a frame of up to one and a half times this is not split.
const FRAME_BYTES: usize = 32 << 10;

/// Applies the limits to an answer.
pub(super) fn limit_answer(
    calls: &Arc<Shared>,
    open: OpenCall,
    guard: CallGuard,
    response: Response<Body>,
) -> Response<Body> {
    if response.body().is_end_stream() {
        return response;
    }
    let counts = response.extensions().get::<CountsItself>().is_none();
    response.map(|body| {
        let number = calls.next.fetch_add(1, Ordering::Relaxed);
        let state =
            AnswerState::Open(Box::new(OpenAnswer { body, rest: Bytes::new(), counts, waker: None, _open: open }));
        let answer = Arc::new(Answer { guard, state: Mutex::new(state) });
        calls.answers.lock().insert(number, answer.clone());
        // From here on the answer is in the table; a change of permissions before that needs this check.
        answer.end_if_forbidden(&calls.held);
        Body::new(AnswerBody { calls: calls.clone(), number, answer })
    })
}

/// A running answer.
pub(super) struct Answer {
    pub(super) guard: CallGuard,
    state: Mutex<AnswerState>,
}

enum AnswerState {
    Open(Box<OpenAnswer>),
    /// Ended; the client has not received the status yet.
    Ended(Status),
    /// Finished.
    Done,
}

struct OpenAnswer {
    body: Body,
    /// The unsent rest of a frame.
    rest: Bytes,
    /// Whether the rest counts here, not as shared bytes.
    counts: bool,
    waker: Option<Waker>,
    _open: OpenCall,
}

impl Answer {
    /// Time for which the client has read nothing; `None` while the client waits for the server.
    pub(super) fn stalled_for(&self, now: Instant) -> Option<Duration> {
        match &*self.state.lock() {
            AnswerState::Open(_) => self.guard.reader.unread_for(now),
            AnswerState::Ended(_) | AnswerState::Done => None,
        }
    }

    /// Ends the answer if its caller has lost the permission. The report of a change stays, as the change does.
    pub(super) fn end_if_forbidden(&self, held: &AtomicUsize) {
        if !self.guard.reports_change
            && let Err(error) = self.guard.by.check(self.guard.requirement)
        {
            self.end(status(error), held);
        }
    }

    /// Drops everything that the answer holds.
    pub(super) fn end(&self, status: Status, held: &AtomicUsize) {
        let mut state = self.state.lock();
        if !matches!(*state, AnswerState::Open(_)) {
            return;
        }
        let before = std::mem::replace(&mut *state, AnswerState::Ended(status));
        drop(state);
        if let AnswerState::Open(open) = before {
            open.uncount(open.rest.len(), held);
            if let Some(waker) = &open.waker {
                waker.wake_by_ref();
            }
        }
    }
}

impl OpenAnswer {
    fn count(&self, bytes: usize, held: &AtomicUsize) {
        if self.counts {
            held.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn uncount(&self, bytes: usize, held: &AtomicUsize) {
        if self.counts {
            held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Takes the next piece of the unsent rest.
    fn next_frame(&mut self, held: &AtomicUsize) -> Frame<Bytes> {
        let piece = self.rest.split_to(FRAME_BYTES.min(self.rest.len()));
        self.uncount(piece.len(), held);
        // Copied, since HTTP/2 would keep the whole buffer for a part of it.
        Frame::data(Bytes::copy_from_slice(&piece))
    }
}

/// The body that HTTP/2 polls.
struct AnswerBody {
    calls: Arc<Shared>,
    number: u64,
    answer: Arc<Answer>,
}

type Polled = Poll<Option<Result<Frame<Bytes>, Status>>>;

impl AnswerBody {
    /// The next frame, and whether it added to the waiting bytes. From here on the frame is unread, until HTTP/2 asks for
    /// the next one.
    fn poll(&self, cx: &mut Context<'_>) -> (Polled, bool) {
        self.answer.guard.reader.set_unread(None);
        let (polled, more) = self.poll_state(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.is_data()
        {
            self.answer.guard.reader.set_unread(Some(Instant::now()));
        }
        (polled, more)
    }

    fn poll_state(&self, cx: &mut Context<'_>) -> (Polled, bool) {
        let mut state = self.answer.state.lock();
        let open = match &mut *state {
            AnswerState::Open(open) => open,
            AnswerState::Ended(status) => {
                let mut trailers = HeaderMap::new();
                // Fails for texts that a header cannot hold; the server makes none.
                let said = status.add_header(&mut trailers);
                *state = AnswerState::Done;
                return (Poll::Ready(Some(said.map(|()| Frame::trailers(trailers)))), false);
            }
            AnswerState::Done => return (Poll::Ready(None), false),
        };
        if !open.rest.is_empty() {
            return (Poll::Ready(Some(Ok(open.next_frame(&self.calls.held)))), false);
        }
        match Pin::new(&mut open.body).poll_frame(cx) {
            Poll::Pending => {
                open.waker = Some(cx.waker().clone());
                (Poll::Pending, false)
            }
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.len() > FRAME_BYTES + FRAME_BYTES / 2 => {
                    open.count(data.len(), &self.calls.held);
                    open.rest = data;
                    (Poll::Ready(Some(Ok(open.next_frame(&self.calls.held)))), true)
                }
                Ok(data) => (Poll::Ready(Some(Ok(Frame::data(data)))), false),
                Err(other) => (Poll::Ready(Some(Ok(other))), false),
            },
            ended => (ended, false),
        }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let (polled, more) = self.poll(cx);
        if more {
            self.calls.end_least_read();
        }
        polled
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.calls.answers.lock().remove(&self.number);
        self.answer.end(Status::cancelled("the client is gone"), &self.calls.held);
    }
}
