//! The page of a search: of all matches, those next to a boundary, in order, within a number and a size.
//!
//! # Cost
//! A search tree of at most one entry more than the page, for any number of offered resources.

use std::collections::BTreeMap;

use mortise_query::{Direction, PageToken, SortKey};
use mortise_resource::EncodedResource;

/// The matches offered so far.
pub(super) struct Collector {
    size: usize,
    /// Bytes of the kept resources; the first alone may be larger.
    bytes_limit: usize,
    token: Option<PageToken>,
    kept: BTreeMap<SortKey, EncodedResource>,
    bytes: usize,
    /// First offered resource beyond the page. Farther ones do not belong to the page, however small they are.
    follower: Option<(SortKey, EncodedResource)>,
    /// Number of resources offered on the other side of the boundary.
    beyond: u64,
    /// Number of all offered resources.
    offered: u64,
}

/// A page, in order.
pub(crate) struct Page {
    pub(crate) resources: Vec<EncodedResource>,
    /// Keys of its first and its last resource; `None` for an empty page.
    pub(super) ends: Option<(SortKey, SortKey)>,
    /// First resource after the page, in the page's own direction.
    pub(super) follower: Option<(SortKey, EncodedResource)>,
    /// Number of resources before the page.
    pub(super) offset: u64,
    /// Number of resources on all pages.
    pub(crate) total: u64,
}

impl Collector {
    pub(super) fn new(size: usize, bytes_limit: usize, token: Option<PageToken>) -> Self {
        Self { size, bytes_limit, token, kept: BTreeMap::new(), bytes: 0, follower: None, beyond: 0, offered: 0 }
    }

    fn direction(&self) -> Direction {
        self.token.as_ref().map_or(Direction::Right, |token| token.direction)
    }

    /// Takes a match, if it may belong to the page.
    pub(super) fn offer(&mut self, key: SortKey, resource: EncodedResource) {
        self.offered += 1;
        if self.token.as_ref().is_some_and(|token| !token.admits(&key)) {
            self.beyond += 1;
            return;
        }
        let is_farther = self.follower.as_ref().is_some_and(|(follower, _)| match self.direction() {
            Direction::Right => key > *follower,
            Direction::Left => key < *follower,
        });
        if is_farther {
            return;
        }
        self.bytes += resource.bytes().len();
        if let Some(replaced) = self.kept.insert(key, resource) {
            self.bytes -= replaced.bytes().len();
        }
        while self.kept.len() > self.size || (self.bytes > self.bytes_limit && self.kept.len() > 1) {
            self.follower = match self.direction() {
                Direction::Right => self.kept.pop_last(),
                Direction::Left => self.kept.pop_first(),
            };
            self.bytes -= self.follower.as_ref().map_or(0, |(_, resource)| resource.bytes().len());
        }
    }

    /// Whether no later resource in ascending order can belong to the page.
    pub(super) fn is_full(&self) -> bool {
        self.follower.is_some() && matches!(self.direction(), Direction::Right)
    }

    /// Whether no resource behind a position, in ascending order, can belong to the page.
    pub(super) fn is_full_at(&self, position: &SortKey) -> bool {
        matches!(self.direction(), Direction::Right) && self.is_complete_at(position)
    }

    /// Returns the key of the page's last resource, in its own direction, if there are more than fit.
    pub(super) fn edge(&self) -> Option<&SortKey> {
        self.follower.as_ref()?;
        let edge = match self.direction() {
            Direction::Right => self.kept.last_key_value(),
            Direction::Left => self.kept.first_key_value(),
        };
        edge.map(|(key, _)| key)
    }

    /// Whether no resource behind a position, in the page's direction, can belong to the page.
    pub(super) fn is_complete_at(&self, position: &SortKey) -> bool {
        self.edge().is_some_and(|edge| match self.direction() {
            Direction::Right => edge <= position,
            Direction::Left => edge >= position,
        })
    }

    /// Returns the number of all offered resources.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    pub(crate) fn finish(self) -> Page {
        let within = self.offered - self.beyond;
        let offset = match self.direction() {
            Direction::Right => self.beyond,
            Direction::Left => within - self.kept.len() as u64,
        };
        let ends = self.kept.first_key_value().zip(self.kept.last_key_value());
        let ends = ends.map(|((first, _), (last, _))| (first.clone(), last.clone()));
        Page {
            ends,
            follower: self.follower,
            offset,
            total: self.offered,
            resources: self.kept.into_values().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use mortise_query::{Candidate, OrderBy, Schema};
    use mortise_resource::pb;

    use super::*;

    /// Pages bounded in bytes, one after another, have every resource once, in any order of offers.
    #[test]
    fn what_does_not_fit_is_on_the_next_page() {
        let mut random = fastrand::Rng::with_seed(20);
        let schema = Schema::new(None);
        let order = OrderBy::parse("", &schema).unwrap();
        let mut pages = 0;
        for _ in 0..2_000 {
            let mut offered: Vec<_> = (0..random.usize(1..12))
                .map(|n| {
                    let resource = pb::Resource {
                        id: Some(pb::Id { name: format!("r{n:02}"), ..pb::Id::default() }),
                        generation: "g".repeat(random.usize(..100)),
                        ..pb::Resource::default()
                    };
                    EncodedResource::encode(&resource).unwrap()
                })
                .collect();
            let sorted: Vec<_> = offered.iter().map(|resource| resource.name().to_owned()).collect();
            let (size, bytes) = (random.usize(1..6), random.usize(50..200));
            let mut token = None;
            let mut found = Vec::new();
            loop {
                random.shuffle(&mut offered);
                let mut collector = Collector::new(size, bytes, token);
                for resource in &offered {
                    let key = order.key(&Candidate::new(resource, &schema)).unwrap();
                    collector.offer(key, resource.clone());
                }
                let page = collector.finish();
                pages += 1;
                let names = page.resources.iter().map(|resource| resource.name().to_owned());
                found.extend(names);
                if page.follower.is_none() {
                    break;
                }
                token = page.ends.map(|(_, last)| PageToken::after(last));
            }
            assert_eq!(found, sorted);
        }
        assert!(pages > 4_000, "{pages}");
    }
}
