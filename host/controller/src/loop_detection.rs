//! Detection of controllers that wake themselves for ever.
//!
//! A reconcile that writes without comparing wakes itself through its own write, at full speed. So each item in a queue
//! carries the length of the chain that led to it: 0 for a cause outside; n+1 for a write of a reconcile with chain n
//! of this controller. The chain may go through one key, through several keys that wake each other, or through a mapper
//! that writes. A reconcile that asks to be called again at once is a link of a chain as well. Merged items keep the
//! shortest chain: work that spreads over many resources and settles stays short, while in a loop without changes from
//! outside even the shortest chain grows. Timers of a second and more do not count as causes. A key whose chain is over
//! the limit waits ([`crate::Definition::self_wake_limit`]) until its wait is over or a change from outside wakes it.
//!
//! # How a write is recognised
//! The code that writes for a reconciler calls [`crate::Context::wrote`] with the stored version, before the reconcile
//! returns. The event may arrive before that call; an event of an unknown version is therefore kept open, and judged
//! when the item's turn comes: by then the writing reconcile is over. (With several keys in parallel, a woken key may
//! be judged too early: its chain then starts from 0 again, and the loop is found a little later.)
//!
//! # Limits
//! The last [`MAX_REMEMBERED_WRITES`] writes of a controller are known, as 64-bit marks. [`MAX_OPEN_EVENTS`] events of
//! an item are kept open; when there are more, those known by then are judged. Events beyond these bounds count as from
//! outside, so that an error here makes a loop fast but never makes a healthy key slow.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use mortise_resource::{EncodedResource, IdRef, pb};
use parking_lot::Mutex;

use crate::key::text_of;

/// Most remembered writes of a controller. An event is at most as late as a watch may lag.
const MAX_REMEMBERED_WRITES: usize = 16_384;

/// Most open events of an item.
const MAX_OPEN_EVENTS: usize = 64;

/// The cause of an item in a queue; the default is that of a timer, without a chain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// Length of the shortest known chain; `None` while no chain is known.
    chain: Option<u32>,
    /// Marks of open events, which may turn out to be own writes.
    open: Vec<u64>,
    /// The writes that decide the open events; `None` without open events.
    writes: Option<Arc<OwnWrites>>,
}

impl Cause {
    /// A change from outside.
    pub(crate) fn from_outside() -> Self {
        Self { chain: Some(0), ..Self::default() }
    }

    /// The next link of a chain of this length, for a reconcile that asks to be called again.
    pub(crate) fn next_link(chain: u32) -> Self {
        Self { chain: Some(chain.saturating_add(1)), ..Self::default() }
    }

    /// Merges the cause of an item that is merged into this one.
    pub(crate) fn merge(&mut self, other: Self) {
        self.chain = shorter(self.chain, other.chain);
        self.open.extend(other.open);
        self.writes = self.writes.take().or(other.writes);
        if self.open.len() > MAX_OPEN_EVENTS
            && let Some(writes) = self.writes.clone()
        {
            // When a reconcile writes much for one key, such as an owner's children, all but its last write is known by
            // now.
            writes.judge_known(self);
            if self.open.len() > MAX_OPEN_EVENTS {
                *self = Self::from_outside();
            }
        }
        if self.chain == Some(0) {
            self.open = Vec::new();
        }
    }
}

/// The shorter of two chains, of which one or both may be unknown.
fn shorter(left: Option<u32>, other: Option<u32>) -> Option<u32> {
    left.into_iter().chain(other).min()
}

/// The recent writes of one controller's reconciles.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    hasher: RandomState,
    known: Mutex<KnownWrites>,
}

#[derive(Debug, Default)]
struct KnownWrites {
    chains: HashMap<u64, u32>,
    order: VecDeque<u64>,
}

impl OwnWrites {
    /// Records that a reconcile with this chain stored a resource in this version.
    pub(crate) fn wrote(&self, id: &pb::Id, version: &str, chain: u32) {
        self.remember(self.mark(id.into(), Change::Stored(version)), chain);
    }

    /// Records that a reconcile with this chain deleted a resource.
    pub(crate) fn deleted(&self, id: &pb::Id, chain: u32) {
        self.remember(self.mark(id.into(), Change::Deleted(&id.uid)), chain);
    }

    /// The cause of an item that an event adds.
    pub(crate) fn cause_of(self: &Arc<Self>, resource: &EncodedResource, deleted: bool) -> Cause {
        let change = if deleted { Change::Deleted(resource.uid()) } else { Change::Stored(resource.version()) };
        let mark = self.mark(resource.id(), change);
        match self.known.lock().chains.get(&mark) {
            Some(chain) => Cause::next_link(*chain),
            None => Cause { open: vec![mark], writes: Some(self.clone()), ..Cause::default() },
        }
    }

    /// The known length of the chain; open events stay open.
    pub(crate) fn known_length(&self, cause: &Cause) -> u32 {
        let known = self.known.lock();
        let length = |mark| known.chains.get(mark).map_or(0, |chain: &u32| chain.saturating_add(1));
        cause.chain.into_iter().chain(cause.open.iter().map(length)).min().unwrap_or(0)
    }

    /// Judges the events that are known to be own writes; the others stay open.
    fn judge_known(&self, cause: &mut Cause) {
        let known = self.known.lock();
        let Cause { chain, open, .. } = cause;
        open.retain(|mark| match known.chains.get(mark) {
            Some(link) => {
                *chain = shorter(*chain, Some(link.saturating_add(1)));
                false
            }
            None => true,
        });
    }

    /// Judges the open events, and returns the length of the chain.
    pub(crate) fn chain_length(&self, cause: &mut Cause) -> u32 {
        if !cause.open.is_empty() {
            let known = self.known.lock();
            for mark in std::mem::take(&mut cause.open) {
                let chain = known.chains.get(&mark).map_or(0, |chain| chain.saturating_add(1));
                cause.chain = shorter(cause.chain, Some(chain));
            }
        }
        cause.chain.unwrap_or(0)
    }

    fn mark(&self, id: IdRef<'_>, change: Change<'_>) -> u64 {
        self.hasher.hash_one((id.group, id.kind, text_of(id), change))
    }

    fn remember(&self, mark: u64, chain: u32) {
        let mut known = self.known.lock();
        if known.chains.insert(mark, chain).is_none() {
            known.order.push_back(mark);
        }
        if known.order.len() > MAX_REMEMBERED_WRITES
            && let Some(oldest) = known.order.pop_front()
        {
            known.chains.remove(&oldest);
        }
    }
}

/// A change of a resource.
#[derive(Hash)]
enum Change<'a> {
    /// Stored in this version.
    Stored(&'a str),
    /// This incarnation was deleted.
    Deleted(&'a str),
}

#[cfg(test)]
#[cfg(not(simulation))]
mod tests {
    use super::*;

    fn id(name: &str) -> pb::Id {
        pb::Id { name: name.into(), ..pb::Id::default() }
    }

    fn resource(name: &str, version: &str) -> EncodedResource {
        let resource = pb::Resource { id: Some(id(name)), version: version.into(), ..pb::Resource::default() };
        EncodedResource::encode(&resource).unwrap()
    }

    #[test]
    fn an_event_of_an_own_write_makes_the_chain_longer_whichever_comes_first() {
        let writes = Arc::<OwnWrites>::default();
        let (early, late) = (resource("a", "1"), resource("a", "2"));
        let mut before = writes.cause_of(&early, false);
        for r in [&early, &late] {
            writes.wrote(&id("a"), r.version(), 4);
        }
        assert_eq!(writes.chain_length(&mut before), 5);
        assert_eq!(writes.chain_length(&mut writes.cause_of(&late, false)), 5);
        assert_eq!(writes.chain_length(&mut writes.cause_of(&late, true)), 0, "another client deleted it");
    }

    #[test]
    fn merged_causes_keep_the_shortest_chain_and_timers_have_none() {
        let writes = Arc::<OwnWrites>::default();
        let own = |version: &str, chain| {
            let r = resource("a", version);
            writes.wrote(&id("a"), version, chain);
            writes.cause_of(&r, false)
        };
        let mut cause = own("1", 8);
        cause.merge(own("2", 3));
        cause.merge(Cause::default());
        assert_eq!(writes.chain_length(&mut cause.clone()), 4);
        cause.merge(writes.cause_of(&resource("a", "3"), false));
        assert_eq!(writes.chain_length(&mut cause), 0, "version 3 is not an own write");
        assert_eq!(writes.chain_length(&mut Cause::default()), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let writes = Arc::<OwnWrites>::default();
        let id = pb::Id::default();
        for n in 0..MAX_REMEMBERED_WRITES + 5 {
            writes.wrote(&id, &n.to_string(), 0);
        }
        assert_eq!(writes.known.lock().chains.len(), MAX_REMEMBERED_WRITES);
        let mut cause = Cause::default();
        for n in 0..=MAX_OPEN_EVENTS {
            cause.merge(writes.cause_of(&resource("b", &n.to_string()), false));
        }
        assert!(cause.open.is_empty());
    }

    #[test]
    fn own_writes_are_judged_before_there_are_too_many_to_keep_open() {
        let writes = Arc::<OwnWrites>::default();
        let (id, mut cause) = (id("a"), Cause::default());
        for n in 0..5 * MAX_OPEN_EVENTS {
            let version = n.to_string();
            cause.merge(writes.cause_of(&resource("a", &version), false));
            writes.wrote(&id, &version, 4);
        }
        assert!(cause.open.len() <= MAX_OPEN_EVENTS);
        assert_eq!(writes.chain_length(&mut cause.clone()), 5);
        cause.merge(writes.cause_of(&resource("a", "of somebody else"), false));
        assert_eq!(writes.chain_length(&mut cause), 0);
    }
}
