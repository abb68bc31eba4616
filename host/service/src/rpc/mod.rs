//! The RPCs: one file for each of the resource service (both lists share theirs), and one for each further service.
//! Resources that an answer has whole stay encoded; a caller that needs their content decodes them.
//!
//! A file reads from top to bottom as the rules of its RPC, in the order in which callers meet them. Costs and limits
//! are those of the rooms that the RPC uses.

mod batch_get;
mod can;
mod certify;
mod change;
mod delete;
mod freshness;
mod functions;
mod list;
mod mutate_and_validate;
mod ownership;
mod query;
mod read;
mod update;
mod update_with;
mod watch_list;
mod write;
mod write_mode;
mod write_status;

pub use can::Asked;
pub use certify::Certification;
pub use delete::Deleted;
pub use list::ListQuery;
pub use update_with::Computation;
pub use write::Written;

#[cfg(test)]
mod contention_tests;
