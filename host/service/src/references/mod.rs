//! References between resources: fields of data that a schema declares as references, and owner references of `meta`.
//!
//! # Contract
//! Every write records the references of its resource ([`records`]), and the store indexes the records. The target of a
//! new reference must exist and must not be marked ([`check`]); the commit expects that. A deletion reads the referrers
//! of every resource that it deletes ([`crate::deletion::plan`]). It is one commit ([`crate::deletion::carry_out`]),
//! which expects no further referrers. So no reference is ever left without its target, except for references that may
//! dangle, which stay, and for owner references, which the garbage collector drops ([`crate::deletion::owners`]). It
//! also does the deferred work of asynchronous references ([`crate::deletion::release`]).
//!
//! # Cost
//! Nothing for a resource of a type without references that no type refers to. The deletion of a resource with
//! referrers reads the index, once for each behaviour. The first such deletion after a start, or after a change of the
//! plugins' types, reads every resource of the referring types once ([`record_pass`]).

mod check;
mod error;
pub(crate) mod finalizer;
mod key;
pub(crate) mod owner_entry;
mod owner_references;
mod record_pass;
pub(crate) mod records;
mod tree;

pub(crate) use check::{References, WrittenReferences};
pub(crate) use error::ReferenceError;
pub(crate) use key::ResourceKey;
pub(crate) use owner_references::{BoundOwner, is_elsewhere};
pub(crate) use records::{Strictness, is_past, is_unreadable_owner, owner_of, owner_record, renew_records, target_of};
pub(crate) use tree::{Walk, field_of, follow_fault};
