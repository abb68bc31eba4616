//! Indexes of fields that types declare (`query.indexed_fields` of a manifest): each finds the resources with a value.
//!
//! # Contract
//! The query reads and checks each resource that an index finds: an index may find too many resources, never too few. A
//! query sees every write that was answered before it began, since the store publishes a change before it answers.
//!
//! An index is in memory, kept by a task of its type ([`task`]). The first query with a use for it starts its
//! construction, and waits for a moment; until the index is ready, queries read ranges of names, as their plans show.
//! The index ends after an hour without queries, and when its type is registered again.
//!
//! # Cost and limits
//! All indexes together hold at most `service.index_bytes`; a type whose indexes do not fit has none, and is tried
//! again after ten minutes. The construction decodes every resource of the type once, at low priority; each change of
//! the type decodes the old and the new resource. An entry takes some 64 bytes besides the name and the place.

pub(super) mod content;
mod declared;
pub(super) mod indexes;
pub(super) mod lookup;
mod task;
