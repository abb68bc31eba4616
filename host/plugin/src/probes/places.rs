//! Places for attempts of checks, shared fairly between groups: a free place goes to the waiting group that holds the
//! fewest, and of those with as few to the one that waits longest. So a group whose attempts hang holds all places only
//! while no other group wants one.
//!
//! # Cost
//! A place is taken and given back in O(log n) of the waiting groups. An attempt that ends while it waits leaves an
//! entry until its turn comes, or until the group's queue has grown to the next power of two.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Most attempts of a plugin at once; each holds a socket.
pub(super) const PLACES: usize = 256;

/// The places of a plugin.
pub(super) struct Places(Mutex<State>);

#[derive(Default)]
struct State {
    free: usize,
    /// Number of the next attempt that waits.
    next: u64,
    groups: BTreeMap<Arc<str>, Group>,
    /// The groups that wait: the places that each holds, the number of its first waiting attempt, and its name.
    order: BTreeSet<(usize, u64, Arc<str>)>,
}

#[derive(Default)]
struct Group {
    held: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Place>)>,
}

impl Group {
    /// Enters the group in the order, if it waits.
    fn list(&self, name: &Arc<str>, order: &mut BTreeSet<(usize, u64, Arc<str>)>) {
        order.extend(self.waiting.front().map(|(number, _)| (self.held, *number, name.clone())));
    }

    /// Takes the group out of the order, before a change of it.
    fn unlist(&self, name: &Arc<str>, order: &mut BTreeSet<(usize, u64, Arc<str>)>) {
        if let Some((number, _)) = self.waiting.front() {
            order.remove(&(self.held, *number, name.clone()));
        }
    }
}

/// A place, given back when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    group: Arc<str>,
}

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: count, ..State::default() })))
    }

    /// Waits for a place; `None` after the end of the places.
    pub(super) async fn take(self: &Arc<Self>, group: &Arc<str>) -> Option<Place> {
        let waiting = {
            let mut state = self.0.lock();
            let State { free, next, groups, order } = &mut *state;
            let entry = groups.entry(group.clone()).or_default();
            if *free > 0 {
                *free -= 1;
                entry.held += 1;
                return Some(Place { places: self.clone(), group: group.clone() });
            }
            let (sender, receiver) = oneshot::channel();
            entry.unlist(group, order);
            if entry.waiting.len().is_power_of_two() {
                entry.waiting.retain(|(_, sender)| !sender.is_closed());
            }
            entry.waiting.push_back((*next, sender));
            entry.list(group, order);
            *next += 1;
            receiver
        };
        waiting.await.ok()
    }

    fn give_back(self: &Arc<Self>, group: &Arc<str>) {
        let mut guard = self.0.lock();
        let State { free, groups, order, .. } = &mut *guard;
        if let Some(entry) = groups.get_mut(group) {
            entry.unlist(group, order);
            entry.held = entry.held.saturating_sub(1);
            match entry.held == 0 && entry.waiting.is_empty() {
                true => _ = groups.remove(group),
                false => entry.list(group, order),
            }
        }
        while let Some((_, _, next)) = order.pop_first() {
            let Some(entry) = groups.get_mut(&next) else { continue };
            let first = entry.waiting.pop_front().map(|(_, sender)| sender).filter(|sender| !sender.is_closed());
            entry.held += usize::from(first.is_some());
            match entry.held == 0 && entry.waiting.is_empty() {
                true => _ = groups.remove(&next),
                false => entry.list(&next, order),
            }
            if let Some(sender) = first {
                drop(guard);
                // If the waiting task ended meanwhile, the returned place is given back in turn.
                drop(sender.send(Place { places: self.clone(), group: next }));
                return;
            }
        }
        *free += 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// Polls a future by hand, so that no scheduler decides the order.
    fn poll<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// The place that a task gets now.
    fn got(future: &mut Pin<Box<impl Future<Output = Option<Place>>>>) -> Option<Place> {
        match poll(future) {
            Poll::Ready(place) => Some(place.expect("the places are there")),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_free_place_goes_to_the_group_that_holds_the_fewest() {
        let places = Places::new(3);
        let (hanging, other): (Arc<str>, Arc<str>) = ("hanging".into(), "other".into());
        let mut held: Vec<_> = (0..3).filter_map(|_| got(&mut Box::pin(places.take(&hanging)))).collect();
        assert_eq!(held.len(), 3);
        let mut more: Vec<_> = (0..3).map(|_| Box::pin(places.take(&hanging))).collect();
        assert!(more.iter_mut().all(|one| got(one).is_none()));
        let (mut late, mut later) = (Box::pin(places.take(&other)), Box::pin(places.take(&other)));
        assert!(got(&mut late).is_none() && got(&mut later).is_none());
        held.pop();
        let first = got(&mut late).expect("the other group holds none");
        assert!(more.iter_mut().all(|one| got(one).is_none()) && got(&mut later).is_none());
        held.pop();
        held.extend(got(&mut more[0]));
        assert_eq!(held.len(), 2, "both groups held one, and this task waited for longer");
        drop(first);
        let second = got(&mut later).expect("the other group holds none again");
        // A place of a task that ended while it waited goes on to the next.
        drop(more.remove(1));
        held.pop();
        let last = got(&mut more[1]).expect("nothing else waits");
        drop((held, second, last, more));
        let state = places.0.lock();
        assert_eq!((state.free, state.groups.len(), state.order.len()), (3, 0, 0), "none is lost");
    }

    /// Probes that are replaced while their group hangs leave no queue that grows for ever.
    #[test]
    fn tasks_that_end_while_they_wait_are_forgotten() {
        let places = Places::new(1);
        let group: Arc<str> = "group".into();
        let held = got(&mut Box::pin(places.take(&group))).expect("a place is free");
        let mut kept: Vec<_> = (0..3).map(|_| Box::pin(places.take(&group))).collect();
        assert!(kept.iter_mut().all(|one| got(one).is_none()));
        for _ in 0..10_000 {
            assert!(got(&mut Box::pin(places.take(&group))).is_none());
        }
        let waiting = places.0.lock().groups[&group].waiting.len();
        assert!(waiting <= 16, "{waiting}");
        drop(held);
        for one in &mut kept {
            drop(got(one).expect("those that still wait get their turn, in order"));
        }
        drop(kept);
        let state = places.0.lock();
        assert_eq!((state.free, state.groups.len(), state.order.len()), (1, 0, 0));
    }
}
