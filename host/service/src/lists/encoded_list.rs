//! Lists for clients: encoded while they are read, since encoded resources take a quarter of the memory until they are
//! sent.
//!
//! A list is a copy of the stored bytes where rules allow the caller to read every resource of the type: they are asked
//! once for the list. Otherwise each resource is judged first, and copied then.
//!
//! # Limits
//! Lists count against `service.list_bytes` until they are sent. A list gets its first share before it is read, which
//! also bounds the number of lists read at once, and with it the overwritten versions that the store buffers. A list
//! that outgrows its share gives it back and waits for a larger one, without holding anything.
//!
//! # Priority
//! The first [`FOREGROUND_PAGES`] pages of a list are read on the threads that serve requests. Further pages are read
//! and encoded on threads of low priority, so that short requests go before any number of long lists. A list cannot be
//! sent in parts, since its length comes first. A bound on the lists read at once would not help a write that waits for
//! the processor of one of them.

use std::{collections::VecDeque, thread};

use mortise_resource::{
    EncodedResource, EncodingError, Error, PieceWriter,
    wire::{self, Field, Value},
};
use mortise_store::{CopiedPart, CopyCursor, Cursor};
use prost::bytes::Bytes;
use tracing::Instrument as _;

use super::{
    checked_list::CheckedList,
    pools::{FOREGROUND_PAGES, Lists},
};
use crate::{
    call::{NoShare, Share},
    planted::{self, Fault},
};

/// Lists that can be read at once: all bytes divided by this number are the first share of each.
const CONCURRENT_LISTS: usize = 16;

/// Tag of the resources in `ListResponse` and `ListByOwnerResponse`: field 1, length-delimited.
pub(super) const RESOURCES_TAG: u8 = 1 << 3 | 2;

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

impl CheckedList {
    /// Reads and encodes the list for a client. Waits until the list fits into the shared bytes.
    pub(crate) async fn encode(mut self, lists: &Lists) -> Result<EncodedList, Error> {
        let total = lists.bytes.total();
        let mut wanted = (total / CONCURRENT_LISTS).max(1);
        loop {
            let share = lists.bytes.acquire(self.caller().queue_key(), wanted).await.map_err(|e| lists.no_room(e))?;
            let pages = Pages::open(&mut self, lists).await?;
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
}

/// The pages of a list.
enum Pages {
    /// Resources to be judged.
    Resources(Box<dyn Cursor>),
    /// Resources that the caller may read, copied.
    Copies(Box<dyn CopyCursor>),
}

impl Pages {
    async fn open(list: &mut CheckedList, lists: &Lists) -> Result<Self, Error> {
        let Some((query, request)) = list.copies() else {
            return Ok(Self::Resources(list.open(&lists.core).await?));
        };
        let copies = lists.core.backend.scan_copies(query, request).await;
        copies.map(Self::Copies).map_err(|fault| list.failed(&fault))
    }

    fn is_at_end(&self) -> bool {
        match self {
            Self::Resources(pages) => pages.is_at_end(),
            Self::Copies(pages) => pages.is_at_end(),
        }
    }
}

/// A list that is being read and encoded within its share.
struct Encoder {
    list: CheckedList,
    pages: Pages,
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
            if !self.page(most > FOREGROUND_PAGES).await? {
                return Ok(Progress::All);
            }
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

    /// Reads and encodes a page; false at the end of the list.
    async fn page(&mut self, is_long: bool) -> Result<bool, Error> {
        let parts = match &mut self.pages {
            Pages::Resources(pages) => {
                let Some(page) = self.list.next_page(&mut **pages).await? else { return Ok(false) };
                self.encode(page, is_long).await?;
                return Ok(true);
            }
            Pages::Copies(pages) => {
                self.list.release();
                pages.next().await.map_err(|fault| self.list.failed(&fault))?
            }
        };
        let Some(parts) = parts else { return Ok(false) };
        // Resources that follow each other are judged, upgraded and encoded together.
        let mut older = Vec::new();
        for part in parts {
            let piece = match part {
                CopiedPart::Older(resource) => {
                    older.push(resource);
                    continue;
                }
                CopiedPart::Fields(piece) => piece,
            };
            self.encode(std::mem::take(&mut older), is_long).await?;
            match self.list.has_same_rights() {
                true => self.add(piece, is_long),
                // The caller may have lost a permission since the list was opened.
                false => self.encode(resources_in(&piece)?, is_long).await?,
            }
        }
        self.encode(older, is_long).await?;
        Ok(true)
    }

    /// Encodes the readable resources of a page.
    async fn encode(&mut self, page: Vec<EncodedResource>, is_long: bool) -> Result<(), Error> {
        let mut readable = Vec::with_capacity(page.len());
        let keep = |resource| {
            readable.push(resource);
            Ok::<_, Error>(())
        };
        self.list.keep_readable(page, keep).await?;
        let mut writer = PieceWriter::new(RESOURCES_TAG);
        for resource in &readable {
            if let Some(piece) = writer.add(resource.bytes()) {
                self.add(piece, is_long);
            }
        }
        if let Some(piece) = writer.take() {
            self.add(piece, is_long);
        }
        Ok(())
    }

    /// Adds a piece. After each piece of a long list, threads that wait for its processor run first: the kernel would
    /// let this one run for milliseconds, at any niceness.
    fn add(&mut self, piece: Bytes, is_long: bool) {
        if planted::happens(Fault::ListLacksPiece) {
            return;
        }
        self.bytes += piece.len();
        self.pieces.push_back(piece);
        if is_long {
            thread::yield_now();
        }
    }
}

/// Returns the resources of a piece.
fn resources_in(piece: &Bytes) -> Result<Vec<EncodedResource>, EncodingError> {
    let mut resources = Vec::new();
    for field in wire::Cursor::new(piece) {
        if let Field { value: Value::Bytes(resource), .. } = field? {
            resources.push(EncodedResource::parse(piece.slice_ref(resource))?);
        }
    }
    Ok(resources)
}

#[cfg(test)]
#[path = "encoded_list_tests.rs"]
mod tests;
