//! Rates of requests: reads and writes per second, of all callers together and of each.
//!
//! `governor` counts (GCRA): a burst of one second's requests passes at once, and further ones at the rate. A request
//! over the rate is refused at once, with the time until the next can pass; none waits here. Callers are counted by
//! name, and only where there are tokens; otherwise all callers count as one. The annotations of the API say whether a
//! request reads or writes: MutateAndValidate and opening a watch are reads.
//!
//! Cost: two atomic operations, and a look-up under a lock for the caller. Silent callers are forgotten once there are
//! many.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    state::keyed::HashMapStateStore,
};
use mortise_resource::{Code, Error};

/// Number of known callers above which silent ones are forgotten.
const MAX_REMEMBERED_CALLERS: usize = 10_000;

/// Requests between two counts of the known callers, which may grow by as many meanwhile. Counting takes the callers'
/// lock.
const CALLER_COUNT_INTERVAL_REQUESTS: u32 = 256;

/// Category of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    Read,
    Write,
}

/// Requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Reads of all callers.
    pub reads: NonZeroU32,
    /// Writes of all callers.
    pub writes: NonZeroU32,
    /// Reads of one caller.
    pub caller_reads: NonZeroU32,
    /// Writes of one caller.
    pub caller_writes: NonZeroU32,
}

impl Default for Rates {
    fn default() -> Self {
        const fn rate(number: u32) -> NonZeroU32 {
            match NonZeroU32::new(number) {
                Some(rate) => rate,
                None => NonZeroU32::MIN,
            }
        }
        Self { reads: rate(200_000), writes: rate(100_000), caller_reads: rate(100_000), caller_writes: rate(50_000) }
    }
}

/// Counters of one category.
struct Counts {
    all: governor::DefaultDirectRateLimiter,
    callers: RateLimiter<u64, HashMapStateStore<u64>, DefaultClock>,
    /// Names of the settings, for refusals.
    settings: [&'static str; 2],
    rates: [NonZeroU32; 2],
    name: &'static str,
    requests: AtomicU32,
}

/// Counters of requests.
pub(crate) struct RateLimits {
    reads: Counts,
    writes: Counts,
}

impl Counts {
    fn new(name: &'static str, all: NonZeroU32, caller: NonZeroU32, settings: [&'static str; 2]) -> Self {
        Self {
            all: RateLimiter::direct(Quota::per_second(all)),
            callers: RateLimiter::hashmap(Quota::per_second(caller)),
            settings,
            rates: [all, caller],
            name,
            requests: AtomicU32::new(0),
        }
    }

    /// Forgets silent callers, now and then, once there are many.
    fn forget_silent(&self) {
        let is_due = self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(CALLER_COUNT_INTERVAL_REQUESTS);
        if is_due && self.callers.len() > MAX_REMEMBERED_CALLERS {
            self.callers.retain_recent();
        }
    }

    fn refuse(&self, kind: &'static str, which: usize, wait: Duration) -> Error {
        metrics::counter!("mortise_rate_limited_total", "category" => self.name, "scope" => kind).increment(1);
        let (setting, rate) = (self.settings.get(which).copied().unwrap_or_default(), self.rates.get(which));
        let rate = rate.map_or(0, |rate| rate.get());
        let text = format!(
            "rate limit exceeded, try again in {wait:?}: more than {rate} {}s a second of {kind} (limit {setting})",
            self.name
        );
        Error { retry_after: Some(wait), ..Error::new(Code::ResourceExhausted, text) }
    }
}

impl RateLimits {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            reads: Counts::new(
                "read",
                rates.reads,
                rates.caller_reads,
                ["service.reads_per_second", "service.caller_reads_per_second"],
            ),
            writes: Counts::new(
                "write",
                rates.writes,
                rates.caller_writes,
                ["service.writes_per_second", "service.caller_writes_per_second"],
            ),
        }
    }

    /// Returns the rates.
    pub(super) fn rates(&self) -> Rates {
        let ([reads, caller_reads], [writes, caller_writes]) = (self.reads.rates, self.writes.rates);
        Rates { reads, writes, caller_reads, caller_writes }
    }

    /// Counts a request; `caller` is the number of its caller, where callers are counted one by one.
    ///
    /// # Errors
    /// `ResourceExhausted`: over the rate, with the time to wait.
    pub(crate) fn check(&self, category: Category, caller: Option<u64>) -> Result<(), Error> {
        let counts = match category {
            Category::Read => &self.reads,
            Category::Write => &self.writes,
        };
        let clock = DefaultClock::default();
        if let Some(caller) = caller {
            counts.forget_silent();
            let own = counts.callers.check_key(&caller);
            own.map_err(|until| counts.refuse("one caller", 1, until.wait_time_from(clock.now())))?;
        }
        counts.all.check().map_err(|until| counts.refuse("all callers", 0, until.wait_time_from(clock.now())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    #[test]
    fn all_and_each_are_bounded_and_told_when_to_come_back() {
        let rates = Rates { reads: rate(30), caller_reads: rate(10), writes: rate(1), caller_writes: rate(1) };
        let limits = RateLimits::new(rates);
        let mut answered = 0;
        let mut refusals = Vec::new();
        for caller in 0..5 {
            for _ in 0..20 {
                match limits.check(Category::Read, Some(caller)) {
                    Ok(()) => answered += 1,
                    Err(error) => refusals.push(error),
                }
            }
        }
        // Three callers have their ten; the rest of time adds a few.
        assert!((30..=40).contains(&answered), "{answered}");
        assert!(refusals.iter().all(|error| error.code == Code::ResourceExhausted));
        assert!(refusals.iter().all(|error| error.retry_after.is_some_and(|wait| wait <= Duration::from_secs(1))));
        assert!(refusals[0].message.contains("of one caller (limit service.caller_reads_per_second)"));
        let of_all = |error: &&Error| error.message.contains("of all callers (limit service.reads_per_second)");
        assert!(
            (15..=20).contains(&refusals.iter().filter(of_all).count()),
            "two callers' ten, but for what time adds"
        );
        // Writes are counted by themselves.
        assert!(limits.check(Category::Write, Some(9)).is_ok());
        assert!(limits.check(Category::Write, None).is_err());
    }
}
