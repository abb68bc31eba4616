//! Lists that passed their checks: their resources are read in pages, as of one commit.
//!
//! # Limits
//! A list for a client is encoded while it is read, since encoded resources take a quarter of the memory until they are
//! sent. They count against `service.list_bytes` until then. A list gets its first share before it is read, which also
//! bounds the number of lists read at once, and with it the overwritten versions that the store buffers. A list that
//! outgrows its share gives it back and waits for a larger one, without holding anything.
//!
//! # Priority
//! The first [`FOREGROUND_PAGES`] pages of a list are read on the threads that serve requests. Further pages are read
//! and encoded on threads of low priority, so that short requests go before any number of long lists. A list cannot be
//! sent in parts, since its length comes first. A bound on the lists read at once would not help a write that waits for
//! the processor of one of them.
//!
//! Lists for controllers of this process are neither encoded nor counted here: each resource goes to its reader at
//! once, and the reader may end the list.

use std::{collections::VecDeque, sync::Arc, thread};

use mortise_resource::{EncodedResource, Error, pb, types::Gvk};
use mortise_store::{Cursor, Query, StoreError};
use prost::{
    bytes::{BufMut as _, Bytes, BytesMut},
    encoding::encode_varint,
};
use tracing::Instrument as _;

use super::pools::{FOREGROUND_PAGES, Lists};
use crate::{
    call::{Caller, NoShare, Share, store_fault::store_fault},
    core::Core,
    planted::{self, Fault},
    registry::{Registry, ResourceType},
    rules::RequestHooks,
};

/// Lists that can be read at once: all bytes divided by this number are the first share of each.
const CONCURRENT_LISTS: usize = 16;

/// Bytes of an encoded piece; the resource that reaches the bound is its last. Transports send pieces of this size as
/// they are, and copy parts of larger ones.
const PIECE_BYTES: usize = 32 << 10;

/// Tag of the resources in `ListResponse` and `ListByOwnerResponse`: field 1, length-delimited.
const RESOURCES_TAG: u8 = 1 << 3 | 2;

/// An encoded list, ready to be sent in pieces: a `ListResponse` or a `ListByOwnerResponse`. Counts against
/// `service.list_bytes` until it is dropped.
pub struct EncodedList {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    _share: Share,
}

impl EncodedList {
    /// Bytes of the remaining pieces.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the next piece, which has whole resources; `None` after the last.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

/// The resources of a list.
pub(crate) enum Selection {
    /// Resources of exactly this GroupVersion.
    Type(Arc<ResourceType>, Query),
    /// Resources of every type owned by an incarnation.
    Owner(pb::Id),
}

/// A list that passed its checks.
pub(crate) struct CheckedList {
    selection: Selection,
    registry: Arc<Registry>,
    caller: Caller,
    /// Hooks of the last read type. A type's instance is given back before the next one is requested.
    hooks: Option<RequestHooks>,
}

impl CheckedList {
    pub(crate) fn new(selection: Selection, registry: Arc<Registry>, caller: &Caller) -> Self {
        Self { selection, registry, caller: caller.clone(), hooks: None }
    }

    /// Reads the list. `each` gets the readable resources; its error ends the reading.
    pub(crate) async fn read<E: From<Error>>(
        &mut self,
        core: &Core,
        mut each: impl FnMut(pb::Resource) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let mut pages = self.open(core).await?;
        while let Some(page) = self.next_page(&mut *pages).await? {
            self.keep_readable(page, |resource| each(resource.decode().map_err(Error::from)?)).await?;
        }
        Ok(())
    }

    /// Reads and encodes the list for a client. Waits until the list fits into the shared bytes.
    pub(crate) async fn encode(mut self, lists: &Lists) -> Result<EncodedList, Error> {
        let total = lists.bytes.total();
        let mut wanted = (total / CONCURRENT_LISTS).max(1);
        loop {
            let share = lists.bytes.acquire(self.caller.queue_key(), wanted).await.map_err(|e| lists.no_room(e))?;
            let pages = self.open(&lists.core).await?;
            let mut encoder = Encoder { list: self, pages, pieces: VecDeque::new(), bytes: 0, share };
            let mut progress = encoder.pages(FOREGROUND_PAGES).await?;
            if let Progress::More = progress {
                let rest = async move { encoder.pages(usize::MAX).await.map(|progress| (encoder, progress)) };
                let rest = lists.low_priority.run(rest.in_current_span()).await;
                (encoder, progress) = rest.ok_or_else(|| Error::internal("failed list: its task panicked"))??;
            }
            match progress {
                Progress::All => {
                    let Encoder { pieces, bytes, mut share, .. } = encoder;
                    share.shrink(bytes);
                    return Ok(EncodedList { pieces, bytes, _share: share });
                }
                Progress::More | Progress::Outgrown if wanted < total => {
                    wanted = encoder.bytes.saturating_mul(2).clamp(wanted, total);
                }
                Progress::More | Progress::Outgrown => return Err(lists.no_room(NoShare::TooMuch)),
            }
            // The share is dropped here; nothing is held during the next wait.
            self = encoder.list;
            self.release();
        }
    }

    async fn open(&mut self, core: &Core) -> Result<Box<dyn Cursor>, Error> {
        let pages = match &self.selection {
            Selection::Type(_, query) => core.backend.scan(query).await,
            Selection::Owner(owner) => core.backend.scan_owned(owner).await,
        };
        pages.map_err(|e| self.failed(&e))
    }

    async fn next_page(&mut self, pages: &mut dyn Cursor) -> Result<Option<Vec<EncodedResource>>, Error> {
        self.release();
        pages.next().await.map_err(|e| self.failed(&e))
    }

    /// Passes on the readable resources of a page, in their type's schema version.
    async fn keep_readable<E: From<Error>>(
        &mut self,
        mut page: Vec<EncodedResource>,
        mut keep: impl FnMut(EncodedResource) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Selection::Owner(_) = self.selection {
            // One GroupVersion after another.
            page.sort_by_cached_key(type_of_stored);
        }
        for resource in page {
            let kind = match &self.selection {
                Selection::Type(kind, _) if resource.has_type(&kind.gvk) => kind,
                Selection::Type(..) => continue,
                Selection::Owner(_) => self.registry.resolve_type(&type_of_stored(&resource))?,
            };
            if self.hooks.as_ref().is_none_or(|hooks| hooks.kind.gvk != kind.gvk) {
                // A task that waits for a second place while it holds the first may wait for itself.
                drop(self.hooks.take());
            }
            let hooks = self.hooks.get_or_insert_with(|| RequestHooks::new(kind.clone(), &self.caller));
            hooks.next_item();
            let resource = hooks.upgraded(resource).await?;
            if hooks.may_read(&resource).await? && !planted::happens(Fault::ListLacksOne) {
                keep(resource)?;
            }
        }
        Ok(())
    }

    /// Gives back the plugin's instance.
    fn release(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.release();
        }
    }

    fn failed(&self, error: &StoreError) -> Error {
        let what = match self.selection {
            Selection::Type(..) => "failed list",
            Selection::Owner(_) => "failed list by owner",
        };
        store_fault(what, error)
    }
}

/// A list that is being read and encoded within its share.
struct Encoder {
    list: CheckedList,
    pages: Box<dyn Cursor>,
    pieces: VecDeque<Bytes>,
    bytes: usize,
    share: Share,
}

/// The progress of an [`Encoder`].
enum Progress {
    More,
    All,
    /// The list exceeds its share, and the share cannot grow.
    Outgrown,
}

impl Encoder {
    /// Reads and encodes at most `most` pages.
    async fn pages(&mut self, most: usize) -> Result<Progress, Error> {
        for _ in 0..most {
            let Some(page) = self.list.next_page(&mut *self.pages).await? else { return Ok(Progress::All) };
            self.encode(page, most > FOREGROUND_PAGES).await?;
            let units = self.share.units();
            if self.bytes > units && !self.share.grow(self.bytes - units + (self.bytes / 4)) {
                return Ok(Progress::Outgrown);
            }
            if self.pages.is_at_end() {
                return Ok(Progress::All);
            }
            // Encoding a page takes a while; let other tasks run.
            tokio::task::yield_now().await;
        }
        Ok(Progress::More)
    }

    /// Encodes a page. After each piece of a long list, threads that wait for its processor run first: the kernel would
    /// let this one run for milliseconds, at any niceness.
    async fn encode(&mut self, page: Vec<EncodedResource>, is_long: bool) -> Result<(), Error> {
        let Self { list, pieces, bytes, .. } = self;
        let whole: usize = page.iter().map(|resource| resource.bytes().len() + 6).sum();
        let mut piece = BytesMut::with_capacity(whole.min(PIECE_BYTES + PIECE_BYTES / 4));
        let encode = |resource: EncodedResource| {
            let before = piece.len();
            let resource = resource.bytes();
            piece.put_u8(RESOURCES_TAG);
            encode_varint(resource.len() as u64, &mut piece);
            piece.put_slice(resource);
            *bytes += piece.len() - before;
            if piece.len() >= PIECE_BYTES {
                pieces.push_back(piece.split().freeze());
                if is_long {
                    thread::yield_now();
                }
            }
            Ok::<_, Error>(())
        };
        list.keep_readable(page, encode).await?;
        if !piece.is_empty() {
            pieces.push_back(piece.freeze());
        }
        Ok(())
    }
}

fn type_of_stored(resource: &EncodedResource) -> Gvk {
    let id = resource.id();
    Gvk::new(id.group, id.group_version, id.kind)
}
