//! Queries: searches by the content of resources, and watches of these.
//!
//! # Contract
//! `mortise_query` has the language of filters, selectors, orders and masks. This room applies it to the resources of a
//! type, with the checks and hooks of a list. A resource that the caller may not read is neither shown nor counted.
//!
//! # Cost and limits
//! A search reads the resources that its access path finds ([`access`], [`walk`]), within the limits of [`search`].
//! Watches have those of [`watch`], indexes those of [`field_index`], and searches as of one version those of [`past`].

mod access;
mod collect;
mod compile;
mod field_index;
mod past;
mod queries;
mod search;
mod walk;
mod watch;

pub(crate) use compile::{project, refused, shown, undecodable};
pub(crate) use queries::Queries;
pub use watch::{resources::ResourcesChanges, single::ResourceChanges};
