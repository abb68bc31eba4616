//! STATEFUL: a page in its order, with positions. The watch ends with the connection.
//!
//! The page is read as of one commit, and every later change is applied to it. If a change lets in an unknown row, or
//! the reader was too slow, the page is read again, and the client gets the difference.

use std::{collections::VecDeque, time::Duration};

use mortise_query::{Direction, PageToken};
use mortise_resource::{
    Code, EncodedResource, Error,
    data::{ResourceChange, WatchResourcesResponse, resource_change::*, watch_resources_response::PageTokenChange},
    pb,
};
use mortise_store::{ChangeEvent, ChangeStep, ChangeWatch, ListKey, OpenedChanges, StoreError};
use prost::Message as _;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};

use super::{
    page_view::{Effect, NextRow, PageBounds, PageStep, PageView, Row},
    session::{CHUNK_BYTES, Session, Visible, message},
};
use crate::{
    call::{Share, store_fault::ended},
    core::durations::MIN_PAGE_READ_INTERVAL,
    lists::YIELD_INTERVAL_CHANGES,
    query::{
        collect::{Collector, Page},
        compile::undecodable,
        queries::TOTAL_VIEW_BYTES,
        search::{PAGE_BYTES, too_long, too_many},
    },
};

/// Approximate bytes of a row besides its key and id.
const ROW_OVERHEAD_BYTES: usize = 192;

/// A watch of a page.
pub(super) struct Stateful {
    session: Session,
    /// Changes of a message; 0 for all changes that belong together.
    chunk: usize,
    view: PageView,
    /// Share of the bytes for the pages of all watches.
    room: Option<OwnedSemaphorePermit>,
    /// `None` if the page has to be read.
    changes: Option<Box<dyn ChangeWatch>>,
    /// Earliest time of the next read.
    not_before: Instant,
    /// Time of the last read, for which the caller has not paid.
    owed: Option<Duration>,
    /// Page tokens that the client has.
    tokens: Option<PageTokenChange>,
    /// Changes of a commit whose rest is in the next read.
    part: Vec<ResourceChange>,
    /// Unsent messages that belong together.
    unsent: VecDeque<WatchResourcesResponse>,
    /// Share of a page that the client has not yet taken.
    page: Option<Share>,
}

impl Stateful {
    pub(super) fn new(session: Session, chunk: usize) -> Self {
        let view = PageView::empty(bounds(&session));
        let not_before = Instant::now();
        let unsent = VecDeque::new();
        Self {
            session,
            chunk,
            view,
            room: None,
            changes: None,
            not_before,
            owed: None,
            tokens: None,
            part: Vec::new(),
            unsent,
            page: None,
        }
    }

    /// Waits for the next message.
    pub(super) async fn next(&mut self) -> Result<WatchResourcesResponse, Error> {
        loop {
            if let Some(message) = self.unsent.pop_front() {
                return Ok(message);
            }
            // A client that asks for more has taken the page.
            self.page = None;
            if self.session.renew().await? {
                self.changes = None;
            }
            let changes = match self.changes.take() {
                None => {
                    let rest = self.read().await?;
                    let mut changes = std::mem::take(&mut self.part);
                    changes.extend(rest);
                    changes
                }
                Some(changes) => self.follow(changes).await?,
            };
            self.put(changes);
        }
    }

    /// Reads the page, and returns the difference.
    async fn read(&mut self) -> Result<Vec<ResourceChange>, Error> {
        self.session.until(sleep_until(self.not_before)).await?;
        // The bytes of lists bound the first page, as they bound a search.
        if let Some(owed) = self.owed.take() {
            self.session.turn().await?.pay(owed);
        }
        let begun = Instant::now();
        let (lists, queue_key) = (self.session.queries.lists.clone(), self.session.open.caller().queue_key());
        let bytes = lists.bytes.total().min(PAGE_BYTES);
        let page = self.session.until(lists.bytes.acquire(queue_key, bytes)).await?.map_err(|e| lists.no_room(e))?;
        self.page = Some(page);
        let (query, part, terms) = self.session.part();
        let opened =
            self.session.queries.core.backend.open_changes(&query, &part, &terms).await.map_err(|e| ended(&e))?;
        let OpenedChanges { mut content, changes, .. } = opened;
        let search = &self.session.search;
        let ends_early = search.is_by_name();
        let mut collector = Collector::new(search.page_size, PAGE_BYTES, search.token.clone());
        let (mut read, mut scanned) = (0, 0_usize);
        let (limit, time) =
            (self.session.queries.core.options.search_resources, self.session.queries.core.options.search_time);
        'pages: while let Some(page) = self.session.page(&mut *content, read).await? {
            read += 1;
            scanned += page.len();
            if scanned > limit {
                return Err(too_many(limit));
            }
            let mut hooks = self.session.hooks();
            for resource in page {
                if begun.elapsed() > time {
                    return Err(too_long(time));
                }
                if let Some(Visible { key, resource }) = self.session.visible(&mut hooks, &resource).await? {
                    collector.offer(key, resource);
                }
                if ends_early && collector.is_full() {
                    break 'pages;
                }
            }
            drop(hooks);
            tokio::task::yield_now().await;
        }
        let Page { resources, follower, .. } = collector.finish();
        let follower = follower.map(|(key, resource)| NextRow { key, place: list_key(&resource) });
        let mut rows = Vec::with_capacity(resources.len());
        let mut shown = Vec::with_capacity(resources.len());
        for resource in resources {
            let (row, resource) = self.row(resource)?;
            rows.push(row);
            shown.push(resource);
        }
        let steps = self.view.become_page(rows, follower);
        self.reserve()?;
        self.changes = Some(changes);
        // Others have their turn for as long as the read took.
        self.owed = Some(begun.elapsed());
        self.not_before = Instant::now() + begun.elapsed().max(MIN_PAGE_READ_INTERVAL);
        let resource = |index: usize| shown.get(index).cloned();
        Ok(steps.into_iter().map(|step| self.change_of(step, &resource)).collect())
    }

    /// Waits for changes, and applies them up to one that requires a new read.
    async fn follow(&mut self, mut changes: Box<dyn ChangeWatch>) -> Result<Vec<ResourceChange>, Error> {
        let mut next = match self.session.until(changes.next()).await? {
            Ok(ChangeStep::Change(change)) => Some(change),
            Ok(ChangeStep::CaughtUp(_)) => None,
            Err(error) => return lost(&error),
        };
        let turn = self.session.turn().await?;
        if self.session.renew().await? {
            return Ok(Vec::new());
        }
        let mut delivered = Vec::new();
        // Number of the delivered changes up to the last whole commit.
        let mut whole = 0;
        let mut bytes = 0;
        let mut looked_at = 0;
        while let Some(change) = next.take() {
            match self.apply(&change).await? {
                None => return Ok(self.keep_part(delivered, whole)),
                Some(steps) => delivered.extend(steps.into_iter().inspect(|step| bytes += step.encoded_len())),
            }
            looked_at += 1;
            let is_full = bytes >= CHUNK_BYTES;
            if change.more && is_full {
                // A new read of the page costs less memory than the rest of the commit.
                return Ok(self.keep_part(delivered, whole));
            }
            if !change.more {
                whole = delivered.len();
            }
            if change.more || (looked_at < YIELD_INTERVAL_CHANGES && !is_full && !turn.is_over()) {
                next = match changes.ready() {
                    Ok(next) => next,
                    Err(error) => return lost(&error).map(|_| self.keep_part(delivered, whole)),
                };
            }
        }
        self.reserve()?;
        self.changes = Some(changes);
        Ok(delivered)
    }

    /// Keeps the changes behind the last whole commit for the next read, and returns the others.
    fn keep_part(&mut self, mut delivered: Vec<ResourceChange>, whole: usize) -> Vec<ResourceChange> {
        self.part = delivered.split_off(whole);
        delivered
    }

    /// Applies a change; `None` if the page has to be read again.
    async fn apply(&mut self, change: &ChangeEvent) -> Result<Option<Vec<ResourceChange>>, Error> {
        let visible = {
            let mut hooks = self.session.hooks();
            match &change.now {
                Some(now) => self.session.visible(&mut hooks, now).await?,
                None => None,
            }
        };
        let now = visible.map(|visible| self.row_of(visible)).transpose()?;
        let (row, shown) = now.unzip();
        let place = match (&row, &change.now, &change.before) {
            (Some(row), ..) => row.place.clone(),
            (None, Some(resource), _) | (None, None, mortise_store::PriorState::Resource(resource)) => {
                list_key(resource)
            }
            (None, None, _) => return Ok(Some(Vec::new())),
        };
        Ok(match self.view.apply(&place, row) {
            Effect::Reread => None,
            Effect::Steps(steps) => {
                Some(steps.into_iter().map(|step| self.change_of(step, &|_| shown.clone())).collect())
            }
        })
    }

    fn row(&self, resource: EncodedResource) -> Result<(Row, pb::Resource), Error> {
        let key = {
            let candidate = mortise_query::Candidate::new(&resource, &self.session.search.schema);
            self.session.search.order.key(&candidate)
        };
        let id = resource.decode_id()?.unwrap_or_default();
        let key = key.map_err(|e| undecodable(&id, &e))?;
        self.row_of(Visible { key, resource })
    }

    /// Returns the row of a resource, and the shown part.
    fn row_of(&self, Visible { key, resource }: Visible) -> Result<(Row, pb::Resource), Error> {
        let shown = self.session.shown(&resource)?;
        let place = list_key(&resource);
        let kept = key.encode().len() + place.partition.len() + place.namespace.len() + place.name.len();
        let row = Row {
            key,
            place,
            kept: ROW_OVERHEAD_BYTES + kept,
            uid: resource.id().uid.to_owned(),
            shown: hash(&shown.encode_to_vec()),
            bytes: resource.bytes().len(),
        };
        Ok((row, shown))
    }

    /// Returns a step as a change for the client.
    fn change_of(&self, step: PageStep, shown: &dyn Fn(usize) -> Option<pb::Resource>) -> ResourceChange {
        let index = |index: usize| i32::try_from(index).unwrap_or(i32::MAX);
        let change = match step {
            PageStep::Added(position) => {
                ChangeType::Added(Added { resource: shown(position), view_index: index(position) })
            }
            PageStep::Modified(from, to) => {
                let resource = shown(to);
                ChangeType::Modified(Modified {
                    name: resource.as_ref().and_then(|resource| resource.id.clone()),
                    resource,
                    field_mask: self.session.mask(),
                    previous_view_index: index(from),
                    view_index: index(to),
                })
            }
            PageStep::Removed(position, ListKey { partition, namespace, name }, uid) => {
                let id = pb::Id {
                    uid,
                    name,
                    r#type: Some(self.session.search.kind.gvk.to_pb()),
                    tenancy: Some(pb::Tenancy { partition, namespace }),
                };
                ChangeType::Removed(Removed { name: Some(id), view_index: index(position) })
            }
        };
        ResourceChange { change_type: Some(change) }
    }

    /// Makes messages from changes that belong together, if they have any content.
    fn put(&mut self, changes: Vec<ResourceChange>) {
        let tokens = self.page_tokens();
        let are_new = self.tokens.as_ref() != Some(&tokens);
        if changes.is_empty() && !are_new {
            return;
        }
        let size = if self.chunk == 0 { usize::MAX } else { self.chunk };
        let mut changes = changes.into_iter().peekable();
        loop {
            let part: Vec<_> = changes.by_ref().take(size).collect();
            let is_current = changes.peek().is_none();
            let page_token_change = (is_current && are_new).then(|| tokens.clone());
            let message = WatchResourcesResponse { changes: part, is_current, page_token_change, ..message() };
            self.unsent.push_back(message);
            if is_current {
                break;
            }
        }
        self.tokens = Some(tokens);
    }

    /// Returns the tokens of a search that shows this page.
    fn page_tokens(&self) -> PageTokenChange {
        let search = &self.session.search;
        let more = |key: Option<&mortise_query::SortKey>| key.filter(|_| self.view.more()).cloned();
        let (prev, next) = match &search.token {
            Some(token) if token.direction == Direction::Left => {
                let before = more(self.view.first()).map(|boundary| PageToken {
                    direction: Direction::Left,
                    is_inclusive: false,
                    boundary,
                });
                (before, Some(token.flipped()))
            }
            token => (token.as_ref().map(PageToken::flipped), more(self.view.last()).map(PageToken::after)),
        };
        let encode = |token: Option<PageToken>| token.map(|token| token.encode(&search.binding)).unwrap_or_default();
        PageTokenChange { prev_page_token: encode(prev), next_page_token: encode(next) }
    }

    /// Takes more bytes for the page from those of all watches, if necessary.
    fn reserve(&mut self) -> Result<(), Error> {
        let kib = u32::try_from(self.view.kept().div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let has = self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if usize::try_from(kib).is_ok_and(|kib| kib <= has) {
            return Ok(());
        }
        self.room = None;
        let room = self.session.queries.views.clone().try_acquire_many_owned(kib).map_err(|_| {
            Error::new(
                Code::ResourceExhausted,
                format!(
                    "the pages of watches take {} MiB already; ask for smaller pages, order by something shorter, or watch \
                     without an order (STATELESS)",
                    TOTAL_VIEW_BYTES >> 20
                ),
            )
        })?;
        self.room = Some(room);
        Ok(())
    }
}

/// Returns an error that ends the watch, or nothing if the page has to be read again.
fn lost(error: &StoreError) -> Result<Vec<ResourceChange>, Error> {
    match error {
        StoreError::WatchLagged { .. } | StoreError::WatchClosed => Ok(Vec::new()),
        other => Err(ended(other)),
    }
}

fn bounds(session: &Session) -> PageBounds {
    let search = &session.search;
    PageBounds { size: search.page_size, bytes: PAGE_BYTES, token: search.token.clone() }
}

fn list_key(resource: &EncodedResource) -> ListKey {
    let id = resource.id();
    ListKey { partition: id.partition.to_owned(), namespace: id.namespace.to_owned(), name: id.name.to_owned() }
}

/// Hashes the shown part. Hashes are compared within one watch only.
fn hash(bytes: &[u8]) -> u64 {
    use std::{
        hash::{BuildHasher as _, RandomState},
        sync::LazyLock,
    };
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(bytes)
}
