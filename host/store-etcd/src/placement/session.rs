//! The lease of a server.

use std::time::{Duration, Instant};

use super::{
    LEASE_SECONDS, ROUND,
    report::{MemberRecord, REPORT_PAUSE},
};
use crate::client::{Client, Fault};

/// A lease that is renewed in each round.
pub(super) struct Session {
    id: i64,
    renewed: Instant,
    /// Value of the member's key, and its time.
    reported: Option<(MemberRecord, Instant)>,
}

impl Session {
    /// Asks for a lease.
    pub(super) async fn begin(client: &Client) -> Result<Self, Fault> {
        let begun = Instant::now();
        let id = client.grant_lease(LEASE_SECONDS).await?;
        Ok(Self { id, renewed: begun, reported: None })
    }

    /// Returns whether a report shall be written: it tells something new, or the last one is old.
    pub(super) fn is_report_due(&self, next: &MemberRecord) -> bool {
        self.reported
            .as_ref()
            .is_none_or(|(last, at)| next.tells_more_than(last) || (next != last && at.elapsed() >= REPORT_PAUSE))
    }

    /// Notes what was written.
    pub(super) fn reported(&mut self, record: MemberRecord) {
        self.reported = Some((record, Instant::now()));
    }

    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Returns the moment before which etcd cannot have ended the lease: its life counts from a renewal on, which came
    /// after the call began.
    pub(super) fn alive_until(&self) -> Instant {
        self.renewed + Duration::from_secs(LEASE_SECONDS.unsigned_abs()) - ROUND
    }

    /// Renews the lease; returns whether it still existed.
    pub(super) async fn renew(&mut self, client: &Client) -> Result<bool, Fault> {
        let begun = Instant::now();
        let is_alive = client.renew_lease(self.id).await?;
        if is_alive {
            self.renewed = begun;
        }
        Ok(is_alive)
    }

    /// Ends the lease, and removes every key under it.
    pub(super) async fn revoke(self, client: &Client) -> Result<(), Fault> {
        client.revoke_lease(self.id).await
    }
}
