//! The identity of a peer, and the reasons to take nothing from it.
//!
//! # Contract
//! The replicas from a peer are bound to its region and to the id of its store. The first store that answers for the
//! region is bound, durably, before anything of it is taken. While another region or another store answers, the peer is
//! stopped; it goes on by itself once the known one answers again. A snapshot that would remove too many replicas stops
//! the peer, too. Only an operator ends that, or binds another store ([`PeerTrust::accept`]).
//!
//! A peer of a release without identities is followed as long as no store is bound to its name; only the limit of
//! removals protects its replicas then.

use std::time::Duration;

use mortise_resource::{Code, Error, data::IdentifyResponse};
use mortise_service::{AcceptedStore, OwnerStore, ResourceService};
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};

use crate::error::FollowError;

/// The longest wait of an operator for the first answer of a peer after a start.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why nothing is taken from a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StopReason {
    /// The server at the address is of another region.
    #[error("the server at the address is of {}; correct region.peers.{peer}.address", region_text(found))]
    OtherRegion { peer: String, found: String },
    /// The server at the address has another store.
    #[error(
        "the server at the address has {}, and the replicas here are of the store {bound}: it was restored or emptied, or it \
         is another server; `mortise regions accept {peer}` follows it, and removes the replicas that it does not have",
        store_text(found)
    )]
    OtherStore { peer: String, bound: String, found: String },
    /// A snapshot would remove too many replicas.
    #[error(
        "a snapshot of {kind} would remove {gone} of {held} replicas, more than region.max_removed_percent allows; look for \
         the reason at the owner; `mortise regions accept {peer}` removes them"
    )]
    TooManyRemovals { peer: String, kind: String, gone: usize, held: usize },
}

impl StopReason {
    /// Returns the reason of the condition.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::OtherRegion { .. } => "OtherRegion",
            Self::OtherStore { .. } => "OtherStore",
            Self::TooManyRemovals { .. } => "TooManyRemovals",
        }
    }

    /// Whether the right server at the address ends the stop.
    fn ends_by_identity(&self) -> bool {
        !matches!(self, Self::TooManyRemovals { .. })
    }
}

/// Bound of the replicas of a type that a snapshot may remove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemovalLimit {
    /// Share of the replicas, in percent.
    pub(crate) percent: u32,
    /// Number that is always allowed.
    pub(crate) always: usize,
}

impl RemovalLimit {
    pub(crate) fn allows(&self, gone: usize, held: usize) -> bool {
        gone <= self.always || gone.saturating_mul(100) <= held.saturating_mul(self.percent as usize)
    }
}

/// The state of the trust in a peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    /// `None` until it was read.
    pub(crate) bound: Option<AcceptedStore>,
    /// The last answer; `None` before it, and for a release without identities.
    pub(crate) identity: Option<IdentifyResponse>,
    /// Whether the peer answered that it has no identity.
    pub(crate) is_older: bool,
    pub(crate) stop: Option<StopReason>,
}

/// The trust in one peer, shared by its types.
pub(crate) struct PeerTrust {
    peer: String,
    address: String,
    pub(crate) limit: RemovalLimit,
    state: watch::Sender<Trust>,
    /// Held while the bound store changes.
    binding: Mutex<()>,
}

impl PeerTrust {
    pub(crate) fn new(peer: &str, address: &str, limit: RemovalLimit) -> Self {
        let state = watch::Sender::new(Trust::default());
        Self { peer: peer.to_owned(), address: address.to_owned(), limit, state, binding: Mutex::default() }
    }

    /// Returns the present state.
    pub(crate) fn state(&self) -> Trust {
        self.state.borrow().clone()
    }

    /// Returns the reason of the stop.
    ///
    /// # Errors
    /// The peer is stopped.
    pub(crate) fn check(&self) -> Result<(), FollowError> {
        match &self.state.borrow().stop {
            Some(reason) => Err(FollowError::Stopped { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Whether the next snapshots may remove any number of replicas.
    pub(crate) fn accepts_removals(&self) -> bool {
        self.state.borrow().bound.as_ref().is_some_and(|bound| bound.accepts_removals)
    }

    /// Resolves once the peer is stopped.
    pub(crate) async fn stopped(&self) -> FollowError {
        let mut state = self.state.subscribe();
        match state.wait_for(|trust| trust.stop.is_some()).await.map(|trust| trust.stop.clone()) {
            Ok(Some(reason)) => FollowError::Stopped { reason },
            _ => std::future::pending().await,
        }
    }

    /// Resolves once the peer is not stopped.
    pub(crate) async fn released(&self) {
        let mut state = self.state.subscribe();
        if state.wait_for(|trust| trust.stop.is_none()).await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether the bound store answered last: the peer is not lost, even if it is stopped.
    pub(crate) fn is_bound_store(&self) -> bool {
        !self.state.borrow().stop.as_ref().is_some_and(StopReason::ends_by_identity)
    }

    /// Whether another question to the peer may end the stop.
    pub(crate) fn may_ask(&self) -> bool {
        self.state.borrow().stop.as_ref().is_none_or(StopReason::ends_by_identity)
    }

    /// Stops the peer, and returns the reason as an error.
    pub(crate) fn stop(&self, reason: StopReason) -> FollowError {
        self.state.send_if_modified(|trust| {
            if trust.stop.as_ref() == Some(&reason) {
                return false;
            }
            tracing::warn!(peer = self.peer, "nothing is taken from the region any more: {reason}");
            trust.stop = Some(reason.clone());
            true
        });
        FollowError::Stopped { reason }
    }

    /// Compares the answer of a peer with the bound store, and binds the first one. `None` is a release without
    /// identities.
    ///
    /// # Errors
    /// The peer is stopped. Faults of the store here.
    pub(crate) async fn compare(
        &self,
        service: &ResourceService,
        answer: Option<IdentifyResponse>,
    ) -> Result<OwnerStore, FollowError> {
        let _binding = self.binding.lock().await;
        let bound = self.bound(service).await?;
        self.state.send_modify(|trust| {
            trust.is_older = answer.is_none();
            trust.identity.clone_from(&answer);
        });
        if let Some(IdentifyResponse { region, .. }) = &answer
            && *region != self.peer
        {
            return Err(self.stop(StopReason::OtherRegion { peer: self.peer.clone(), found: region.clone() }));
        }
        let found = answer.as_ref().map(|answer| answer.store_id.clone()).unwrap_or_default();
        if !bound.id.is_empty() && bound.id != found {
            return Err(self.stop(StopReason::OtherStore { peer: self.peer.clone(), bound: bound.id, found }));
        }
        if bound.id != found {
            self.bind(service, AcceptedStore { id: found.clone(), ..bound }).await?;
        }
        self.state.send_if_modified(|trust| {
            let ends = trust.stop.as_ref().is_some_and(StopReason::ends_by_identity);
            if ends {
                trust.stop = None;
            }
            ends
        });
        self.check()?;
        Ok(OwnerStore { id: found, newest_version: answer.map(|answer| answer.newest_version) })
    }

    /// Binds the store that answers now, and allows the removals of the next snapshots. Returns its id, and whether the
    /// peer was stopped; only then anything changes. After a start it waits for the peer's first answer.
    ///
    /// # Errors
    /// `Unavailable`: the peer did not answer since the start. `FailedPrecondition`: the server is of another region,
    /// or its store is not the expected one. Faults of the store here.
    pub(crate) async fn accept(&self, service: &ResourceService, expected: &str) -> Result<(String, bool), Error> {
        self.answered().await?;
        let _binding = self.binding.lock().await;
        let Trust { identity, stop, .. } = self.state();
        let refused = |text: String| Err(Error::new(Code::FailedPrecondition, text));
        let found = identity.map(|answer| answer.store_id).unwrap_or_default();
        if !expected.is_empty() && expected != found {
            return refused(format!("the peer answers with {} now, not with {expected:?}", store_text(&found)));
        }
        match stop {
            None => return Ok((found, false)),
            Some(reason @ StopReason::OtherRegion { .. }) => return refused(reason.to_string()),
            Some(StopReason::OtherStore { .. } | StopReason::TooManyRemovals { .. }) => {}
        }
        if found.is_empty() {
            // Positions in the changes of another store would bind that one again after a restart.
            service.replicas().restart_peer(&self.peer).await?;
        }
        self.bind(service, AcceptedStore { id: found.clone(), accepts_removals: true }).await?;
        self.state.send_modify(|trust| trust.stop = None);
        Ok((found, true))
    }

    /// Resolves once the peer has answered, or is stopped.
    ///
    /// # Errors
    /// `Unavailable` after [`FIRST_ANSWER_TIMEOUT`].
    async fn answered(&self) -> Result<(), Error> {
        let mut state = self.state.subscribe();
        let is_known = |trust: &Trust| trust.identity.is_some() || trust.is_older || trust.stop.is_some();
        match timeout(FIRST_ANSWER_TIMEOUT, state.wait_for(is_known)).await {
            Ok(_) => Ok(()),
            Err(_) => {
                let text = format!(
                    "region {:?} has not answered since this server's start; try again once mortise regions shows it",
                    self.peer
                );
                Err(Error::new(Code::Unavailable, text))
            }
        }
    }

    /// Ends the permission for removals, once the replicas are current.
    pub(crate) async fn end_accepted_removals(&self, service: &ResourceService) -> Result<(), Error> {
        let _binding = self.binding.lock().await;
        let bound = self.bound(service).await?;
        self.bind(service, AcceptedStore { accepts_removals: false, ..bound }).await
    }

    /// Reads the bound store at the first call.
    async fn bound(&self, service: &ResourceService) -> Result<AcceptedStore, Error> {
        if let Some(bound) = &self.state.borrow().bound {
            return Ok(bound.clone());
        }
        let bound = service.replicas().accepted_store(&self.peer).await?;
        self.state.send_modify(|trust| trust.bound = Some(bound.clone()));
        Ok(bound)
    }

    async fn bind(&self, service: &ResourceService, bound: AcceptedStore) -> Result<(), Error> {
        service.replicas().accept_store(&self.peer, &self.address, &bound).await?;
        self.state.send_modify(|trust| trust.bound = Some(bound));
        Ok(())
    }
}

fn region_text(region: &str) -> String {
    match region {
        "" => "no region".to_owned(),
        region => format!("region {region:?}"),
    }
}

fn store_text(id: &str) -> String {
    match id {
        "" => "a store without an id, as of an older release".to_owned(),
        id => format!("the store {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_may_remove_a_number_or_a_share() {
        let limit = RemovalLimit { percent: 30, always: 10 };
        for (gone, held, is_allowed) in
            [(0, 0, true), (10, 10, true), (11, 11, false), (30, 100, true), (31, 100, false), (11, 37, true)]
        {
            assert_eq!(limit.allows(gone, held), is_allowed, "{gone} of {held}");
        }
        assert!(RemovalLimit { percent: 100, always: 0 }.allows(7, 7));
        assert!(!RemovalLimit { percent: 0, always: 0 }.allows(1, usize::MAX));
    }
}
