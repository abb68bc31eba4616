//! List: the resources of a type in one place or everywhere.
//!
//! # Limits
//! The type is read in pages, as of one commit. A list for a client is encoded as it is read, since what waits to be
//! sent takes a quarter of the memory that way, and counts against `service.list_bytes` until it is sent. A list gets
//! its first share before it is read, so those that are read at once are bounded, too, and with them the windows of
//! noted changes in the store. One that turns out larger gives back what it has and waits for more, with nothing in
//! hand.
//!
//! Lists of controllers of this process are not encoded; what a plugin may take bounds them.

use std::{collections::VecDeque, sync::Arc};

use crate::registry::{Registry, ResourceType};
use mortise_resource::{Code, Error, pb, tenancy};
use mortise_store::{Query, StoreError, TypeKey};
use prost::{
    Message as _,
    bytes::{BufMut as _, Bytes, BytesMut},
};

use crate::{
    caller::Caller,
    fair::{NoShare, Share},
    hooks::RequestHooks,
    service::ResourceService,
    store_fault::store_fault,
};

/// Lists that are read at once: each has this part of all bytes at first.
const AT_ONCE: usize = 16;

/// What is encoded in one piece, bytes: the resource that reaches it is the last.
const PIECE: usize = 64 << 10;

/// The field of `ListResponse` that has the resources, and its wire type.
const RESOURCES: u8 = 1 << 3 | 2;

/// A list that is ready to be sent: a `ListResponse`, encoded, in pieces. Counts against `service.list_bytes` until it
/// is dropped.
pub struct EncodedList {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    _share: Share,
}

impl EncodedList {
    /// Bytes that are left.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next piece, which has whole resources in it; `None` after the last.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

/// A list that may be read.
struct CheckedList {
    kind: Arc<ResourceType>,
    hooks: RequestHooks,
    query: Query,
}

/// How it ended that a list was read.
enum Gathered {
    All(VecDeque<Bytes>, usize, Share),
    /// It did not fit into its share; so many bytes were seen.
    Outgrown(usize),
}

impl ResourceService {
    /// Lists the resources of a type that the caller may read, in byte order of partition, namespace, name.
    ///
    /// # Errors
    /// `InvalidArgument`: a missing field, the type, a unit, the prefix. `PermissionDenied`: listing as such.
    pub async fn list(&self, caller: &Caller, request: pb::ListRequest) -> Result<pb::ListResponse, Error> {
        let mut checked = self.check_list(caller, request).await?;
        let mut resources = Vec::new();
        let mut pages = self.backend.scan(&checked.query).await.map_err(failed)?;
        while let Some(page) = pages.next().await.map_err(failed)? {
            checked.keep_readable(page, |resource| resources.push(resource)).await?;
        }
        Ok(pb::ListResponse { resources })
    }

    /// Lists as [`ResourceService::list`], for a client. Waits until there is room for the result.
    ///
    /// # Errors
    /// As there; `ResourceExhausted`: the result is larger than all results together may be, or too many wait.
    pub async fn list_encoded(&self, caller: &Caller, request: pb::ListRequest) -> Result<EncodedList, Error> {
        let mut checked = self.check_list(caller, request).await?;
        let total = self.lists.total();
        let mut wanted = (total / AT_ONCE).max(1);
        loop {
            let share = self.lists.acquire(caller.source, wanted).await.map_err(|e| self.no_room(e))?;
            match self.gather(&mut checked, share).await? {
                Gathered::All(pieces, bytes, mut share) => {
                    share.shrink(bytes);
                    return Ok(EncodedList { pieces, bytes, _share: share });
                }
                Gathered::Outgrown(seen) if wanted < total => wanted = seen.saturating_mul(2).clamp(wanted, total),
                Gathered::Outgrown(_) => return Err(self.no_room(NoShare::TooMuch)),
            }
            checked.hooks.release();
        }
    }

    /// The checks of a list, up to where the store is asked.
    async fn check_list(&self, caller: &Caller, request: pb::ListRequest) -> Result<CheckedList, Error> {
        let wanted = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let mut tenancy = request.tenancy.ok_or_else(|| Error::invalid("tenancy is required"))?;
        let registry = self.types();
        let kind = check(&registry, &wanted, &tenancy, &request.name_prefix)?;
        if kind.scope == mortise_resource::Scope::Partition {
            kind.scope.check_query("type", &kind.gvk.to_string(), &tenancy)?;
        }
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        hooks.authorize_list(&tenancy).await?;
        hooks.release();
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.name_prefix };
        Ok(CheckedList { kind, hooks, query })
    }

    /// Reads and encodes a list within its share.
    async fn gather(&self, checked: &mut CheckedList, mut share: Share) -> Result<Gathered, Error> {
        let (mut pieces, mut whole) = (VecDeque::new(), 0);
        let mut pages = self.backend.scan(&checked.query).await.map_err(failed)?;
        while let Some(page) = {
            checked.hooks.release();
            pages.next().await.map_err(failed)?
        } {
            let mut piece = BytesMut::new();
            let mut cut = |piece: &mut BytesMut| pieces.push_back(piece.split().freeze());
            let encode = |resource: pb::Resource| {
                let before = piece.len();
                let length = resource.encoded_len();
                // Neither can fail: the buffer grows.
                piece.put_u8(RESOURCES);
                let _ = prost::encode_length_delimiter(length, &mut piece);
                let _ = resource.encode(&mut piece);
                whole += piece.len() - before;
                if piece.len() >= PIECE {
                    cut(&mut piece);
                }
            };
            checked.keep_readable(page, encode).await?;
            if !piece.is_empty() {
                pieces.push_back(piece.freeze());
            }
            if whole > share.units() && !share.grow(whole - share.units() + (whole / 4)) {
                return Ok(Gathered::Outgrown(whole));
            }
            // Encoding a page takes a while; others are to have theirs.
            tokio::task::yield_now().await;
        }
        Ok(Gathered::All(pieces, whole, share))
    }

    pub(crate) fn no_room(&self, why: NoShare) -> Error {
        let total = self.lists.total();
        Error::new(
            Code::ResourceExhausted,
            match why {
                NoShare::TooMuch => format!(
                    "the list is larger than all lists together may be, {total} bytes (limit service.list_bytes); list fewer \
                     with a name_prefix or a tenancy, or watch, which has no such limit"
                ),
                NoShare::QueueFull => format!(
                    "{} lists and watches are waiting for others to be read (limit service.max_waiting); try again later",
                    self.options.max_waiting
                ),
            },
        )
    }
}

impl CheckedList {
    /// Passes on what of a page the caller may read, in the type's schema version.
    async fn keep_readable(
        &mut self,
        page: Vec<Arc<pb::Resource>>,
        mut keep: impl FnMut(pb::Resource),
    ) -> Result<(), Error> {
        for resource in page {
            if !is_of(&resource, &self.kind) {
                continue;
            }
            let mut resource = Arc::unwrap_or_clone(resource);
            self.hooks.next_item();
            self.hooks.upgrade(&mut resource).await?;
            if self.hooks.may_read(&resource).await? {
                keep(resource);
            }
        }
        Ok(())
    }
}

fn failed(error: StoreError) -> Error {
    store_fault("failed list", &error)
}

/// The checks that List and WatchList share, before those of the scope.
pub(crate) fn check(
    registry: &Registry,
    wanted: &pb::Type,
    tenancy: &pb::Tenancy,
    name_prefix: &str,
) -> Result<Arc<ResourceType>, Error> {
    let kind = registry.resolve(wanted)?.clone();
    tenancy::check_query(tenancy)?;
    if name_prefix.to_lowercase() != name_prefix {
        return Err(Error::invalid(format!("name_prefix invalid: must be lowercase alphanumeric, got: {name_prefix}")));
    }
    Ok(kind)
}

/// Whether a stored resource is of this very GroupVersion.
pub(crate) fn is_of(resource: &pb::Resource, kind: &ResourceType) -> bool {
    resource.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|t| kind.gvk.matches(t))
}
