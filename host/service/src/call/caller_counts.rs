//! Counts of the things that each caller has open at once: the holder of a token, or an address without one.

use std::{collections::hash_map::Entry, sync::Arc};

use mortise_resource::{Code, Error};
use parking_lot::Mutex;

use super::caller::{Source, SourceMap};

/// Counts of one kind of thing, by caller. Holds an entry for each caller with something open.
#[derive(Debug)]
pub struct CallerCounts {
    /// Noun for refusals: `watches`.
    what: &'static str,
    setting: &'static str,
    limit: usize,
    open: Mutex<SourceMap<usize>>,
}

/// An open thing of a caller. Dropping it closes it.
#[derive(Debug)]
pub struct OpenCount {
    counts: Arc<CallerCounts>,
    caller: Source,
}

impl CallerCounts {
    /// Makes counts of `what`, with a limit for each caller.
    #[must_use]
    pub fn new(what: &'static str, setting: &'static str, limit: usize) -> Arc<Self> {
        Arc::new(Self { what, setting, limit, open: Mutex::default() })
    }

    /// Opens another thing for a caller.
    ///
    /// # Errors
    /// `ResourceExhausted`: the caller has reached its limit.
    pub fn open(self: &Arc<Self>, caller: Source) -> Result<OpenCount, Error> {
        let mut open = self.open.lock();
        let count = open.entry(caller).or_default();
        if *count >= self.limit {
            drop(open);
            metrics::counter!("mortise_caller_refused_total", "kind" => self.what).increment(1);
            let text = format!("the caller has {} {} open already (limit {})", self.limit, self.what, self.setting);
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        *count += 1;
        Ok(OpenCount { counts: self.clone(), caller })
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.counts.open.lock().entry(self.caller) {
            match count.get() {
                0 | 1 => drop(count.remove()),
                _ => *count.get_mut() -= 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own_and_nothing_is_kept_of_those_that_have_none() {
        let counts = CallerCounts::new("watches", "service.caller_watches", 2);
        let [first, second] = [1, 2].map(Source::of_number);
        let held = [first, first, second].map(|caller| counts.open(caller).unwrap());
        let refused = counts.open(first).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        assert_eq!(refused.message, "the caller has 2 watches open already (limit service.caller_watches)");
        assert!(counts.open(second).is_ok());
        drop(held);
        assert_eq!(counts.open.lock().len(), 0);
        assert!(counts.open(first).is_ok());
    }
}
