//! The finalizer by which the host holds a resource that others refer to.

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
