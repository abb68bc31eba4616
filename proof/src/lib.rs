//! Records of what clients did and saw, and the checks of these records.
//!
//! # Contract
//! [`check::judge`] takes a [`record::History`] and returns the broken promises, each with its rule, its resource and a
//! sentence. A record without an end is judged as far as it goes. A call without an answer may have been done or not.
//! [`shrink::shrink`] drops recorded operations for as long as the same promise stays broken.
//!
//! # Cost
//! The server numbers its commits, and every write has a text of its own. So the order of the states of a resource is
//! known, no search is needed, and a history of n observations is judged in O(n log n).
//!
//! # Limits
//! `docs/reliability.md` lists the promises that no rule covers.

pub mod check;
pub mod record;
pub mod shrink;
pub mod slope;
