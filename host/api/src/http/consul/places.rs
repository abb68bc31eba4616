//! Places of waiting questions: their number, and that of each holder.
//!
//! # Contract
//! A question waits in one of the places for watches over HTTP (three quarters of `http.max_connections`), which all
//! callers share. One caller, by its token or else its address, has half of them at most.

use std::{collections::HashMap, sync::Arc};

use mortise_resource::{Code, Error};
use mortise_service::{Caller, Source};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Part of the places that one caller may have, one of this number.
const CALLER_PART: usize = 2;

/// The places. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places {
    /// Places that watches over HTTP share, and their number.
    watches: Arc<Semaphore>,
    limit: usize,
    /// Waiting questions by holder.
    holders: Arc<Mutex<HashMap<Option<Source>, usize>>>,
}

/// A place of a waiting question. Dropping it gives it back.
pub(super) struct Place {
    places: Places,
    holder: Option<Source>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(watches: Arc<Semaphore>, limit: usize) -> Self {
        Self { watches, limit, holders: Arc::default() }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many questions and watches wait, or too many of this caller.
    pub(super) fn take(&self, caller: &Caller) -> Result<Place, Error> {
        let exhausted = |what| Error::new(Code::ResourceExhausted, what);
        let permit = self.watches.clone().try_acquire_owned().map_err(|_| {
            let limit = self.limit;
            exhausted(format!(
                "{limit} blocking queries and watches are open over HTTP already (three quarters of \
                 http.max_connections); ask without index, or try again later"
            ))
        })?;
        let holder = Source::of_caller(&*caller.authorizer, caller.origin.as_deref());
        let most = self.limit.div_ceil(CALLER_PART);
        let mut holders = self.holders.lock();
        let count = holders.get(&holder).copied().unwrap_or_default();
        if count >= most {
            return Err(exhausted(format!(
                "{most} blocking queries of this caller wait already (half of three quarters of http.max_connections); \
                 ask without index, or try again later"
            )));
        }
        holders.insert(holder, count + 1);
        drop(holders);
        metrics::gauge!("mortise_consul_blocking_queries").increment(1);
        Ok(Place { places: self.clone(), holder, _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("mortise_consul_blocking_queries").decrement(1);
        let mut holders = self.places.holders.lock();
        if let Some(count) = holders.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                holders.remove(&self.holder);
            }
        }
    }
}
