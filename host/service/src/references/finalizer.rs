//! The finalizer with which the host holds a resource that others refer to.

use mortise_resource::{Error, meta};

pub(crate) use mortise_resource::meta::REFERENCES_FINALIZER;

/// Whether the metadata has the finalizer.
pub(crate) fn has_finalizer(metadata: &meta::Metadata) -> bool {
    let names_it = metadata.get(meta::FINALIZERS).is_some_and(|text| text.contains(REFERENCES_FINALIZER));
    names_it && meta::finalizers(metadata).contains(REFERENCES_FINALIZER)
}

/// Refuses the host's finalizer in a client's or a hook's write: only the host can remove it again.
pub(crate) fn check_finalizers(metadata: &meta::Metadata) -> Result<(), Error> {
    match has_finalizer(metadata) {
        true => Err(Error::invalid(format!("the finalizer {REFERENCES_FINALIZER} belongs to the host; leave it out"))),
        false => Ok(()),
    }
}
