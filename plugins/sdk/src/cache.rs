//! The controller's cache: what its own watches have seen, found by id or by an index.
//!
//! Reading it is no request, so it costs a hundredth of one. It may be a little behind, even behind what the controller
//! wrote itself; what is decided by it is decided again when it has caught up.

use mortise_resource::pb;

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
pub use crate::host::Key;
use crate::{Failure, Kind, Typed, host::AnyHost, kind::Data, typed::typed};

/// See [`crate::Context::cache`]. Types are the managed one and the watched ones; indexes are declared with them.
#[derive(Clone, Copy)]
pub struct Cache<'a> {
    host: &'a AnyHost,
}

impl<'a> Cache<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// A resource by its id, which has no say in which incarnation.
    ///
    /// # Errors
    /// The host's, or that the resource holds something else than an `M`.
    pub fn get<M: Data>(&self, of: Kind<M>, id: &pb::Id) -> Result<Option<Typed<M>>, Failure> {
        self.first(of, "id", Key::Id(id))
    }

    /// The first resource under a key of an index.
    ///
    /// # Errors
    /// As [`Self::get`]; and that there is no such index.
    pub fn first<M: Data>(&self, of: Kind<M>, index: &str, key: Key<'_>) -> Result<Option<Typed<M>>, Failure> {
        self.host.cache_get(of.to_pb(), index, key)?.map(|bytes| Typed::stored(&bytes)).transpose()
    }

    /// All resources under a key of an index.
    ///
    /// # Errors
    /// As [`Self::first`].
    pub fn list<M: Data>(&self, of: Kind<M>, index: &str, key: Key<'_>) -> Result<Vec<Typed<M>>, Failure> {
        typed(&self.host.cache_list(of.to_pb(), index, key)?)
    }
}
