//! The answer to a call: the updates of its view, as soon as they exist and the client has room for them.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until},
};
use tonic::{Status, body::Body};

use super::super::frames::trailers;
use super::{
    authority::Authority,
    encode::{self, Dialect},
    hub::Subscription,
    profile,
    view::{Position, SentState, StreamError, View},
};

/// An open stream.
pub(super) struct OpenStream {
    content: Content,
    subscription: Subscription,
    versions: watch::Receiver<u64>,
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
    /// The profile of a service, for GetProfile.
    Profile { authority: Authority, zone: String, last: Option<Bytes> },
}

impl Content {
    pub(super) fn addresses(dialect: Dialect, heartbeat: Duration) -> Self {
        Self::Addresses { position: Position::default(), dialect, heartbeat, due: Instant::now() + heartbeat }
    }

    pub(super) fn profile(authority: Authority, zone: String) -> Self {
        Self::Profile { authority, zone, last: None }
    }

    /// The message to send now, if any.
    fn next(&mut self, view: &View) -> Result<Option<Bytes>, StreamError> {
        match self {
            Self::Addresses { position, dialect, heartbeat, due } => {
                let bytes = view.next(position, *dialect)?;
                if bytes.is_some() {
                    *due = Instant::now() + *heartbeat;
                }
                Ok(bytes)
            }
            Self::Profile { authority, zone, last } => {
                let now =
                    view.summary(profile::MAX_OVERRIDES)?.map(|summary| profile::of_service(authority, zone, summary));
                if now == *last {
                    return Ok(None);
                }
                last.clone_from(&now);
                Ok(now)
            }
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

impl OpenStream {
    pub(super) fn new(
        content: Content,
        subscription: Subscription,
        stopped: BoxFuture<'static, ()>,
        place: StreamPermit,
    ) -> Self {
        let versions = subscription.view.versions();
        Self { content, subscription, versions, stopped, _place: place }
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

    async fn next(&mut self) -> Result<Bytes, Status> {
        loop {
            if (&mut self.stopped).now_or_never().is_some() {
                return Err(Status::unavailable("the server is stopping; subscribe again"));
            }
            // Later versions wake the stream again.
            self.versions.borrow_and_update();
            match self.content.next(&self.subscription.view) {
                Ok(Some(bytes)) => return Ok(bytes),
                Ok(None) => {}
                Err(StreamError::Failed(status)) => return Err(status),
                Err(StreamError::Lagged) => {
                    metrics::counter!("mortise_destination_streams_lagged_total").increment(1);
                    let what = "the client fell behind the changes of the service; subscribe again";
                    return Err(Status::unavailable(what));
                }
            }
            select! {
                () = &mut self.stopped => return Err(Status::unavailable("the server is stopping; subscribe again")),
                // An error would mean that the view is gone, but this stream holds it.
                _ = self.versions.changed() => {}
                bytes = self.content.heartbeat() => return Ok(bytes),
            }
        }
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
