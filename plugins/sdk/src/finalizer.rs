//! Clean-up before a resource is deleted.
//!
//! A deletion only marks a resource that has finalizers; it is deleted when the last of them is removed. Finalizers are
//! words in its metadata ([`crate::meta`]); each belongs to one controller.

use crate::{Context, Error, Failure, Typed, kind::Data, meta};

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
    /// which deletes the resource if it was the last. `clean_up` may be called again for the same resource.
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
        let has = self.is_on(resource);
        if !meta::is_marked(&resource.metadata) {
            if !has {
                self.add(ctx, resource)?;
            }
            return Ok(DeletionState::Live);
        }
        if has {
            clean_up(resource)?;
            self.remove(ctx, resource)?;
        }
        Ok(DeletionState::CleanedUp)
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
