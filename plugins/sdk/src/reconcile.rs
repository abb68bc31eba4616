//! The reconciler, which a plugin's author writes: one method that looks at one resource, and does what is missing.

use std::{marker::PhantomData, time::Duration};

use mortise_resource::pb;

use crate::{Context, Error, Failure, Typed, kind::Data};

/// Makes the world match the resources of one type.
///
/// # Contract
/// - Called for each resource of the managed type when the controller starts, whenever that resource or one mapped to
///   it changes, and now and then; never twice at once for the same. Changes may be skipped: only the current state
///   counts.
/// - The resource may be gone: then [`Request::read`] answers `None`.
/// - Must be idempotent: an interrupted call is repeated.
/// - Its own writes wake it again, so it must write nothing when nothing is missing; see [`crate::Status`].
/// - An instance of the plugin serves many calls and may be dropped after any: state that must last belongs in
///   resources or [`Context::kv`].
pub trait Reconciler: Sync + 'static {
    /// Message of the managed type.
    type Managed: Data;

    /// Looks at one resource, and does what is missing.
    ///
    /// # Errors
    /// It is called again, after growing delays.
    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Self::Managed>) -> Result<Outcome, Error>;
}

/// Outcome of a successful reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The resource is as it should be.
    Done,
    /// Reconcile again, behind those that are waiting.
    RequeueNow,
    /// Reconcile again after that time, or earlier if something changes.
    RequeueAfter(Duration),
    /// Reconcile again like `RequeueAfter`, for a reason that operators are shown.
    Deferred(Duration, String),
}

/// The resource to reconcile.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<M> {
    id: pb::Id,
    data: PhantomData<fn() -> M>,
}

impl<M> Request<M> {
    /// Makes a request, for exports and tests.
    #[must_use]
    pub const fn new(id: pb::Id) -> Self {
        Self { id, data: PhantomData }
    }

    /// Id of the resource, with a uid if the resource itself changed.
    #[must_use]
    pub const fn id(&self) -> &pb::Id {
        &self.id
    }

    /// Name of the resource.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.id.name
    }
}

impl<M: Data> Request<M> {
    /// Reads the resource as it is stored now; `None` if it is gone.
    ///
    /// # Errors
    /// Those of [`Context::read`].
    pub fn read(&self, ctx: &Context<'_>) -> Result<Option<Typed<M>>, Failure> {
        ctx.read(&self.id)
    }
}
