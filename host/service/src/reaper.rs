//! The reaper: what a deleted resource owned is deleted too.
//!
//! For each tombstone: once its owner, in that incarnation, is really gone, delete every child; note it in the
//! tombstone's status; some time later do it again, for children that were being written meanwhile; then delete the
//! tombstone. Children with finalizers are marked, and go when those are removed. Children's deletions leave tombstones
//! of their own, so whole trees go.
//!
//! An ordinary controller of the host. All state is in the store: after a crash every tombstone is reconciled anew, and the
//! work goes on.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use mortise_controller::{Context, Definition, Outcome, ReconcileError, Reconciler, Request};
use mortise_resource::{
    pb::{self, condition::State},
    types,
};
use mortise_store::{Consistency, StoreError};
use prost::Message as _;

use crate::{builtin, service::ResourceService, stamp};

/// The status entry in which the first pass is noted.
const STATUS_KEY: &str = "consul.io/reaper-controller";
const FIRST_PASS: &str = "FirstPassCompleted";

/// Tombstones worked on at once: enough to fill a group commit.
const PARALLEL: usize = 32;

/// The controller of tombstones.
struct Reaper(ResourceService);

#[async_trait]
impl Reconciler for Reaper {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let id = request.id(context.managed());
        self.0.work_off(&id).await.map_err(|e| ReconcileError::because(format!("cascading deletion failed: {e}"), e))
    }
}

impl ResourceService {
    /// The reaper, for whoever runs controllers. A tombstone is one resource to reconcile, and a failure is tried again
    /// after 5 ms, then 10 ms, and so on.
    #[must_use]
    pub fn reaper(&self) -> Definition {
        Definition::new("reaper", types::tombstone().to_pb(), Arc::new(Reaper(self.clone()))).parallel(PARALLEL)
    }

    /// How long from now until a tombstone has to be looked at.
    fn wait_of(&self, tombstone: &pb::Resource) -> Duration {
        let Some(first) = first_pass(tombstone) else { return Duration::ZERO };
        let now = stamp::timestamp();
        let elapsed = now.seconds.saturating_sub(first.seconds).max(0);
        self.options.second_pass.saturating_sub(Duration::from_secs(elapsed.unsigned_abs()))
    }

    async fn work_off(&self, id: &pb::Id) -> Result<Outcome, StoreError> {
        let tombstone = match self.backend.read(Consistency::Consistent, id).await {
            Ok(tombstone) => tombstone,
            Err(StoreError::NotFound) => return Ok(Outcome::Done),
            Err(e) => return Err(e),
        };
        let content = tombstone.data.as_ref().and_then(|any| pb::Tombstone::decode(any.value.as_slice()).ok());
        let Some(owner) = content.and_then(|c| c.owner).filter(|owner| !owner.uid.is_empty()) else {
            tracing::warn!(tombstone = id.name, "names no owner with a uid; nothing to do");
            return Ok(Outcome::Done);
        };
        // A tombstone is a promise about a resource that is gone; while that lives, its children are safe.
        match self.backend.read(Consistency::Consistent, &owner).await {
            Err(StoreError::NotFound) => {}
            Ok(_) | Err(StoreError::GroupVersionMismatch { .. }) => {
                self.expire(id).await?;
                return Ok(Outcome::Done);
            }
            Err(e) => return Err(e),
        }
        let wait = self.wait_of(&tombstone);
        if first_pass(&tombstone).is_none() {
            self.expire_children(&owner).await?;
            self.note_first_pass(tombstone).await?;
            return Ok(Outcome::After(self.options.second_pass));
        }
        if !wait.is_zero() {
            return Ok(Outcome::After(wait));
        }
        self.expire_children(&owner).await?;
        self.expire(id).await?;
        Ok(Outcome::Done)
    }

    async fn expire_children(&self, owner: &pb::Id) -> Result<(), StoreError> {
        let children = self.backend.list_by_owner(owner).await?;
        // Whoever owned one of these had no say in whether it exists.
        let children = children.into_iter().filter_map(|child| child.id).filter(|child| !builtin::is_default(child));
        self.expire_all(children).await
    }

    async fn note_first_pass(&self, mut tombstone: pb::Resource) -> Result<(), StoreError> {
        let status = pb::Status {
            observed_generation: tombstone.generation.clone(),
            conditions: vec![pb::Condition {
                r#type: FIRST_PASS.into(),
                state: State::True.into(),
                reason: "Success".into(),
                ..pb::Condition::default()
            }],
            updated_at: Some(stamp::timestamp()),
        };
        tombstone.status.insert(STATUS_KEY.to_owned(), status);
        match self.backend.write_cas(tombstone).await {
            Ok(_) => Ok(()),
            // Changed or deleted by somebody else: the next look sees it.
            Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// When the first pass over a tombstone's children was done.
fn first_pass(tombstone: &pb::Resource) -> Option<prost_types::Timestamp> {
    let status = tombstone.status.get(STATUS_KEY)?;
    let done = status.conditions.iter().any(|c| c.r#type == FIRST_PASS && c.state() == State::True);
    status.updated_at.filter(|_| done)
}
