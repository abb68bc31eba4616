//! Search: resources of a type by filter, selector and order, a page at a time.
//!
//! # Limits
//! A page has at most [`PAGE_BYTES`] of resources, and may therefore have fewer of them than requested; a single
//! resource may be larger. A search reads at most `service.search_resources`, and takes at most `service.search_ms`,
//! checked between two resources. The kept resources count against `service.list_bytes`.
//!
//! # Cost
//! A page in the order of lists ends when it is full; any other order, and the counts, read everything that may match.
//! Candidates after the first [`FOREGROUND_PAGES`] pages are read at low priority, as in long lists. A hook's search
//! reads at most [`MAX_HOOK_RESOURCES`], and never waits for a place.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use mortise_query::{Candidate, Direction, PageToken, SortKey};
use mortise_resource::{
    Code, EncodedResource, Error,
    data::{QueryPlan, SearchRequest, SearchResponse},
    resource_meta,
};
use tracing::Instrument as _;

use super::{
    access::{self, Candidates},
    collect::{Collector, Page},
    compile::{Search, project},
    past::{Past, resume_token},
    queries::Queries,
    walk::FieldWalk,
};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    lists::FOREGROUND_PAGES,
    rules::RequestHooks,
};

/// Bytes of the resources of one page.
pub(super) const PAGE_BYTES: usize = 3 << 20;
/// Bytes of a page of a hook's search, which fails if others hold all shared bytes.
const HOOK_PAGE_BYTES: usize = 512 << 10;
/// Resources, or index entries, that a hook's search reads at most.
const MAX_HOOK_RESOURCES: usize = 2_048;

impl Queries {
    /// Returns one page of the matches that the caller may read.
    ///
    /// # Errors
    /// Those of a search ([`crate::ResourceService::search`]).
    pub(crate) async fn search(&self, caller: &Caller, request: SearchRequest) -> Result<SearchResponse, Error> {
        let begun = Instant::now();
        let search = Search::compile(caller, &self.core.types(), request).await?;
        let within_hook = caller.hook_of.is_some();
        let page_bytes = if within_hook { HOOK_PAGE_BYTES } else { PAGE_BYTES };
        let room = self.lists.bytes.total().min(page_bytes);
        let share = match within_hook {
            true => self.lists.bytes.try_acquire(caller.queue_key(), room).ok_or_else(no_room_for_a_hook)?,
            false => self.lists.bytes_for(caller, room).await?,
        };
        // Before the first read.
        let past = self.past(caller, &search).await?;
        let candidates = access::choose(self, &search, within_hook).await;
        let candidates = candidates.map_err(|e| store_fault("failed search", &e))?;
        let ordered = candidates.in_order && search.is_by_name();
        let mut reading = SearchReader {
            core: self.core.clone(),
            hooks: RequestHooks::new(search.kind.clone(), caller),
            collector: Collector::new(search.page_size, page_bytes, search.token.clone()),
            page_bytes,
            ends_early: ordered && !search.counts,
            most: if within_hook { MAX_HOOK_RESOURCES } else { self.core.options.search_resources },
            within_hook,
            scanned: 0,
            given_up: 0,
            decoded: 0,
            offered: HashSet::new(),
            past,
            begun,
            candidates,
            search,
        };
        if !reading.pages(if within_hook { usize::MAX } else { FOREGROUND_PAGES }).await? {
            let rest = async move { reading.pages(usize::MAX).await.map(|_| reading) };
            let read = self.lists.low_priority.run(rest.in_current_span()).await;
            reading = read.ok_or_else(|| Error::internal("failed search: its task panicked"))??;
        }
        let SearchReader { search, candidates, collector, scanned, given_up, decoded, past, .. } = reading;
        let scanned = scanned.saturating_add(given_up);
        let is_in_order = candidates.as_walk().is_some_and(FieldWalk::is_in_order);
        // The counts include resources that a caller with rules may not know of.
        let [scanned, decoded] = if caller.authorizer.allows_all() { [scanned, decoded] } else { [0, 0] };
        let plan = search.explains.then(|| QueryPlan {
            access: candidates.access.into(),
            keys: candidates.keys,
            scanned,
            decoded,
            matched: count(collector.offered()),
            sorted: !ordered && !is_in_order,
            duration_us: i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX),
        });
        let mut answer = answer(&search, collector.finish(), plan)?;
        if let Some(past) = past {
            answer.at = past.position().sequence.to_string();
            answer.resume_token = resume_token(caller, &search, past.position());
            if !answer.next_page_token.is_empty() || !answer.prev_page_token.is_empty() {
                self.keep(caller, &search, &past);
            }
        }
        drop(share);
        Ok(answer)
    }
}

/// A search in progress.
struct SearchReader {
    core: Core,
    search: Search,
    hooks: RequestHooks,
    candidates: Candidates,
    collector: Collector,
    page_bytes: usize,
    /// Whether the search ends with a full page.
    ends_early: bool,
    /// Limit of the resources that it reads.
    most: usize,
    within_hook: bool,
    scanned: i64,
    /// Resources read by a walk that gave up.
    given_up: i64,
    decoded: i64,
    /// Places of the offered resources, if a resource may come twice: a walk finds it at another key, or it is
    /// overwritten after the page.
    offered: HashSet<[String; 3]>,
    /// The content that the search answers from.
    past: Option<Past>,
    begun: Instant,
}

impl SearchReader {
    /// Reads at most `most` pages of candidates. Returns whether the end was reached.
    async fn pages(&mut self, most: usize) -> Result<bool, Error> {
        for _ in 0..most {
            self.hooks.release();
            let page = self.candidates.next(&*self.core.backend).await;
            let page = page.map_err(|e| store_fault("failed search", &e))?;
            if std::mem::take(&mut self.candidates.restarted) {
                let SearchReader { search, page_bytes, .. } = self;
                self.collector = Collector::new(search.page_size, *page_bytes, search.token.clone());
                // A walk that gave up does not bring the limit nearer.
                (self.given_up, self.scanned) = (self.scanned, 0);
                self.offered.clear();
                self.past.as_mut().into_iter().for_each(Past::look_again);
            }
            // After the read, also the last one: each resource that was overwritten by then counts as it was.
            let overwritten = self.past.as_mut().map_or(Ok(Vec::new()), Past::look)?;
            let read = overwritten.len() + page.as_ref().map_or(0, Vec::len);
            self.scanned = self.scanned.saturating_add_unsigned(read as u64);
            if usize::try_from(self.scanned).is_ok_and(|scanned| scanned > self.most) {
                return Err(if self.within_hook { too_many_for_a_hook() } else { too_many(self.most) });
            }
            // A page of places that are looked up in all namespaces may be empty.
            self.check_time()?;
            for resource in overwritten {
                self.check_time()?;
                self.look_at(resource).await?;
            }
            let Some(page) = page else { return Ok(true) };
            for resource in page {
                self.check_time()?;
                if self.past.as_ref().is_some_and(|past| past.is_overwritten(&resource)) {
                    continue;
                }
                let position = self.look_at(resource).await?;
                let is_full = match &self.past {
                    None => self.collector.is_full(),
                    // Overwritten resources come in any order.
                    Some(_) => position.as_ref().is_some_and(|position| self.collector.is_full_at(position)),
                };
                if self.ends_early && is_full {
                    return Ok(true);
                }
                if let (Some(walk), Some(position)) = (self.candidates.as_walk(), &position)
                    && walk.is_complete_at(position, &self.collector)
                {
                    return Ok(true);
                }
            }
            if self.candidates.as_walk().is_some_and(|walk| walk.is_complete(&self.collector)) {
                return Ok(true);
            }
            tokio::task::yield_now().await;
        }
        Ok(false)
    }

    fn check_time(&self) -> Result<(), Error> {
        let most = self.core.options.search_time;
        if self.begun.elapsed() > most { Err(too_long(most)) } else { Ok(()) }
    }

    /// Offers a resource if it matches. Returns its position if the end of the search depends on it.
    async fn look_at(&mut self, resource: EncodedResource) -> Result<Option<SortKey>, Error> {
        if !resource.has_type(&self.search.kind.gvk) {
            return Ok(None);
        }
        self.hooks.next_item();
        let resource = complete(self.hooks.upgraded(resource).await?)?;
        let looked = {
            let candidate = Candidate::new(&resource, &self.search.schema);
            let key = self.search.matches(&candidate).and_then(|matches| match matches {
                true => self.search.order.key(&candidate).map(Some),
                false => Ok(None),
            });
            self.decoded += i64::from(candidate.is_decoded());
            key
        };
        match looked {
            Ok(Some(key)) => {
                let is_walk = self.candidates.as_walk().is_some();
                let position = (is_walk || (self.ends_early && self.past.is_some())).then(|| key.clone());
                let may_come_again = is_walk || (self.search.counts && self.past.is_some());
                if self.hooks.may_read(&resource).await? {
                    let place = || [resource.partition(), resource.namespace(), resource.name()].map(str::to_owned);
                    if !may_come_again || self.offered.insert(place()) {
                        self.collector.offer(key, resource);
                    }
                }
                Ok(position)
            }
            Ok(None) => Ok(None),
            // A resource that cannot be decoded does not hide the others.
            Err(error) => {
                tracing::warn!(name = resource.name(), %error, "a search skips a resource");
                Ok(None)
            }
        }
    }
}

/// Returns the resource with the server's part of its meta, which resources stored by early versions lack.
pub(crate) fn complete(resource: EncodedResource) -> Result<EncodedResource, Error> {
    if resource.has_meta() {
        return Ok(resource);
    }
    let mut whole = resource.decode()?;
    resource_meta::complete_server_part(&mut whole);
    Ok(EncodedResource::encode(&whole)?)
}

fn answer(search: &Search, page: Page, plan: Option<QueryPlan>) -> Result<SearchResponse, Error> {
    let Page { resources, ends, follower, offset, total } = page;
    let more = follower.is_some();
    let encode = |token: PageToken| token.encode(&search.binding);
    let (prev, next) = match (&search.token, ends) {
        (None, ends) => (None, ends.filter(|_| more).map(|(_, last)| PageToken::after(last))),
        (Some(token), ends) if token.direction == Direction::Right => {
            (Some(token.flipped()), ends.filter(|_| more).map(|(_, last)| PageToken::after(last)))
        }
        // The previous page ends before the first resource of this page.
        (Some(token), ends) => {
            let before = ends.filter(|_| more).map(|(first, _)| PageToken {
                direction: Direction::Left,
                is_inclusive: false,
                boundary: first,
            });
            (before, Some(token.flipped()))
        }
    };
    let shown = |resource: EncodedResource| project(&search.mask, resource.decode()?);
    Ok(SearchResponse {
        resources: resources.into_iter().map(shown).collect::<Result<_, _>>()?,
        prev_page_token: prev.map(encode).unwrap_or_default(),
        next_page_token: next.map(encode).unwrap_or_default(),
        current_offset: if search.counts { i32::try_from(offset).unwrap_or(i32::MAX) } else { 0 },
        total_results_count: if search.counts { i32::try_from(total).unwrap_or(i32::MAX) } else { 0 },
        plan,
        ..SearchResponse::default()
    })
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn no_room_for_a_hook() -> Error {
    let text = "other lists hold all of service.list_bytes, and a search of a hook does not wait; try again";
    Error::new(Code::ResourceExhausted, text)
}

fn too_many_for_a_hook() -> Error {
    Error::new(
        Code::ResourceExhausted,
        format!(
            "the search of a hook looks at more than {MAX_HOOK_RESOURCES} resources; narrow it by a parent, a tenancy, a \
             label, or a field that the type declares an index of"
        ),
    )
}

pub(super) fn too_long(limit: Duration) -> Error {
    Error::new(
        Code::DeadlineExceeded,
        format!(
            "the search took longer than {} ms (limit service.search_ms); narrow it by a parent, a tenancy, or a label",
            limit.as_millis()
        ),
    )
}

pub(super) fn too_many(limit: usize) -> Error {
    Error::new(
        Code::ResourceExhausted,
        format!(
            "the search looks at more than {limit} resources (limit service.search_resources); narrow it by a parent, a \
             tenancy, or a label"
        ),
    )
}
