//! The running calls of the gRPC port: bounds on the memory of their requests and answers, and on their time.
//!
//! # Requests
//! The message of a call has `http.request_timeout_ms` to arrive. Its bytes count against `grpc.inbound_buffer_bytes`
//! until the call is answered (`request`). A message beyond that budget is refused, and the client may retry; if the
//! message waited, it would hold memory that other requests need. Messages of at most 4 KiB are refused only beyond
//! twice the budget. A call with a stream of requests counts as 4 KiB while it lasts: uploads have limits of their own,
//! and questions to reflection are no larger.
//!
//! # Answers
//! An answer goes to HTTP/2 in frames of 32 KiB (`answer`); each frame waits until the client has made room for it. So
//! HTTP/2 holds one frame and its own buffer, and the rest is held here, where it can be dropped. An answer ends if its
//! client reads nothing for `http.stall_timeout_ms`: everything that it holds (a list, a watch with its place and its
//! events) is dropped, even if HTTP/2 never asks for more. It ends sooner if other callers wait for the share of lists
//! or snapshots that it holds, and hold less. The waiting bytes of large answers have a common bound
//! (`grpc.outbound_buffer_bytes`); beyond it, the answers that were read least recently end. Bytes that many answers
//! share count once (`counted`), until the last of these answers has sent them or ended.
//!
//! # Deadlines
//! A call ends at the deadline that its client sets (`deadline`), be it before, between or behind the parts of its
//! answer.
//!
//! # Callers
//! The caller is recognised here, once, and the requirement of the method is checked ([`crate::authenticate`]). The
//! caller of a call from within the server is known already ([`super::in_process`]). The check is repeated whenever
//! tokens or policies change, as long as the answer lasts. A method that the server does not have is Unimplemented for
//! every caller, also for one without a valid token: clients that try newer methods go on without them after
//! Unimplemented alone.
//!
//! # Stopping
//! Answers whose clients do not read end at once, the rest of a message has a moment to arrive, and the server waits
//! only for the remaining calls.
//!
//! Cost: a call takes two uncontended locks; an answer over 48 KiB is copied once more.

mod addressee;
mod answer;
mod counted;
mod deadline;
mod messages;
mod methods;
mod records;
mod request;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use ::http::{Request, Response};
use futures::{FutureExt as _, future::BoxFuture};
use mortise_resource::{Error, authorizer::Authorizer};
use mortise_service::{CallerCounts, OpenCount, Origin, Remote, ResourceService, Source, Surface};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use self::{
    answer::{Answer, BegunCall, OpenCall},
    deadline::Deadline,
    methods::{MethodFacts, Methods},
    request::{RequestBody, RequestBytes},
};
pub(crate) use self::{
    counted::{AnswerBytes, CountedBytes, CountsItself},
    request::SMALL_MESSAGE_BYTES,
};
use super::{
    call_context::{CallContext, KnownCaller},
    connections::ConnectionFacts,
    resource_service::RecentEvents,
    status::status,
};
use crate::{
    authenticate::{Authenticated, Peer, Requirement, origin, unknown_caller},
    observability::requests::RequestCounts,
    port::STOPPING_STALL_TIMEOUT,
    tasks::STOPPING_REQUEST_WAIT,
};

/// Time between two looks at answers that have to give way to calls that wait.
const PRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The number of the code Unknown.
const UNKNOWN_CODE: usize = 2;

/// Limits of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    /// Bytes of arriving messages.
    pub(crate) request_bytes: usize,
    /// Longest time for a message to arrive.
    pub(crate) request_timeout: Duration,
    /// Bytes of answers that wait for their clients.
    pub(crate) answer_bytes: usize,
    /// Longest time for which a client may read nothing of an answer.
    pub(crate) stall_timeout: Duration,
    /// Largest message, bytes.
    pub(crate) message_bytes: usize,
    /// Concurrent calls of one caller.
    pub(crate) caller_streams: usize,
}

/// The running calls. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Calls(Arc<Shared>);

struct Shared {
    service: ResourceService,
    limits: CallLimits,
    /// Running calls by caller.
    streams: Arc<CallerCounts>,
    requests: RequestBytes,
    answers: Mutex<HashMap<u64, Arc<Answer>>>,
    next: AtomicU64,
    /// Bytes of waiting answers.
    held: Arc<AtomicUsize>,
    /// Calls that can still end normally.
    open: AtomicUsize,
    closed: Notify,
    stopping: AtomicBool,
    stopped: Notify,
    methods: Methods,
    recent: Arc<RecentEvents>,
}

impl Calls {
    /// Creates the table without any call. `methods` are full names, such as `grpc.health.v1.Health/Check`.
    pub(crate) fn new(
        limits: CallLimits,
        service: ResourceService,
        methods: &[String],
        counts: &RequestCounts,
    ) -> Self {
        Self(Arc::new(Shared {
            service,
            methods: Methods::new(methods, counts),
            limits,
            streams: CallerCounts::new("calls", "grpc.caller_streams", limits.caller_streams),
            requests: RequestBytes::new(limits.request_bytes),
            answers: Mutex::default(),
            next: AtomicU64::new(0),
            held: Arc::default(),
            open: AtomicUsize::new(0),
            closed: Notify::new(),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
            recent: Arc::default(),
        }))
    }

    /// The counter for bytes that answers share.
    pub(crate) fn shared_bytes(&self) -> AnswerBytes {
        AnswerBytes(self.0.held.clone())
    }

    /// The layer around every call.
    pub(crate) fn layer(&self) -> CallsLayer {
        CallsLayer(self.0.clone())
    }

    /// Runs for ever: ends answers that are not read, and answers whose callers have lost the permission.
    pub(crate) async fn supervise(&self, mut changes: Option<watch::Receiver<u64>>) {
        let limit = self.0.limits.stall_timeout;
        let often = (limit / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let mut press = interval(PRESS_INTERVAL);
        press.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = Instant::now() + often;
        loop {
            tokio::select! {
                () = sleep_until(look) => {}
                now = press.tick() => {
                    if self.0.service.press_unread(now) {
                        self.0.end_asked();
                    }
                    continue;
                }
                () = self.0.stopped.notified() => {}
                () = changed(&mut changes) => self.0.end_forbidden(),
            }
            look = Instant::now() + if self.0.is_stopping() { STOPPING_STALL_TIMEOUT / 4 } else { often };
            self.0.end_stalled(if self.0.is_stopping() { STOPPING_STALL_TIMEOUT.min(limit) } else { limit });
        }
    }

    /// Begins to stop. A call goes on as long as its client reads.
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
        self.0.stopped.notify_waiters();
    }

    /// Resolves once no call is left that can end normally.
    pub(crate) async fn ended(&self) {
        loop {
            let mut closed = std::pin::pin!(self.0.closed.notified());
            closed.as_mut().enable();
            if self.0.open.load(Ordering::Acquire) == 0 {
                return;
            }
            closed.await;
        }
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn end_forbidden(&self) {
        let answers: Vec<_> = self.answers.lock().values().cloned().collect();
        for answer in answers {
            answer.end_if_forbidden(&self.held);
        }
    }

    /// Ends the answers that have to give way.
    fn end_asked(&self) {
        let answers: Vec<_> = self.answers.lock().values().cloned().collect();
        for answer in answers {
            if answer.guard.caller.reader.take_asked() {
                let what = "the client read nothing of the answer while others waited to begin theirs; try again";
                answer.end(Status::aborted(what), &self.held);
            }
        }
    }

    fn end_stalled(&self, limit: Duration) {
        let now = Instant::now();
        let answers: Vec<_> = self.answers.lock().values().cloned().collect();
        for answer in answers {
            if let Some(late) = answer.late() {
                answer.end(late, &self.held);
            } else if answer.stalled_for(now).is_some_and(|stalled| stalled >= limit) {
                let status = match self.is_stopping() {
                    true => Status::unavailable("the server is stopping, and the client read nothing of the answer"),
                    false => Status::aborted(format!(
                        "the client read nothing of the answer for {} ms (limit http.stall_timeout_ms); try again",
                        limit.as_millis()
                    )),
                };
                metrics::counter!("mortise_grpc_answers_stalled_total").increment(1);
                answer.end(status, &self.held);
            }
        }
    }

    /// Ends answers until the waiting bytes are within their bound, least recently read first.
    fn end_least_read(&self) {
        if self.held.load(Ordering::Relaxed) <= self.limits.answer_bytes {
            return;
        }
        let now = Instant::now();
        let answers: Vec<_> = self.answers.lock().values().cloned().collect();
        let mut stalled: Vec<_> =
            answers.into_iter().filter_map(|answer| answer.stalled_for(now).map(|since| (since, answer))).collect();
        stalled.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
        for (_, answer) in stalled {
            if self.held.load(Ordering::Relaxed) <= self.limits.answer_bytes {
                return;
            }
            metrics::counter!("mortise_grpc_answers_dropped_total").increment(1);
            let what =
                "too many bytes of answers wait for their clients (limit grpc.outbound_buffer_bytes); try again later";
            answer.end(Status::resource_exhausted(what), &self.held);
        }
    }
}

/// Resolves when permissions may have changed.
async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    let changed = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending().await
    }
}

/// The layer of [`Calls::layer`].
#[derive(Clone)]
pub(crate) struct CallsLayer(Arc<Shared>);

impl<S> Layer<S> for CallsLayer {
    type Service = CallsService<S>;

    fn layer(&self, inner: S) -> CallsService<S> {
        CallsService { inner, calls: self.0.clone() }
    }
}

/// The services within the limits.
#[derive(Clone)]
pub(crate) struct CallsService<S> {
    inner: S,
    calls: Arc<Shared>,
}

impl<S> Service<Request<Body>> for CallsService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Future: Send + 'static> + Clone + Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let calls = self.calls.clone();
        let connection = request.extensions_mut().remove::<Arc<ConnectionFacts>>();
        let known = request.extensions_mut().remove::<KnownCaller>();
        let open = OpenCall::begin(&calls, connection.as_ref().map(|facts| &facts.usage));
        let remote = connection.as_ref().map_or(Remote::Unknown, |facts| facts.remote);
        let origin = match &known {
            Some(known) => known.by.origin.clone(),
            None => origin(Surface::Grpc, remote, request.headers()),
        };
        let deadline = Deadline::of(request.headers());
        let (facts, count) = calls.methods.begin(request.uri().path());
        let begun_at = Instant::now();
        let counted = move |answer: &Result<Response<Body>, S::Error>| {
            count.answered(answer.as_ref().map_or(UNKNOWN_CODE, code), begun_at.elapsed());
        };
        let method = match facts {
            Some(facts) => facts,
            None if deadline.is_err() => MethodFacts::for_path(request.uri().path()),
            None => {
                let status = Status::unimplemented("the server has no such method; reflection lists those that it has");
                return async move { Ok(status.into_http()) }.inspect(counted).boxed();
            }
        };
        let guard = authenticated(&calls, &request, method, (known, connection.as_deref()), origin.clone());
        let begun = guard.and_then(|guard| match deadline {
            Ok(deadline) => {
                if let Some(deadline) = &deadline {
                    origin.set_deadline(deadline.instant());
                }
                Ok((guard, deadline))
            }
            Err(error) => Err((guard.caller.by.authorizer.clone(), error)),
        });
        let (guard, deadline) = match begun {
            Ok(begun) => begun,
            Err((by, error)) => {
                let refusal = records::refuse(calls.service.clone(), by, origin, request.uri().path(), error);
                return refusal.map(Ok).inspect(counted).boxed();
            }
        };
        let share = calls.requests.share();
        let limits = calls.limits;
        let mut request = request.map(|body| {
            let limit = match method.is_streamed {
                true => Box::pin(ended_early(calls.clone(), guard.caller.by.clone(), guard.requirement))
                    as BoxFuture<'static, Status>,
                false => Box::pin(incomplete(calls.clone(), limits.request_timeout)),
            };
            let message_bytes = if method.is_reflection { SMALL_MESSAGE_BYTES } else { limits.message_bytes };
            Body::new(RequestBody::new(body, limit, share.clone(), method.is_streamed, message_bytes))
        });
        let caller = guard.caller.clone();
        let begun = BegunCall { calls: calls.clone(), open, guard, deadline, origin: origin.clone(), share };
        if let Some(resource) = method.resource {
            let (service, recent) = (calls.service.clone(), calls.recent.clone());
            let answering = resource.answer(service, request, caller, limits.message_bytes, recent);
            return begun.answered(answering.map(Ok)).inspect(counted).boxed();
        }
        request.extensions_mut().insert(caller);
        let answering = match method.is_recorded && calls.service.audit().is_some() {
            true => {
                // Only the polled instance is ready; a clone may not be.
                let other = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, other);
                let (by, changes) = (begun.guard.caller.by.authorizer.clone(), begun.guard.requirement.is_change());
                records::record(calls.service.clone(), by, origin, changes, inner, request).boxed()
            }
            false => self.inner.call(request).boxed(),
        };
        begun.answered(answering).inspect(counted).boxed()
    }
}

/// The number of the code in the head of an answer; OK if the code comes at the end, as for streams.
fn code(answer: &Response<Body>) -> usize {
    let code = answer.headers().get("grpc-status").and_then(|code| code.to_str().ok());
    code.map_or(0, |code| code.parse().unwrap_or(UNKNOWN_CODE))
}

/// Recognises the caller, and checks the method's requirement. An error includes the caller as far as it is known.
fn authenticated<B>(
    calls: &Shared,
    request: &Request<B>,
    method: MethodFacts,
    (known, connection): (Option<KnownCaller>, Option<&ConnectionFacts>),
    origin: Arc<Origin>,
) -> Result<CallGuard, (Arc<dyn Authorizer>, Error)> {
    let peer = connection
        .map_or_else(Peer::default, |facts| Peer { certificate: facts.certificate.as_ref(), local: facts.local });
    // Channels send their token with the checks of health, too: a refusal there would hide the reason from their calls.
    let without_token = ::http::HeaderMap::new();
    let headers = if method.is_health { &without_token } else { request.headers() };
    let (by, inside) = match known {
        Some(KnownCaller { by, source }) => (Ok(by), source),
        None => (Authenticated::of(calls.service.access(), None, headers, peer, origin.clone()), Source::default()),
    };
    let by = by.map_err(|error| (unknown_caller(), error))?;
    by.check(method.requirement).map_err(|error| (by.authorizer.clone(), error))?;
    addressee::check(&calls.service, request.headers()).map_err(|error| (by.authorizer.clone(), error))?;
    if by.authorizer.is_authenticated()
        && let Some(connection) = connection
    {
        connection.usage.note_known_caller();
    }
    let holder = Source::of_caller(&*by.authorizer, Some(&origin));
    let stream = holder.map(|holder| calls.streams.open(holder)).transpose();
    let _stream = stream.map_err(|error| (by.authorizer.clone(), error))?;
    let source = connection.map_or(inside, |facts| facts.source);
    let caller = CallContext { by, reader: Arc::default(), source };
    Ok(CallGuard { caller, requirement: method.requirement, reports_change: method.reports_change, _stream })
}

/// The caller and the requirement of a call, kept for as long as its answer lasts.
struct CallGuard {
    caller: CallContext,
    requirement: Requirement,
    /// Whether the answer reports a change ([`Requirement::reports_change`]).
    reports_change: bool,
    _stream: Option<OpenCount>,
}

/// Resolves when a request must end: the server stops, or the caller has lost the permission.
async fn ended_early(calls: Arc<Shared>, by: Authenticated, requirement: Requirement) -> Status {
    let mut changes = calls.service.access().map(|access| access.changes());
    let refused = async {
        loop {
            changed(&mut changes).await;
            if let Err(error) = by.check(requirement) {
                return status(error);
            }
        }
    };
    tokio::select! {
        status = ended_by_stop(calls.clone()) => status,
        status = refused => status,
    }
}

async fn ended_by_stop(calls: Arc<Shared>) -> Status {
    loop {
        let mut stopped = std::pin::pin!(calls.stopped.notified());
        stopped.as_mut().enable();
        if calls.is_stopping() {
            return Status::unavailable("the server is stopping");
        }
        stopped.await;
    }
}

/// Resolves when the message of a request is late, or has not arrived a moment after the stop.
async fn incomplete(calls: Arc<Shared>, limit: Duration) -> Status {
    let stopped = async {
        let status = ended_by_stop(calls).await;
        sleep(STOPPING_REQUEST_WAIT).await;
        status
    };
    tokio::select! {
        () = sleep(limit) => too_slow(limit),
        status = stopped => status,
    }
}

fn too_slow(limit: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "the request did not arrive within {} ms (limit http.request_timeout_ms); try again",
        limit.as_millis()
    ))
}
