//! The places of open watches: their number, and that of each holder, a token or an address without one.
//!
//! # Contract
//! When all places are in use, a new watch takes the place of another one, the newest of the holder with the most, if
//! that holder has at least two more than the new watch's. So no two holders replace each other in turns. A caller with
//! credentials, or of this machine, takes the place of one without, regardless of their numbers, while such callers
//! have less than a quarter of the places; and it loses none while they have no more than that. Otherwise the new watch
//! is refused. Watches of the server itself make no room.
//!
//! The watch that has to leave hears of it ([`WatchPlace::replaced`]); its answer ends even if its client does not
//! read. At most [`MAX_LEAVING`] watches are on their way out.
//!
//! # Cost
//! A lock for each watch; at the bound, a look at each holder.

use std::{collections::HashMap, sync::Arc};

use mortise_resource::{Code, Error};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::call::{Caller, Reader, Source};

/// Part of all places, one of this number, that callers with credentials and those of this machine can always have.
const KNOWN_PART: usize = 4;

/// Most watches that have to leave and have not yet.
const MAX_LEAVING: usize = 64;

/// The places. Cheap to clone.
#[derive(Clone)]
pub(super) struct WatchPlaces(Arc<Places>);

struct Places {
    limit: usize,
    holder_limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holders: HashMap<Option<Source>, Holder>,
    open: usize,
    leaving: usize,
    /// Whether an unread watch has had to leave since the last question.
    has_unread_replaced: bool,
    next: u64,
}

/// The watches of a holder, oldest first.
#[derive(Default)]
struct Holder {
    is_known: bool,
    watches: Vec<(u64, Arc<Occupant>)>,
}

/// The end of a watch, and the client that reads it.
struct Occupant {
    replaced: Notify,
    reader: Option<Arc<Reader>>,
}

/// A place of a watch. Dropping it gives it back.
pub(super) struct WatchPlace {
    places: WatchPlaces,
    holder: Option<Source>,
    number: u64,
    occupant: Arc<Occupant>,
}

impl WatchPlaces {
    pub(super) fn new(limit: usize, holder_limit: usize) -> Self {
        Self(Arc::new(Places { limit, holder_limit, state: Mutex::default() }))
    }

    /// Returns the number of open watches.
    pub(super) fn open(&self) -> usize {
        self.0.state.lock().open
    }

    /// Whether an unread watch has had to leave since the last call.
    pub(super) fn take_replaced(&self) -> bool {
        std::mem::take(&mut self.0.state.lock().has_unread_replaced)
    }

    /// Takes a place for a caller's watch.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many watches.
    pub(super) fn take(&self, caller: &Caller) -> Result<WatchPlace, Error> {
        let holder = Source::of_caller(&*caller.authorizer, caller.origin.as_deref());
        self.take_for(holder, caller.queue_key().is_known, caller.reader.clone())
    }

    fn take_for(
        &self,
        holder: Option<Source>,
        is_known: bool,
        reader: Option<Arc<Reader>>,
    ) -> Result<WatchPlace, Error> {
        let Places { limit, holder_limit, state } = &*self.0;
        let mut state = state.lock();
        let own = state.holders.get(&holder).map_or(0, |holder| holder.watches.len());
        if holder.is_some() && own >= *holder_limit {
            metrics::counter!("mortise_caller_refused_total", "kind" => "watches").increment(1);
            let text = format!("the caller has {holder_limit} watches open already (limit service.caller_watches)");
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        if state.open >= *limit && !state.make_room(own, is_known, *limit) {
            metrics::counter!("mortise_watches_refused_total").increment(1);
            let text = format!("{limit} watches are open already (limit service.max_watches)");
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        let number = state.next;
        state.next += 1;
        state.open += 1;
        let occupant = Arc::new(Occupant { replaced: Notify::new(), reader });
        let watches = state.holders.entry(holder).or_default();
        watches.is_known = is_known;
        watches.watches.push((number, occupant.clone()));
        Ok(WatchPlace { places: self.clone(), holder, number, occupant })
    }
}

impl State {
    /// Ends a watch for a new one of a holder with `own` watches. Returns whether there is room.
    fn make_room(&mut self, own: usize, is_known: bool, limit: usize) -> bool {
        if self.leaving >= MAX_LEAVING {
            return false;
        }
        let known: usize =
            self.holders.values().filter(|holder| holder.is_known).map(|holder| holder.watches.len()).sum();
        let keeps_known = known <= limit / KNOWN_PART;
        let takes_any = is_known && known < limit / KNOWN_PART;
        let candidates = self.holders.iter_mut().filter(|(source, holder)| {
            let gives_way = holder.watches.len() >= own + 2 && !(keeps_known && holder.is_known);
            source.is_some() && (gives_way || (takes_any && !holder.is_known))
        });
        let largest = candidates.max_by_key(|(_, holder)| (holder.watches.len(), !holder.is_known));
        let Some((_, evicted)) = largest.and_then(|(_, holder)| holder.watches.pop()) else { return false };
        self.open -= 1;
        self.leaving += 1;
        metrics::counter!("mortise_watches_replaced_total").increment(1);
        evicted.replaced.notify_one();
        if let Some(reader) = evicted.reader.as_ref().filter(|reader| reader.unread_for(Instant::now()).is_some()) {
            reader.ask();
            self.has_unread_replaced = true;
        }
        true
    }
}

impl WatchPlace {
    /// Resolves once the watch has to leave.
    pub(super) fn replaced(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        let occupant = self.occupant.clone();
        async move { occupant.replaced.notified().await }
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        let mut state = self.places.0.state.lock();
        let Some(holder) = state.holders.get_mut(&self.holder) else {
            state.leaving = state.leaving.saturating_sub(1);
            return;
        };
        let position = holder.watches.iter().rposition(|(number, _)| *number == self.number);
        if let Some(position) = position {
            holder.watches.remove(position);
        }
        if holder.watches.is_empty() {
            state.holders.remove(&self.holder);
        }
        match position {
            Some(_) => state.open = state.open.saturating_sub(1),
            None => state.leaving = state.leaving.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u64) -> Option<Source> {
        Some(Source::of_number(number))
    }

    fn fill(places: &WatchPlaces, holder: u64, is_known: bool, count: usize) -> Vec<WatchPlace> {
        (0..count).map(|_| places.take_for(source(holder), is_known, None).unwrap()).collect()
    }

    fn is_replaced(place: &WatchPlace) -> bool {
        use futures::FutureExt as _;
        place.replaced().now_or_never().is_some()
    }

    fn count(places: &WatchPlaces, holder: u64) -> usize {
        places.0.state.lock().holders.get(&source(holder)).map_or(0, |holder| holder.watches.len())
    }

    #[test]
    fn several_addresses_leave_places_to_others() {
        let places = WatchPlaces::new(12, 6);
        let crowd: Vec<_> = [1, 2].map(|holder| fill(&places, holder, false, 6)).into_iter().flatten().collect();
        let newcomers: Vec<_> = (0..10).filter_map(|_| places.take_for(source(3), false, None).ok()).collect();
        assert_eq!((newcomers.len(), count(&places, 1), count(&places, 2)), (4, 4, 4), "until they have the same");
        let replaced: Vec<_> = (0..12).filter(|number| is_replaced(&crowd[*number])).collect();
        assert_eq!(replaced, [4, 5, 10, 11], "the newest go");
        assert_eq!(places.open(), 12);
        assert_eq!(places.0.state.lock().leaving, 4);
        // A replaced watch gives nothing back a second time.
        drop(crowd);
        assert_eq!((places.open(), places.0.state.lock().leaving), (4, 0));
        drop(newcomers);
        assert!(places.0.state.lock().holders.is_empty());
    }

    #[test]
    fn one_holder_has_its_limit_and_replaces_none_of_its_own() {
        let places = WatchPlaces::new(4, 3);
        let own = fill(&places, 1, false, 3);
        let refused = places.take_for(source(1), false, None).err().unwrap();
        assert_eq!(refused.message, "the caller has 3 watches open already (limit service.caller_watches)");
        drop(own);
        let (own, other) = (fill(&places, 1, false, 2), fill(&places, 2, false, 2));
        let refused = places.take_for(source(2), false, None).err().unwrap();
        assert_eq!(refused.message, "4 watches are open already (limit service.max_watches)");
        assert!(own.iter().chain(&other).all(|place| !is_replaced(place)));
    }

    #[test]
    fn callers_with_credentials_have_a_quarter_beside_any_number_of_addresses() {
        let places = WatchPlaces::new(8, 8);
        let crowd: Vec<_> = (1..=8).flat_map(|holder| fill(&places, holder, false, 1)).collect();
        assert!(places.take_for(source(9), false, None).is_err(), "one more address");
        let known: Vec<_> = (0..3).filter_map(|_| places.take_for(source(20), true, None).ok()).collect();
        assert_eq!(known.len(), 2, "a quarter");
        assert_eq!(crowd.iter().filter(|place| is_replaced(place)).count(), 2);
        assert!(places.take_for(source(9), false, None).is_err());
        assert!(known.iter().all(|place| !is_replaced(place)), "they keep it");
    }

    #[test]
    fn so_many_are_on_their_way_out() {
        let places = WatchPlaces::new(400, 400);
        let crowd = fill(&places, 1, false, 400);
        let newcomers: Vec<_> = (0..100).filter_map(|_| places.take_for(source(2), false, None).ok()).collect();
        assert_eq!(newcomers.len(), MAX_LEAVING);
        drop(crowd);
        assert!(places.take_for(source(2), false, None).is_ok());
    }
}
