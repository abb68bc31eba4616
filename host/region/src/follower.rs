//! The watch of one type of one peer; starts again after a wait when it ends.

use std::{convert::Infallible, sync::Arc, time::Duration};

use mortise_resource::{
    Scope,
    backoff::{Backoff, Waits},
    data::WatchResourcesRequest,
    goten::WatchType,
    pb,
    tenancy::WILDCARD,
    types::Gvk,
};
use mortise_service::ResourceService;
use tokio::time::{sleep, sleep_until, timeout};

use crate::{error::FollowError, link::Link, report::PeerReport, session::Session};

/// The first wait after a failure.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
/// The wait before the next request for a type that the peer does not have.
const UNKNOWN_TYPE_WAIT: Duration = Duration::from_secs(30);
/// The longest wait for the peer's answer to a call. Watches are exempt, since they are silent while nothing changes.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Most changes in one message.
const MAX_CHUNK_CHANGES: i32 = 1_000;

pub(crate) struct Follower {
    pub(crate) service: ResourceService,
    pub(crate) link: Arc<Link>,
    pub(crate) report: Arc<PeerReport>,
    /// The version under which reports show the type.
    pub(crate) shown: Gvk,
    /// The type's versions here, newest last. Only the newest one that the peer also has is followed; resources that
    /// the peer stores in other versions arrive as far as its watches convert them.
    pub(crate) versions: Vec<Gvk>,
    pub(crate) scope: Scope,
    pub(crate) max_backoff: Duration,
}

impl Follower {
    /// Runs until the future is dropped.
    pub(crate) async fn run(self) {
        // Half of each wait is random, so that types and servers do not all return at once.
        let rule = |first: Duration| Backoff::new(first.min(self.max_backoff), self.max_backoff).with_jitter(0.5);
        let mut waits = Waits::new(rule(MIN_BACKOFF));
        let mut asked = 0_usize;
        loop {
            let version = self.versions.iter().rev().nth(asked).unwrap_or(&self.shown);
            let mut was_current = false;
            let Err(error) = self.follow(version, &mut was_current).await;
            if was_current {
                waits.reset();
            }
            let is_unknown = error.is_unknown_type();
            tracing::debug!(peer = self.report.name(), kind = %version, "cannot pull replicas: {error}");
            self.report.failed(&self.shown, error.to_string(), is_unknown);
            asked = if is_unknown { (asked + 1) % self.versions.len().max(1) } else { asked };
            let failure_wait = waits.next_wait();
            sleep(match is_unknown {
                true if asked > 0 => Duration::ZERO,
                true => rule(UNKNOWN_TYPE_WAIT).delay(0),
                false => failure_wait,
            })
            .await;
        }
    }

    /// Follows the peer's watch of a version until an error.
    async fn follow(&self, version: &Gvk, was_current: &mut bool) -> Result<Infallible, FollowError> {
        let resource_type = self.shown.to_pb();
        let progress = self.service.replicas().progress(self.report.name(), &resource_type).await?;
        let connection = self.link.open().await?;
        let request = self.request(version, progress.resume_token.clone());
        let answer = timeout(ANSWER_TIMEOUT, connection.watches().watch_resources(request)).await;
        let mut messages = answer.map_err(|_| FollowError::NoAnswer { within: ANSWER_TIMEOUT })??.into_inner();
        self.report.answered(&self.shown, progress.resume_token.is_empty());
        let at_begin = progress.clone();
        let mut session = Session::new(self, connection, resource_type, progress);
        loop {
            let due = session.retry_at();
            tokio::select! {
                message = messages.message() => {
                    let message = message?.ok_or(FollowError::Ended)?;
                    *was_current |= session.take(message).await?;
                }
                () = self.service.replicas().restarted(&at_begin) => return Err(FollowError::ReplicasRemoved),
                () = sleep_until(due), if session.may_retry() => session.retry().await?,
            }
        }
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
