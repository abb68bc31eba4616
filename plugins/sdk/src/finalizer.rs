//! Clean-up before a resource is deleted.
//!
//! A deletion only marks a resource that has finalizers; it is deleted when the last of them is removed. Finalizers are
//! words in its metadata ([`crate::meta`]); each belongs to one controller.

use std::{ops::ControlFlow, time::Duration};

use crate::{Context, Error, Failure, Outcome, Typed, kind::Data, meta};

/// A finalizer, by its name: a word without blanks, such as `example.org/release`.
#[derive(Debug, Clone, Copy)]
pub struct Finalizer(&'static str);

/// Fate of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionState {
    /// The resource stays: reconcile it.
    Live,
    /// The resource is marked for deletion, and this controller's clean-up is done.
    CleanedUp,
}

/// State of a clean-up, for [`Finalizer::guard_until_finished`].
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CleanUp {
    /// Nothing is left outside: the finalizer is removed.
    Finished,
    /// Something is left: the finalizer stays, and the clean-up is called again after that time, or earlier if something
    /// changes.
    Later(Duration),
    /// Something is left as with `Later`, for a reason that operators are shown.
    Deferred(Duration, String),
}

impl Finalizer {
    /// Makes the finalizer of that name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Whether the resource has the finalizer.
    #[must_use]
    pub fn is_on<M>(&self, resource: &Typed<M>) -> bool {
        meta::finalizers(&resource.metadata).contains(self.0)
    }

    /// Guards a reconciler's work; to be called first. If the resource stays, adds the finalizer before anything is
    /// made that would need a clean-up. If the resource is marked, runs `clean_up` and then removes the finalizer,
    /// which deletes the resource if it was the last. `clean_up` may be called again for the same resource. For one that
    /// may have to wait, see [`Self::guard_until_finished`].
    ///
    /// Updates `resource` to the stored version, unless it is deleted.
    ///
    /// # Errors
    /// The error of `clean_up`, after which the finalizer stays; and the host's: [`Failure::is_conflict`] if the
    /// resource has changed since it was read.
    pub fn guard<M: Data>(
        &self,
        ctx: &Context<'_>,
        resource: &mut Typed<M>,
        clean_up: impl FnOnce(&Typed<M>) -> Result<(), Error>,
    ) -> Result<DeletionState, Error> {
        let guarded = self.guard_until_finished(ctx, resource, |resource| {
            clean_up(resource)?;
            Ok(CleanUp::Finished)
        })?;
        Ok(if guarded.is_break() { DeletionState::CleanedUp } else { DeletionState::Live })
    }

    /// Guards a reconciler's work like [`Self::guard`], with a clean-up that may end later: the finalizer is removed once
    /// it answers [`CleanUp::Finished`], and stays otherwise. `Continue` means that the resource stays, so reconcile it.
    /// `Break` has the outcome for a resource marked for deletion, which the reconciler returns:
    ///
    /// ```
    /// # use std::{ops::ControlFlow, time::Duration};
    /// # use mortise_plugin::{CleanUp, Context, Error, Finalizer, Outcome, Typed};
    /// # #[derive(Clone, PartialEq, prost::Message)] struct Song {}
    /// # impl prost::Name for Song { const PACKAGE: &'static str = "jukebox.v1"; const NAME: &'static str = "Song"; }
    /// # const FINALIZER: Finalizer = Finalizer::new("jukebox/remove");
    /// # fn is_gone(_: &Typed<Song>) -> Result<bool, Error> { Ok(true) }
    /// # fn reconcile(ctx: &Context<'_>, mut song: Typed<Song>) -> Result<Outcome, Error> {
    /// let guarded = FINALIZER.guard_until_finished(ctx, &mut song, |song| {
    ///     Ok(if is_gone(song)? { CleanUp::Finished } else { CleanUp::Later(Duration::from_secs(5)) })
    /// })?;
    /// if let ControlFlow::Break(outcome) = guarded {
    ///     return Ok(outcome);
    /// }
    /// # Ok(Outcome::Done)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::guard`].
    pub fn guard_until_finished<M: Data>(
        &self,
        ctx: &Context<'_>,
        resource: &mut Typed<M>,
        clean_up: impl FnOnce(&Typed<M>) -> Result<CleanUp, Error>,
    ) -> Result<ControlFlow<Outcome>, Error> {
        let has = self.is_on(resource);
        if !meta::is_marked(&resource.metadata) {
            if !has {
                self.add(ctx, resource)?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        let state = if has { clean_up(resource)? } else { CleanUp::Finished };
        Ok(ControlFlow::Break(match state {
            CleanUp::Finished => {
                if has {
                    self.remove(ctx, resource)?;
                }
                Outcome::Done
            }
            CleanUp::Later(after) => Outcome::RequeueAfter(after),
            CleanUp::Deferred(after, reason) => Outcome::Deferred(after, reason),
        }))
    }

    /// Adds the finalizer, and writes the resource.
    ///
    /// # Errors
    /// The host's.
    pub fn add<M: Data>(&self, ctx: &Context<'_>, resource: &mut Typed<M>) -> Result<(), Failure> {
        meta::add_finalizer(&mut resource.metadata, self.0);
        *resource = ctx.write(resource)?;
        Ok(())
    }

    /// Removes the finalizer, and writes the resource.
    ///
    /// # Errors
    /// The host's.
    pub fn remove<M: Data>(&self, ctx: &Context<'_>, resource: &mut Typed<M>) -> Result<(), Failure> {
        meta::remove_finalizer(&mut resource.metadata, self.0);
        *resource = ctx.write(resource)?;
        Ok(())
    }
}
