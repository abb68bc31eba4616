//! The page of a search: of all that match, those next to a boundary, in order, within a number and a size.
//!
//! # Cost
//! A search tree of at most one more than the page has, whatever is offered.

use std::collections::BTreeMap;

use mortise_query::{Direction, PageToken, SortKey};
use mortise_resource::EncodedResource;

/// What was offered so far.
pub(super) struct Collector {
    size: usize,
    /// Bytes of the resources that are kept; the first one may be larger.
    bytes_limit: usize,
    token: Option<PageToken>,
    kept: BTreeMap<SortKey, EncodedResource>,
    bytes: usize,
    /// Whether something beyond the page was offered.
    more: bool,
    /// What was offered on the other side of the boundary.
    beyond: u64,
    /// Everything that was offered.
    offered: u64,
}

/// A page, in order.
pub(super) struct Page {
    pub(super) resources: Vec<EncodedResource>,
    /// The order of its first and its last resource; `None` when there is none.
    pub(super) ends: Option<(SortKey, SortKey)>,
    /// Whether more follows in the page's own direction.
    pub(super) more: bool,
    /// Resources before it.
    pub(super) offset: u64,
    /// Resources on all pages.
    pub(super) total: u64,
}

impl Collector {
    pub(super) fn new(size: usize, bytes_limit: usize, token: Option<PageToken>) -> Self {
        Self { size, bytes_limit, token, kept: BTreeMap::new(), bytes: 0, more: false, beyond: 0, offered: 0 }
    }

    fn direction(&self) -> Direction {
        self.token.as_ref().map_or(Direction::Right, |token| token.direction)
    }

    /// Takes a resource that matches, if it belongs to the page as far as is known.
    pub(super) fn offer(&mut self, key: SortKey, resource: EncodedResource) {
        self.offered += 1;
        if self.token.as_ref().is_some_and(|token| !token.admits(&key)) {
            self.beyond += 1;
            return;
        }
        self.bytes += resource.bytes().len();
        if let Some(replaced) = self.kept.insert(key, resource) {
            self.bytes -= replaced.bytes().len();
        }
        while self.kept.len() > self.size || (self.bytes > self.bytes_limit && self.kept.len() > 1) {
            let farthest = match self.direction() {
                Direction::Right => self.kept.pop_last(),
                Direction::Left => self.kept.pop_first(),
            };
            self.bytes -= farthest.map_or(0, |(_, resource)| resource.bytes().len());
            self.more = true;
        }
    }

    /// Whether nothing that comes later in ascending order can belong to the page.
    pub(super) fn is_full(&self) -> bool {
        self.more && matches!(self.direction(), Direction::Right)
    }

    /// Everything that was offered.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    pub(super) fn finish(self) -> Page {
        let within = self.offered - self.beyond;
        let offset = match self.direction() {
            Direction::Right => self.beyond,
            Direction::Left => within - self.kept.len() as u64,
        };
        let ends = self.kept.first_key_value().zip(self.kept.last_key_value());
        let ends = ends.map(|((first, _), (last, _))| (first.clone(), last.clone()));
        Page { ends, more: self.more, offset, total: self.offered, resources: self.kept.into_values().collect() }
    }
}
