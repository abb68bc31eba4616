//! The answer to a call: the messages about its subject, as soon as they exist and the client has room for them.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::{
    select,
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};
use tonic::{Status, body::Body};

use super::super::frames::{framed, trailers};
use super::{
    encode::{self, Dialect},
    policy, profile,
    subject::{NamedSubject, Present, Subject, no_policy},
    view::{
        Position, SentState, StreamError,
        summary::{Answer, Form, digest},
    },
};
use crate::grpc::calls::{AnswerBytes, CountedBytes};

/// An open stream.
pub(super) struct OpenStream {
    content: Content,
    subject: Subject,
    answers: AnswerBytes,
    stopped: BoxFuture<'static, ()>,
    _place: StreamPermit,
}

/// The content of a stream.
pub(super) enum Content {
    /// Addresses, for Get.
    Addresses {
        position: Position,
        dialect: Dialect,
        heartbeat: Duration,
        /// When the next heartbeat is due.
        due: Instant,
    },
    /// The profile, for GetProfile. `last` is the digest of the last message.
    Profile { zone: String, last: Option<u64> },
    /// The policy, for OutboundPolicies.
    Policy { zone: String, last: Option<u64> },
}

impl Content {
    pub(super) fn addresses(dialect: Dialect, heartbeat: Duration) -> Self {
        Self::Addresses { position: Position::default(), dialect, heartbeat, due: Instant::now() + heartbeat }
    }

    pub(super) fn profile(zone: String) -> Self {
        Self::Profile { zone, last: None }
    }

    pub(super) fn policy(zone: String) -> Self {
        Self::Policy { zone, last: None }
    }

    /// The message to send now, if any.
    fn next(&mut self, present: &Present<'_>, answers: &AnswerBytes) -> Result<Option<Bytes>, StreamError> {
        match (self, present) {
            (_, Present::Unknown) => Ok(None),
            (Self::Addresses { position, dialect, heartbeat, due }, Present::Service { subject, .. }) => {
                let bytes = subject.view().next(position, *dialect)?;
                if bytes.is_some() {
                    *due = Instant::now() + *heartbeat;
                }
                Ok(bytes)
            }
            (Self::Addresses { .. }, _) => Ok(None),
            (Self::Profile { zone, last }, Present::Service { subject, is_address }) => {
                profile_of(subject, *is_address, zone, last, answers)
            }
            (Self::Profile { last, .. }, Present::Workload(workload)) => {
                Ok(news(framed(&profile::of_workload(workload)).to_vec(), last, answers))
            }
            (Self::Profile { last, .. }, Present::Address(addr)) => {
                Ok(news(framed(&profile::of_address(*addr)).to_vec(), last, answers))
            }
            (Self::Policy { zone, last }, Present::Service { subject, .. }) => {
                let make = |summary| policy::of_service(&subject.authority, zone, &summary);
                match subject.view().message(Form::Policy, *last, make)? {
                    Answer::Absent => Err(StreamError::Failed(no_policy(present))),
                    answer => Ok(taken(answer, last)),
                }
            }
            (Self::Policy { last, .. }, Present::Workload(workload)) => {
                Ok(news(policy::of_workload(workload), last, answers))
            }
            (Self::Policy { .. }, Present::Address(_)) => Err(StreamError::Failed(no_policy(present))),
        }
    }

    /// Waits for the next heartbeat and returns it. Waits for ever if the client has not received anything yet.
    async fn heartbeat(&mut self) -> Bytes {
        let Self::Addresses { position, heartbeat, due, .. } = self else { return std::future::pending().await };
        let bytes = match position.sent {
            SentState::Nothing => return std::future::pending().await,
            SentState::NoEndpoints { exists } => encode::no_endpoints(exists),
            SentState::Endpoints => encode::empty_add(),
        };
        sleep_until(*due).await;
        *due = Instant::now() + *heartbeat;
        bytes
    }
}

fn profile_of(
    subject: &NamedSubject,
    is_address: bool,
    zone: &str,
    last: &mut Option<u64>,
    answers: &AnswerBytes,
) -> Result<Option<Bytes>, StreamError> {
    let authority = &subject.authority;
    let form = if is_address { Form::AddressProfile } else { Form::NamedProfile };
    let make = |summary| profile::of_service(authority, zone, &summary, is_address);
    match subject.view().message(form, *last, make)? {
        Answer::Absent => Ok(news(framed(&profile::unknown()).to_vec(), last, answers)),
        answer => Ok(taken(answer, last)),
    }
}

/// The bytes of an answer that the stream does not have yet.
fn taken(answer: Answer, last: &mut Option<u64>) -> Option<Bytes> {
    let Answer::Bytes(bytes, digest) = answer else { return None };
    *last = Some(digest);
    Some(bytes)
}

/// A message of one stream, unless it has the message already.
fn news(message: Vec<u8>, last: &mut Option<u64>, answers: &AnswerBytes) -> Option<Bytes> {
    let digest = digest(&message);
    if last.replace(digest) == Some(digest) {
        return None;
    }
    Some(CountedBytes::share(std::sync::Arc::new(answers.count(message))))
}

impl OpenStream {
    pub(super) fn new(
        content: Content,
        subject: Subject,
        answers: AnswerBytes,
        stopped: BoxFuture<'static, ()>,
        place: StreamPermit,
    ) -> Self {
        Self { content, subject, answers, stopped, _place: place }
    }

    /// Turns the stream into the body of an answer.
    pub(super) fn body(self) -> Body {
        Body::new(StreamBody::new(stream::unfold(Some(self), async |open| {
            let mut open = open?;
            Some(match open.next().await {
                Ok(bytes) => {
                    metrics::counter!("mortise_destination_updates_total").increment(1);
                    (Ok(Frame::data(bytes)), Some(open))
                }
                Err(status) => (trailers(&status), None),
            })
        })))
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// The status at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Bytes, Status> {
        loop {
            if (&mut self.stopped).now_or_never().is_some() {
                return Err(Status::unavailable("the server is stopping; subscribe again"));
            }
            match self.look().await {
                Ok(Some(bytes)) => return Ok(bytes),
                Ok(None) => {}
                Err(StreamError::Failed(status)) if self.subject.hide(&status) => continue,
                Err(StreamError::Failed(status)) => return Err(status),
                Err(StreamError::Lagged) => {
                    metrics::counter!("mortise_destination_streams_lagged_total").increment(1);
                    let what = "the client fell behind the changes of the service; subscribe again";
                    return Err(Status::unavailable(what));
                }
            }
            select! {
                () = &mut self.stopped => return Err(Status::unavailable("the server is stopping; subscribe again")),
                () = self.subject.changed() => {}
                bytes = self.content.heartbeat() => return Ok(bytes),
            }
        }
    }

    /// The message about the present state, if there is one to send.
    async fn look(&mut self) -> Result<Option<Bytes>, StreamError> {
        self.subject.look().await?;
        self.content.next(&self.subject.present(), &self.answers)
    }
}

/// A place within the limit of streams, counted while it is taken.
pub(in crate::grpc) struct StreamPermit(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl StreamPermit {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        metrics::gauge!("mortise_destination_streams").increment(1);
        Self(permit)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        metrics::gauge!("mortise_destination_streams").decrement(1);
    }
}
