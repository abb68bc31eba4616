//! Cleaning up before a resource goes.
//!
//! A resource with finalizers is not deleted but marked, and goes when the last of them is taken away. They are words
//! in its metadata ([`crate::meta`]); each belongs to one controller.

use crate::{Context, Error, Failure, Typed, kind::Data, meta};

/// A finalizer, by its name: a word without blanks, such as `example.org/release`.
#[derive(Debug, Clone, Copy)]
pub struct Finalizer(&'static str);

/// Whether a resource is to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is: make things so as it says.
    Stays,
    /// It is marked for deletion, and this controller's cleaning up is done.
    Goes,
}

impl Finalizer {
    /// The finalizer of that name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Whether the resource has it.
    #[must_use]
    pub fn is_on<M>(&self, resource: &Typed<M>) -> bool {
        meta::finalizers(&resource.metadata).contains(self.0)
    }

    /// What a reconciler does first. On a resource that stays: sees to it that the finalizer is there, before anything
    /// is made that would have to be cleaned up. On one that is marked: lets `clean_up` work, then takes the finalizer
    /// away, and the resource with it if it was the last. `clean_up` may be called again for the same resource.
    ///
    /// `resource` is as it is stored afterwards, unless it is gone.
    ///
    /// # Errors
    /// What `clean_up` says, whereupon the finalizer stays; and the host's: [`Failure::is_conflict`] when the resource
    /// changed since it was read.
    pub fn guard<M: Data>(
        &self,
        ctx: &Context<'_>,
        resource: &mut Typed<M>,
        clean_up: impl FnOnce(&Typed<M>) -> Result<(), Error>,
    ) -> Result<Life, Error> {
        let has = self.is_on(resource);
        if !meta::is_marked(&resource.metadata) {
            if !has {
                self.add(ctx, resource)?;
            }
            return Ok(Life::Stays);
        }
        if has {
            clean_up(resource)?;
            self.remove(ctx, resource)?;
        }
        Ok(Life::Goes)
    }

    /// Adds it, and writes the resource.
    ///
    /// # Errors
    /// The host's.
    pub fn add<M: Data>(&self, ctx: &Context<'_>, resource: &mut Typed<M>) -> Result<(), Failure> {
        meta::add_finalizer(&mut resource.metadata, self.0);
        *resource = ctx.write(resource)?;
        Ok(())
    }

    /// Takes it away, and writes the resource.
    ///
    /// # Errors
    /// The host's.
    pub fn remove<M: Data>(&self, ctx: &Context<'_>, resource: &mut Typed<M>) -> Result<(), Failure> {
        meta::remove_finalizer(&mut resource.metadata, self.0);
        *resource = ctx.write(resource)?;
        Ok(())
    }
}
