//! The controller's cache: resources that its watches have seen, found by id or by an index.
//!
//! A read costs a hundredth of a request, since none is made. The cache may be a little behind, even behind the
//! controller's own writes; a decision from it is made again when it has caught up.

use mortise_resource::pb;

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
pub use crate::host::Key;
use crate::{Failure, Kind, Typed, host::AnyHost, kind::Data, typed::typed};

/// Reader of the controller's cache; see [`crate::Context::cache`]. It holds the managed type and the watched ones;
/// indexes are declared with them.
#[derive(Clone, Copy)]
pub struct Cache<'a> {
    host: &'a AnyHost,
}

impl<'a> Cache<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Reads a resource by its id; the uid is ignored.
    ///
    /// # Errors
    /// The host's; or the resource holds another message than `M`.
    pub fn get<M: Data>(&self, of: Kind<M>, id: &pb::Id) -> Result<Option<Typed<M>>, Failure> {
        self.first(of, "id", Key::Id(id))
    }

    /// Reads the first resource under a key of an index.
    ///
    /// # Errors
    /// Those of [`Self::get`]; and that the index does not exist.
    pub fn first<M: Data>(&self, of: Kind<M>, index: &str, key: Key<'_>) -> Result<Option<Typed<M>>, Failure> {
        self.host.cache_get(of.to_pb(), index, key)?.map(|bytes| Typed::stored(&bytes)).transpose()
    }

    /// Lists all resources under a key of an index.
    ///
    /// # Errors
    /// Those of [`Self::first`].
    pub fn list<M: Data>(&self, of: Kind<M>, index: &str, key: Key<'_>) -> Result<Vec<Typed<M>>, Failure> {
        typed(&self.host.cache_list(of.to_pb(), index, key)?)
    }

    /// Lists some of the resources under a key, of one tenancy, with names from `names.0` on and before `names.1`
    /// (empty: no end), in the order of their values in the index, then of their names: at most `limit`, and as many as
    /// fit into one answer. Returns whether there are more after the last one. [`Key::Exact`] costs what is found,
    /// another key all that is under it.
    ///
    /// # Errors
    /// Those of [`Self::first`].
    pub fn page<M: Data>(
        &self,
        of: Kind<M>,
        tenancy: &pb::Tenancy,
        index: (&str, Key<'_>),
        names: (&str, &str),
        limit: u32,
    ) -> Result<(Vec<Typed<M>>, bool), Failure> {
        let (resources, more) = self.host.cache_page(of.to_pb(), tenancy.clone(), index, names, limit)?;
        Ok((typed(&resources)?, more))
    }
}
