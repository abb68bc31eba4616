//! Queries: resources by what is in them, and watches of these.
//!
//! The language of filters, selectors, orders and masks is `mortise_query`'s; here is what it is asked of: the resources
//! of a type, read as a list reads them, by the same checks and hooks. What a caller may not read neither shows nor
//! counts.

pub(crate) mod access;
pub(crate) mod collect;
pub(crate) mod compile;
mod field_index;
pub(crate) mod queries;
pub(crate) mod search;
pub(crate) mod watch;
