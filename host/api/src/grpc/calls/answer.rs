//! A call whose caller is known, and its answer on the way to HTTP/2: split into frames, and dropped when it is ended
//! from outside.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use ::http::{HeaderMap, HeaderValue, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use mortise_service::Origin;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{Status, body::Body};

use super::super::status::status;
use super::{
    CallGuard, CountsItself, Shared,
    deadline::{Deadline, Timer, Within},
    records,
    request::ReceivedShare,
};
use crate::{
    authenticate::REQUEST_ID_HEADER,
    places::{RunningCall, Usage},
};

/// Bytes handed to HTTP/2 at once; a frame of up to one and a half times this is not split.
const FRAME_BYTES: usize = 32 << 10;

/// A counted call that can still end normally.
pub(super) struct OpenCall {
    calls: Arc<Shared>,
    _on_connection: Option<RunningCall>,
}

impl OpenCall {
    pub(super) fn begin(calls: &Arc<Shared>, connection: Option<&Arc<Usage>>) -> Self {
        calls.open.fetch_add(1, Ordering::AcqRel);
        Self { calls: calls.clone(), _on_connection: connection.map(Usage::begin_call) }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.calls.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.calls.closed.notify_waiters();
        }
    }
}

/// A call whose caller is known.
pub(super) struct BegunCall {
    pub(super) calls: Arc<Shared>,
    pub(super) open: OpenCall,
    pub(super) guard: CallGuard,
    pub(super) deadline: Option<Deadline>,
    pub(super) origin: Arc<Origin>,
    /// Returned once the answer begins.
    pub(super) share: Arc<ReceivedShare>,
}

impl BegunCall {
    /// Waits for the answer, at most until the deadline, and applies the limits to it.
    pub(super) async fn answered<E>(
        self,
        answering: impl Future<Output = Result<Response<Body>, E>>,
    ) -> Result<Response<Body>, E> {
        let Self { calls, open, guard, deadline, origin, share } = self;
        let response = match Within::new(deadline.as_ref(), answering).await {
            Ok(answered) => answered?,
            Err(late) => late.into_http(),
        };
        drop(share);
        Ok(limit_answer(&calls, open, guard, deadline, records::with_request_id(response, &origin)))
    }
}

/// Applies the limits to an answer.
fn limit_answer(
    calls: &Arc<Shared>,
    open: OpenCall,
    guard: CallGuard,
    deadline: Option<Deadline>,
    response: Response<Body>,
) -> Response<Body> {
    if response.body().is_end_stream() {
        return response;
    }
    let counts = response.extensions().get::<CountsItself>().is_none();
    response.map(|body| {
        let number = calls.next.fetch_add(1, Ordering::Relaxed);
        let open = OpenAnswer { body, rest: Bytes::new(), counts, waker: None, timer: None, _open: open };
        let answer = Arc::new(Answer { guard, deadline, state: Mutex::new(AnswerState::Open(Box::new(open))) });
        calls.answers.lock().insert(number, answer.clone());
        // From here on the answer is in the table; a change of permissions before that needs this check.
        answer.end_if_forbidden(&calls.held);
        Body::new(AnswerBody { calls: calls.clone(), number, answer })
    })
}

/// A running answer.
pub(super) struct Answer {
    pub(super) guard: CallGuard,
    deadline: Option<Deadline>,
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
    timer: Timer,
    _open: OpenCall,
}

impl Answer {
    /// Time for which the client has read nothing; `None` while the client waits for the server.
    pub(super) fn stalled_for(&self, now: Instant) -> Option<Duration> {
        match &*self.state.lock() {
            AnswerState::Open(_) => self.guard.caller.reader.unread_for(now),
            AnswerState::Ended(_) | AnswerState::Done => None,
        }
    }

    /// Ends the answer if its caller has lost the permission. The report of a change stays, as the change does.
    pub(super) fn end_if_forbidden(&self, held: &AtomicUsize) {
        if !self.guard.reports_change
            && let Err(error) = self.guard.caller.by.check(self.guard.requirement)
        {
            self.end(status(error), held);
        }
    }

    /// The status of an answer whose deadline has passed.
    pub(super) fn late(&self) -> Option<Status> {
        self.deadline.as_ref().filter(|deadline| deadline.has_passed()).map(Deadline::status)
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
    /// The next frame, and whether it added to the waiting bytes. From here on the frame is unread, until HTTP/2 asks
    /// for the next one.
    fn poll(&self, cx: &mut Context<'_>) -> (Polled, bool) {
        self.answer.guard.caller.reader.set_unread(None);
        let (polled, more) = self.poll_state(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.is_data()
        {
            self.answer.guard.caller.reader.set_unread(Some(Instant::now()));
        }
        (polled, more)
    }

    fn poll_state(&self, cx: &mut Context<'_>) -> (Polled, bool) {
        if let Some(deadline) = &self.answer.deadline {
            let passed = match &mut *self.answer.state.lock() {
                AnswerState::Open(open) => deadline.poll_passed(&mut open.timer, cx).is_ready(),
                AnswerState::Ended(_) | AnswerState::Done => false,
            };
            if passed {
                self.answer.end(deadline.status(), &self.calls.held);
            }
        }
        let mut state = self.answer.state.lock();
        let open = match &mut *state {
            AnswerState::Open(open) => open,
            AnswerState::Ended(status) => {
                let mut trailers = HeaderMap::new();
                // Fails for texts that a header cannot hold; the server makes none.
                let added = status.add_header(&mut trailers);
                if let Ok(number) = HeaderValue::from_str(self.answer.guard.caller.by.origin.request()) {
                    trailers.insert(&REQUEST_ID_HEADER, number);
                }
                *state = AnswerState::Done;
                return (Poll::Ready(Some(added.map(|()| Frame::trailers(trailers)))), false);
            }
            AnswerState::Done => return (Poll::Ready(None), false),
        };
        if !open.rest.is_empty() {
            return (Poll::Ready(Some(Ok(open.next_frame(&self.calls.held)))), false);
        }
        match Pin::new(&mut open.body).poll_frame(cx) {
            Poll::Pending => {
                match &mut open.waker {
                    Some(known) => known.clone_from(cx.waker()),
                    waker => *waker = Some(cx.waker().clone()),
                }
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
