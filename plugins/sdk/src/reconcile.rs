//! What a plugin's author writes: one method that looks at one resource, and does what is missing.

use std::{marker::PhantomData, time::Duration};

use mortise_resource::pb;

use crate::{Context, Error, Failure, Typed, kind::Data};

/// Makes the world so as the resources of one type say.
///
/// # Contract
/// - Called for each resource of the managed type when the controller starts, whenever that resource or one that
///   concerns it changes, and now and then; never twice at once for the same. Changes may be skipped: only what is
///   there counts.
/// - The resource may be gone: [`Request::read`] tells.
/// - Must be idempotent: a call that was cut off is made again.
/// - What it writes wakes it again, so it has to write nothing when nothing is missing; see [`crate::Status`].
/// - An instance of the plugin serves many calls and may be dropped after any: what has to last belongs into resources
///   or [`Context::kv`].
pub trait Reconciler: Sync + 'static {
    /// What resources of the managed type hold.
    type Managed: Data;

    /// Looks at one resource, and does what is missing.
    ///
    /// # Errors
    /// It is called again, later each time.
    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Self::Managed>) -> Result<Outcome, Error>;
}

/// How a reconcile ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All is as it should be.
    Done,
    /// Once more, behind those that are waiting.
    RequeueNow,
    /// Once more after that time, or earlier if something changes.
    RequeueAfter(Duration),
    /// As `RequeueAfter`, for a reason that operators are shown.
    Deferred(Duration, String),
}

/// Which resource to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<M> {
    id: pb::Id,
    data: PhantomData<fn() -> M>,
}

impl<M> Request<M> {
    /// For exports and tests.
    #[must_use]
    pub const fn new(id: pb::Id) -> Self {
        Self { id, data: PhantomData }
    }

    /// Its id. With a uid when it was the resource itself that changed.
    #[must_use]
    pub const fn id(&self) -> &pb::Id {
        &self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.id.name
    }
}

impl<M: Data> Request<M> {
    /// The resource as it is stored now; none if it is gone.
    ///
    /// # Errors
    /// As [`Context::read`].
    pub fn read(&self, ctx: &Context<'_>) -> Result<Option<Typed<M>>, Failure> {
        ctx.read(&self.id)
    }
}
