//! Upkeep of tokens and policies: expired tokens are deleted, the last use of the others is stored, and faults of
//! stored policies are logged.
//!
//! # Contract
//! A token is deleted once this process has seen it expired in [`EXPIRED_PASSES`] passes. So a machine whose clock
//! jumped ahead while the process stood still deletes nothing at once. A token that is given a later expiry stays.
//!
//! A use is noted in memory. It is stored in the token's status, under [`USE_KEY`], if the stored one is more than
//! [`USE_RESOLUTION`] older: so a use costs no sync, and a crash loses at most that time.
//!
//! # Cost
//! A pass walks over all tokens in memory, and deletes and stores [`MAX_CHANGES`] of them at most.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use mortise_acl::Access;
use mortise_resource::{Error, data, pb, types};
use mortise_store::{Consistency, StoreError};
use prost::Message as _;
use tokio::time::sleep;

use crate::{
    core::Core,
    deletion::{Deletions, RemovalError},
    references::renew_records,
    rules::server_meta,
};

/// The status key of a token's last use: its `updated_at` is the time of the use.
pub const USE_KEY: &str = "mortise.io/use";

/// Passes that see a token expired before it is deleted.
const EXPIRED_PASSES: u32 = 6;

/// Tokens that are deleted, and tokens whose use is stored, in one pass.
const MAX_CHANGES: usize = 64;

/// Shortest time between two stored uses of one token.
const USE_RESOLUTION: Duration = Duration::from_secs(3_600);

/// The upkeep.
pub(crate) struct AccessUpkeep {
    core: Core,
    deletions: Deletions,
    /// Passes that have seen a token expired, by accessor.
    expired: HashMap<String, u32>,
    /// Stored time of the last use, by accessor.
    stored_uses: HashMap<String, u64>,
    /// Reported faults of policies.
    faults: Vec<String>,
}

impl AccessUpkeep {
    pub(crate) fn new(core: Core, deletions: Deletions) -> Self {
        Self { core, deletions, expired: HashMap::new(), stored_uses: HashMap::new(), faults: Vec::new() }
    }

    /// Runs until the service stops; returns at once without access control.
    pub(crate) async fn run(mut self) {
        let Some(access) = self.core.access().cloned() else { return };
        let stopped = self.core.stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => return,
                () = sleep(self.core.options.token_pass) => {}
            }
            self.report_faults(&access);
            self.reap(&access).await;
            self.store_uses(&access).await;
        }
    }

    /// Logs the faults of stored policies, each once.
    fn report_faults(&mut self, access: &Access) {
        let now = access.policy_faults();
        for fault in now.iter().filter(|fault| !self.faults.contains(*fault)) {
            tracing::error!("{fault}; the policy grants nothing until it is written again");
        }
        self.faults = now;
    }

    async fn reap(&mut self, access: &Access) {
        let now = access.expired_tokens(mortise_clock::date());
        let passes = now.into_iter().map(|accessor| {
            let passes = self.expired.get(&accessor).copied().unwrap_or_default().saturating_add(1);
            (accessor, passes)
        });
        self.expired = passes.collect();
        let due = self.expired.iter().filter(|(_, passes)| **passes >= EXPIRED_PASSES);
        for (accessor, _) in due.take(MAX_CHANGES) {
            match self.reap_token(accessor).await {
                Ok(false) => {}
                Ok(true) => {
                    metrics::counter!("mortise_tokens_reaped_total").increment(1);
                    tracing::info!("token {accessor} has expired and is deleted");
                }
                // The next pass tries again.
                Err(error) => tracing::debug!("token {accessor} has expired and cannot be deleted: {error}"),
            }
        }
    }

    /// Deletes a token in the version that is expired. Returns whether it was there.
    async fn reap_token(&self, accessor: &str) -> Result<bool, RemovalError> {
        let Some(stored) = self.read(accessor).await? else { return Ok(false) };
        let token = stored.data.as_ref().and_then(|data| data::Token::decode(data.value.as_slice()).ok());
        let expires_at = token.and_then(|token| token.expires_at).and_then(|at| SystemTime::try_from(at).ok());
        match expires_at.is_some_and(|at| at <= mortise_clock::date()) {
            true => self.deletions.delete_expired(stored).await,
            false => Ok(false),
        }
    }

    async fn store_uses(&mut self, access: &Access) {
        let uses: HashMap<_, _> = access.token_uses().into_iter().collect();
        self.stored_uses.retain(|accessor, _| uses.contains_key(accessor));
        let is_due = |(accessor, used): &(&String, &u64)| {
            let stored = self.stored_uses.get(*accessor).copied().unwrap_or_default();
            used.saturating_sub(stored) >= USE_RESOLUTION.as_secs()
        };
        let due: Vec<_> =
            uses.iter().filter(is_due).take(MAX_CHANGES).map(|(name, used)| (name.clone(), *used)).collect();
        for (accessor, used) in due {
            match self.store_use(&accessor, used).await {
                Ok(stored) => drop(self.stored_uses.insert(accessor, stored)),
                // A conflict, or a full disk: the next pass tries again.
                Err(error) => tracing::debug!("the last use of token {accessor} is not stored: {error}"),
            }
        }
    }

    /// Stores a use unless the stored one is recent. Returns the stored time.
    async fn store_use(&self, accessor: &str, used: u64) -> Result<u64, Error> {
        let failed = |error: StoreError| Error::internal(error.to_string());
        let Some(mut stored) = self.read(accessor).await.map_err(failed)? else { return Ok(used) };
        let known = stored.status.get(USE_KEY).and_then(|status| status.updated_at.as_ref());
        let known = known.and_then(|at| u64::try_from(at.seconds).ok()).unwrap_or_default();
        if used.saturating_sub(known) < USE_RESOLUTION.as_secs() {
            return Ok(known);
        }
        let updated_at = Some(prost_types::Timestamp { seconds: i64::try_from(used).unwrap_or(i64::MAX), nanos: 0 });
        let status = pb::Status { observed_generation: stored.generation.clone(), updated_at, ..pb::Status::default() };
        stored.status.insert(USE_KEY.to_owned(), status);
        server_meta::set_touched(&mut stored);
        renew_records(&self.core, &mut stored);
        self.core.backend.put_limited(stored).await.map_err(failed)?;
        Ok(used)
    }

    async fn read(&self, accessor: &str) -> Result<Option<pb::Resource>, StoreError> {
        let id = pb::Id {
            name: accessor.to_owned(),
            r#type: Some(types::token().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            ..pb::Id::default()
        };
        match self.core.backend.read(Consistency::Eventual, &id).await {
            Ok(stored) => Ok(Some(stored)),
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
