//! Places for attempts, shared fairly between groups: a free place goes to the waiting group that holds the fewest, and
//! of those with as few to the one that waits longest. So a group whose attempts hang holds all places only while no
//! other group wants one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Attempts of a plugin at once; each holds a socket.
pub(super) const PLACES: usize = 256;

/// The places of a plugin.
pub(super) struct Places(Mutex<State>);

struct State {
    free: usize,
    /// Number of the next to wait.
    next: u64,
    groups: BTreeMap<Arc<str>, Group>,
}

#[derive(Default)]
struct Group {
    held: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Place>)>,
}

/// A place, given back when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    group: Arc<str>,
}

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: count, next: 0, groups: BTreeMap::new() })))
    }

    /// Waits for a place; `None` after the end of the places.
    pub(super) async fn take(self: &Arc<Self>, group: &Arc<str>) -> Option<Place> {
        let waiting = {
            let mut state = self.0.lock();
            let State { free, next, groups } = &mut *state;
            let entry = groups.entry(group.clone()).or_default();
            if *free > 0 {
                *free -= 1;
                entry.held += 1;
                return Some(Place { places: self.clone(), group: group.clone() });
            }
            let (sender, receiver) = oneshot::channel();
            entry.waiting.push_back((*next, sender));
            *next += 1;
            receiver
        };
        waiting.await.ok()
    }

    fn give_back(self: &Arc<Self>, group: &Arc<str>) {
        let mut state = self.0.lock();
        if let Some(entry) = state.groups.get_mut(group) {
            entry.held = entry.held.saturating_sub(1);
        }
        for entry in state.groups.values_mut() {
            entry.waiting.retain(|(_, sender)| !sender.is_closed());
        }
        state.groups.retain(|_, entry| entry.held > 0 || !entry.waiting.is_empty());
        let order = |(name, entry): (&Arc<str>, &Group)| {
            entry.waiting.front().map(|(number, _)| (entry.held, *number, name.clone()))
        };
        let Some((_, _, next)) = state.groups.iter().filter_map(order).min() else {
            state.free += 1;
            return;
        };
        let Some(entry) = state.groups.get_mut(&next) else { return };
        let Some((_, sender)) = entry.waiting.pop_front() else { return };
        entry.held += 1;
        drop(state);
        // If the waiting task ended meanwhile, the returned place is given back in turn.
        drop(sender.send(Place { places: self.clone(), group: next }));
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
        assert_eq!((state.free, state.groups.len()), (3, 0), "none is lost");
    }
}
