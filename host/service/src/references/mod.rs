//! What resources refer to: fields of data that a schema declares as references, and owner references of `meta`.
//!
//! # Contract
//! Every write records what the resource refers to ([`records`]), and the store indexes the records. A new reference has to
//! be to a resource that exists and is not going ([`check`]); the commit expects that. A deletion looks at what refers to
//! the resource, and to whatever goes with it ([`plan`]), and is one commit ([`carry_out`]), which expects that nothing
//! else has come to refer to it. So nothing ever refers to nothing, but for references that may dangle and owner
//! references, which the garbage collector looks after ([`release`]).
//!
//! # Cost
//! Nothing for types without references and to which nothing refers. A deletion of what is referred to reads the index,
//! once for each behaviour. The first one after a start, or after a plugin with other types came, reads the types that
//! refer to it once ([`record_pass`]).

pub(crate) mod check;
pub(crate) mod finalizer;
pub(crate) mod key;
pub(crate) mod record_pass;
pub(crate) mod records;
