//! The watch of one type of one peer; starts again after a wait when it ends.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::StreamExt as _;
use mortise_resource::{
    Scope,
    backoff::{Backoff, Waits},
    data::WatchResourcesRequest,
    goten::WatchType,
    name, pb,
    tenancy::WILDCARD,
    types::Gvk,
    ulid,
};
use mortise_service::{OwnerStore, ResourceService};
use tokio::time::{sleep, sleep_until, timeout};
use tonic::Status;

use crate::{
    error::FollowError,
    link::{Dial, PeerCalls},
    report::PeerReport,
    session::Session,
};

/// The first wait after a failure.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
/// The wait before the next request for a type that the peer does not have.
const UNKNOWN_TYPE_WAIT: Duration = Duration::from_secs(30);
/// The longest wait for the peer's answer to a call. Watches are exempt, since they are silent while nothing changes.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Most changes in one message.
const MAX_CHUNK_CHANGES: i32 = 1_000;

/// Follows one type of one peer.
pub(crate) struct Follower {
    pub(crate) service: ResourceService,
    pub(crate) link: Arc<dyn Dial>,
    pub(crate) report: Arc<PeerReport>,
    /// The version under which reports show the type.
    pub(crate) shown: Gvk,
    /// The type's versions here, newest last. Only the newest one that the peer also has is followed; resources that
    /// the peer stores in other versions arrive as far as its watches convert them.
    pub(crate) versions: Vec<Gvk>,
    pub(crate) scope: Scope,
    pub(crate) max_backoff: Duration,
}

/// The events of one watch.
#[derive(Default)]
struct Attempt {
    was_current: bool,
    /// Whether the peer was asked to continue from a token.
    sent_token: bool,
    /// Whether the peer sent a message.
    has_message: bool,
}

impl Follower {
    /// Runs until the future is dropped.
    pub(crate) async fn run(self) {
        // Half of each wait is random, so that types and servers do not all return at once.
        let rule = |first: Duration| Backoff::new(first.min(self.max_backoff), self.max_backoff).with_jitter(0.5);
        let mut waits = Waits::new(rule(MIN_BACKOFF));
        let mut asked = 0_usize;
        let mut drops_token = false;
        let trust = self.report.trust.clone();
        loop {
            if !trust.may_ask() {
                trust.released().await;
            }
            let version = self.versions.iter().rev().nth(asked).unwrap_or(&self.shown);
            let mut attempt = Attempt::default();
            let Err(error) = self.follow(version, drops_token, &mut attempt).await;
            if attempt.was_current {
                waits.reset();
            }
            // A peer that does not know a token has to send a snapshot.
            let forgets = attempt.sent_token && !attempt.has_message && error.is_unknown_token();
            drops_token = forgets || (drops_token && !attempt.was_current);
            let is_unknown = error.is_unknown_type();
            tracing::debug!(peer = self.report.name(), kind = %version, "cannot pull replicas: {error}");
            self.report.failed(&self.shown, error.to_string(), is_unknown);
            asked = if is_unknown { (asked + 1) % self.versions.len().max(1) } else { asked };
            let failure_wait = waits.next_wait();
            let wait = match is_unknown {
                _ if forgets => Duration::ZERO,
                true if asked > 0 => Duration::ZERO,
                true => rule(UNKNOWN_TYPE_WAIT).delay(0),
                false => failure_wait,
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = trust.released(), if error.is_stop() => {}
            }
        }
    }

    /// Follows the peer's watch of a version until an error.
    async fn follow(&self, version: &Gvk, drops_token: bool, attempt: &mut Attempt) -> Result<Infallible, FollowError> {
        let resource_type = self.shown.to_pb();
        let connection = self.link.open().await?;
        let store = self.identify(&*connection).await?;
        let mut progress = self.service.replicas().progress(self.report.name(), &resource_type).await?;
        progress.bind(store);
        if drops_token {
            progress.restart();
        }
        attempt.sent_token = !progress.resume_token.is_empty();
        let request = self.request(version, progress.resume_token.clone());
        let answer = timeout(ANSWER_TIMEOUT, connection.watch(&progress.store.id, request)).await;
        let mut messages = answer.map_err(|_| FollowError::NoAnswer { within: ANSWER_TIMEOUT })??;
        self.report.answered(&self.shown, progress.resume_token.is_empty());
        let at_begin = progress.clone();
        let mut session = Session::new(self, connection, resource_type, progress);
        loop {
            let due = session.retry_at();
            tokio::select! {
                message = messages.next() => {
                    let message = message.ok_or(FollowError::Ended)??;
                    attempt.has_message = true;
                    attempt.was_current |= session.take(message).await?;
                }
                stopped = self.report.trust.stopped() => return Err(stopped),
                () = self.service.replicas().restarted(&at_begin) => return Err(FollowError::ReplicasRemoved),
                () = sleep_until(due), if session.may_retry() => session.retry().await?,
            }
        }
    }

    /// Asks the peer for its identity, and compares it with the known one.
    pub(crate) async fn identify(&self, connection: &dyn PeerCalls) -> Result<OwnerStore, FollowError> {
        let answer = timeout(ANSWER_TIMEOUT, connection.identify()).await;
        let answer = answer.map_err(|_| FollowError::NoAnswer { within: ANSWER_TIMEOUT })?.map_err(FollowError::from);
        let answer = match answer {
            Ok(answer)
                if ulid::is_valid(&answer.store_id) && (answer.region.is_empty() || name::is_valid(&answer.region)) =>
            {
                Some(answer)
            }
            Ok(_) => return Err(Status::internal("the peer's identity is not valid").into()),
            Err(error) if error.is_unknown_call() => None,
            Err(error) => return Err(error),
        };
        self.report.trust.compare(&self.service, answer).await
    }

    /// Requests the resources that the peer owns and that may be in this region.
    fn request(&self, version: &Gvk, resume_token: String) -> WatchResourcesRequest {
        let (peer, here) = (self.report.name(), self.service.region().unwrap_or_default());
        let filter = format!(
            "meta.syncing.owning_region = {peer:?} AND (meta.syncing.regions CONTAINS {here:?} OR \
             meta.syncing.regions CONTAINS \"*\")"
        );
        let unit = |has: bool| if has { WILDCARD.to_owned() } else { String::new() };
        let tenancy = pb::Tenancy {
            partition: unit(matches!(self.scope, Scope::Partition | Scope::Namespace)),
            namespace: unit(self.scope == Scope::Namespace),
        };
        WatchResourcesRequest {
            filter,
            r#type: WatchType::Stateless.into(),
            resume_token,
            max_chunk_size: MAX_CHUNK_CHANGES,
            resource_type: Some(version.to_pb()),
            tenancy: Some(tenancy),
            ..WatchResourcesRequest::default()
        }
    }
}
