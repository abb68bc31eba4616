//! Entries of `[plugin.<name>.grants] http`: a host, or a host with the most requests in a time.
//!
//! # Contract
//! `"api.example.org"`, or `{ host = "api.example.org", requests = 60, per_s = 3600 }`: requests to what the entry covers, of
//! all controllers of the plugin on this server together. As many may pass at once; then one passes whenever its part of
//! the time is over. A request waits for its turn within its own time limit, and is refused at once if its turn comes
//! later. One that several entries cover needs a turn of each. Probes of endpoints take no turn. A new version of the
//! plugin, and new grants, begin with all turns.
//!
//! Turns are counted here (GCRA), since the crate `governor` cannot reserve one: a request would not know that others
//! wait before it.
//!
//! Cost: a lock for a moment, for each entry with a rate.

use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, value::MapAccessDeserializer},
};
use tokio::time::Instant;

use super::http_hosts::{HttpHost, Target};

/// Longest time of a rate, seconds: a day.
const MAX_RATE_S: u32 = 24 * 60 * 60;

/// A granted host, and the most requests to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedHost {
    /// The host, or a pattern of hosts.
    pub host: HttpHost,
    /// The most requests; `None` for any number.
    rate: Option<HttpRate>,
}

/// A rate of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HttpRate {
    /// Requests that may pass at once.
    requests: NonZeroU32,
    /// Time after which as many may pass again, seconds.
    per_s: NonZeroU32,
}

impl From<HttpHost> for GrantedHost {
    fn from(host: HttpHost) -> Self {
        Self { host, rate: None }
    }
}

/// An entry with a rate in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatedHost {
    host: HttpHost,
    requests: NonZeroU32,
    #[serde(default = "one_second")]
    per_s: NonZeroU32,
}

const fn one_second() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Serialize for GrantedHost {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.rate {
            None => self.host.serialize(to),
            Some(HttpRate { requests, per_s }) => RatedHost { host: self.host.clone(), requests, per_s }.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for GrantedHost {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Entry)
    }
}

/// Reader of an entry in either form.
struct Entry;

impl<'de> de::Visitor<'de> for Entry {
    type Value = GrantedHost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a host such as \"api.example.org\", or { host = \"api.example.org\", requests = 60, per_s = 3600 }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<GrantedHost, E> {
        HttpHost::try_from(text.to_owned()).map(Into::into).map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<GrantedHost, A::Error> {
        let RatedHost { host, requests, per_s } = RatedHost::deserialize(MapAccessDeserializer::new(map))?;
        if per_s.get() > MAX_RATE_S {
            return Err(de::Error::custom(format!("per_s must be at most {MAX_RATE_S}, a day, got {per_s}")));
        }
        Ok(GrantedHost { host, rate: Some(HttpRate { requests, per_s }) })
    }
}

/// Turns of the requests to granted hosts.
#[derive(Clone)]
pub(crate) struct HttpRates(Arc<[(GrantedHost, Turns)]>);

/// Turns of one entry.
struct Turns {
    /// Time for one request.
    period: Duration,
    /// Time for all requests that may pass at once but one.
    burst: Duration,
    /// Time at which all turns are free again.
    free_at: Mutex<Instant>,
}

impl Turns {
    fn new(HttpRate { requests, per_s }: HttpRate) -> Self {
        let period = Duration::from_secs(per_s.get().into()) / requests.get();
        Self { period, burst: period * (requests.get() - 1), free_at: Mutex::new(Instant::now()) }
    }

    /// Reserves the next turn, and returns its time. A turn after `until` is not taken; the error is the time until it.
    fn reserve(&self, until: Instant) -> Result<Instant, Duration> {
        let mut free_at = self.free_at.lock();
        let now = Instant::now();
        let from = (*free_at).max(now);
        let at = from.checked_sub(self.burst).map_or(now, |at| at.max(now));
        if at > until {
            return Err(at - now);
        }
        *free_at = from + self.period;
        Ok(at)
    }
}

/// The turn of a request comes too late.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RateUsedUp {
    /// The entry, with its rate.
    entry: String,
    /// Time until the turn.
    pub(crate) wait: Duration,
}

impl fmt::Display for RateUsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rate of {} is used up; the next turn comes in {} s", self.entry, self.wait.as_secs() + 1)
    }
}

impl HttpRates {
    /// Makes the turns of these grants.
    pub(crate) fn new(granted: &[GrantedHost]) -> Self {
        let rated = granted.iter().filter_map(|entry| Some((entry.clone(), Turns::new(entry.rate?))));
        Self(rated.collect())
    }

    /// Waits for the turns of a request.
    ///
    /// # Errors
    /// [`RateUsedUp`], at once, if a turn comes after `until`.
    pub(crate) async fn turn(&self, to: &Target, until: Instant) -> Result<(), RateUsedUp> {
        for (entry, turns) in self.0.iter().filter(|(entry, _)| entry.host.covers(to)) {
            let reserved = turns.reserve(until);
            let at = reserved.map_err(|wait| RateUsedUp { entry: entry.to_string(), wait })?;
            tokio::time::sleep_until(at).await;
        }
        Ok(())
    }
}

impl fmt::Debug for HttpRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(entry, _)| entry)).finish()
    }
}

impl fmt::Display for GrantedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        match self.rate {
            None => Ok(()),
            Some(HttpRate { requests, per_s }) => write!(f, " ({requests} requests in {per_s} s)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(json: &str) -> Result<GrantedHost, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    fn to(host: &str) -> Target {
        Target::read("https", host).unwrap()
    }

    #[test]
    fn an_entry_is_a_host_or_a_host_with_a_rate() {
        assert_eq!(entry("\"api.example.org\"").unwrap().to_string(), "api.example.org");
        let rated = entry(r#"{"host": "api.example.org", "requests": 5}"#).unwrap();
        assert_eq!(rated.to_string(), "api.example.org (5 requests in 1 s)");
        assert_eq!(entry(&serde_json::to_string(&rated).unwrap()).unwrap(), rated);
        for (wrong, says) in [
            (r#"{"host": "a.org", "requests": 0}"#, "nonzero"),
            (r#"{"host": "a.org"}"#, "requests"),
            (r#"{"host": "a.org", "requests": 1, "per": 2}"#, "`per`"),
            (r#"{"host": "a.org", "requests": 1, "per_s": 86401}"#, "at most 86400"),
            (r#"{"host": "a.org/v1", "requests": 1}"#, "has a path"),
            ("5", "a host such as"),
        ] {
            let refused = entry(wrong).unwrap_err();
            assert!(refused.contains(says), "{wrong}: {refused}");
        }
    }

    #[tokio::test]
    async fn as_many_requests_as_granted_pass_and_the_next_one_waits_or_is_refused() {
        let granted = [
            entry("\"*\"").unwrap(),
            entry(r#"{"host": "*.example.org", "requests": 3, "per_s": 86400}"#).unwrap(),
            entry(r#"{"host": "api.example.org", "requests": 2, "per_s": 86400}"#).unwrap(),
        ];
        let rates = HttpRates::new(&granted);
        let soon = Instant::now() + Duration::from_secs(3_600);
        for _ in 0..2 {
            rates.turn(&to("api.example.org"), soon).await.unwrap();
        }
        let refused = rates.turn(&to("api.example.org"), soon).await.unwrap_err();
        assert!(refused.to_string().contains("api.example.org (2 requests in 86400 s) is used up"), "{refused}");
        assert!(refused.wait > Duration::from_secs(43_000), "{refused}");
        // That one took the last turn of the wider entry.
        let refused = rates.turn(&to("b.example.org"), soon).await.unwrap_err();
        assert!(refused.to_string().contains("*.example.org (3 requests"), "{refused}");
        for _ in 0..100 {
            rates.turn(&to("other.net"), soon).await.unwrap();
        }
        // Requests that wait count: the third one would come after its time.
        let slow = HttpRates::new(&[entry(r#"{"host": "a.org", "requests": 1, "per_s": 1}"#).unwrap()]);
        let (host, soon) = (to("a.org"), Instant::now() + Duration::from_millis(1_500));
        let (one, two, three) = tokio::join!(slow.turn(&host, soon), slow.turn(&host, soon), slow.turn(&host, soon));
        assert!(one.is_ok() && two.is_ok() && three.is_err(), "{one:?} {two:?} {three:?}");
        let often = HttpRates::new(&[entry(r#"{"host": "a.org", "requests": 1000, "per_s": 1}"#).unwrap()]);
        let far = Instant::now() + Duration::from_secs(3_600);
        for _ in 0..1_010 {
            often.turn(&to("a.org"), far).await.unwrap();
        }
    }
}
