//! References between resources: fields of data that a schema declares as references, and owner references of `meta`.
//!
//! # Contract
//! Every write records the references of its resource ([`records`]), and the store indexes the records. The target of a new
//! reference has to exist and must not be marked ([`check`]); the commit expects that. A deletion looks at the referrers of
//! the resource and of every resource that goes with it ([`crate::deletion::plan`]). It is one commit
//! ([`crate::deletion::carry_out`]), which expects no further referrers. So no reference is ever left without its target,
//! but for references that may dangle and owner references, which the garbage collector looks after
//! ([`crate::deletion::release`]).
//!
//! # Cost
//! Nothing for types without references and to which nothing refers. A deletion of what is referred to reads the index,
//! once for each behaviour. The first one after a start, or after a plugin with other types came, reads the types that
//! refer to it once ([`record_pass`]).

mod check;
mod error;
pub(crate) mod finalizer;
mod key;
mod owner_references;
mod record_pass;
pub(crate) mod records;
mod tree;

pub(crate) use check::{References, WrittenReferences};
pub(crate) use error::ReferenceError;
pub(crate) use key::ResourceKey;
pub(crate) use records::{Reading, owner_of, renew_records, target_of};
pub(crate) use tree::{MAX_LOOKED_AT, Walk, field_of, follow_fault};
