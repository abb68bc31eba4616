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

pub(crate) mod carry_out;
pub(crate) mod check;
mod key;
pub(crate) mod plan;
pub(crate) mod record_pass;
pub(crate) mod records;
pub(crate) mod release;

pub(crate) use key::ResourceKey;
use mortise_resource::{Error, meta};

pub(crate) use mortise_resource::meta::REFERENCES_FINALIZER as FINALIZER;

/// Whether the finalizer is among those of a resource.
pub(crate) fn has_finalizer(metadata: &meta::Metadata) -> bool {
    let names_it = metadata.get(meta::FINALIZERS).is_some_and(|text| text.contains(FINALIZER));
    names_it && meta::finalizers(metadata).contains(FINALIZER)
}

/// Refuses the host's finalizer in what a client or a hook writes: nobody else takes it away again.
pub(crate) fn check_finalizers(metadata: &meta::Metadata) -> Result<(), Error> {
    match has_finalizer(metadata) {
        true => Err(Error::invalid(format!("the finalizer {FINALIZER} is the host's; leave it out"))),
        false => Ok(()),
    }
}
