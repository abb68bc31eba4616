//! Indexes of fields that types declare (`query.indexed_fields` of a manifest): which resources have a value there.
//!
//! # Contract
//! What an index names has to be read and judged by the query: it may name too much, never too little. A query sees every
//! write that was answered before it began, since the store publishes a change before it answers.
//!
//! An index is kept in memory by a task of its type ([`task`]). The first query that has a use for it makes it, and waits
//! for it a moment; until it is there, queries read ranges of names, as their plans say. It goes when nobody has asked for
//! an hour, and when the type is registered anew.
//!
//! # Cost and limits
//! All indexes together hold `service.index_bytes`; a type whose indexes do not fit has none, and is tried again
//! after ten minutes.
//! Making one decodes every resource of the type once, at low priority; each change of the type decodes what was before it
//! and what is. An entry takes some 64 bytes besides the name and the place.

mod content;
mod declared;
pub(super) mod indexes;
pub(super) mod lookup;
mod task;
