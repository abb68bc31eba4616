//! Queries: searches by the content of resources, and watches of these.
//!
//! The language of filters, selectors, orders and masks is `mortise_query`'s; here is what it is asked of: the resources
//! of a type, read as a list reads them, by the same checks and hooks. What a caller may not read neither shows nor
//! counts.

mod access;
mod collect;
mod compile;
mod field_index;
mod queries;
mod search;
mod watch;

pub(crate) use compile::{project, refused, shown, undecodable};
pub(crate) use queries::Queries;
pub use watch::{resources::ResourcesChanges, single::ResourceChanges};
