//! Counts of calls of the gRPC port by method, and of answered requests of the HTTP port by route: their codes, and the
//! time until their answers began.
//!
//! The methods and routes are fixed at the start: all other paths share one count, so that no client can make the
//! server remember names.
//!
//! Cost: a few atomic additions for each call of the gRPC port, and an uncontended lock for each request of the HTTP
//! port.

use std::{
    array,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mortise_resource::data::server_status_response::{CodeCount, Requests};
use parking_lot::Mutex;

/// Requests of a method or a route, and the microseconds until their answers began, in all.
pub(crate) type Answers = (Requests, u64);

/// The label of all other paths.
const OTHER_LABEL: &str = "(other)";

/// Upper bounds of the counted times, in microseconds: those of the metrics in seconds.
pub(crate) const DURATION_BOUNDS: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// Counts of times: one for each bound, and one for longer times.
const DURATIONS: usize = DURATION_BOUNDS.len() + 1;

/// The codes of gRPC, by their numbers.
const GRPC_CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The position of a time among the counts of times.
fn position(took: Duration) -> usize {
    let micros = micros(took);
    DURATION_BOUNDS.partition_point(|bound| *bound < micros)
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// The counts, by method. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RequestCounts {
    methods: Arc<BTreeMap<String, Arc<MethodCount>>>,
    others: Arc<MethodCount>,
}

/// The counts of a method's calls.
pub(crate) struct MethodCount {
    calls: AtomicU64,
    codes: [AtomicU64; GRPC_CODES.len()],
    durations: [AtomicU64; DURATIONS],
    /// Microseconds until the answers began, in all.
    micros: AtomicU64,
    metric: metrics::Counter,
}

impl MethodCount {
    fn new(method: &str) -> Arc<Self> {
        let metric = metrics::counter!("mortise_grpc_requests_total", "method" => method.to_owned());
        Arc::new(Self {
            calls: AtomicU64::new(0),
            codes: array::from_fn(|_| AtomicU64::new(0)),
            durations: array::from_fn(|_| AtomicU64::new(0)),
            micros: AtomicU64::new(0),
            metric,
        })
    }

    /// Counts a call.
    pub(crate) fn add(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.metric.increment(1);
    }

    /// Counts the beginning of an answer, by the number of its code and the time until then. A number that gRPC does
    /// not have counts as Unknown.
    pub(crate) fn answered(&self, code: usize, took: Duration) {
        const UNKNOWN: usize = 2;
        if let Some(count) = self.codes.get(code).or_else(|| self.codes.get(UNKNOWN)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(count) = self.durations.get(position(took)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros(took), Ordering::Relaxed);
    }

    fn report(&self, method: &str) -> Requests {
        let mut codes: Vec<_> = GRPC_CODES
            .iter()
            .zip(&self.codes)
            .map(|(code, count)| CodeCount { code: (*code).to_owned(), count: count.load(Ordering::Relaxed) })
            .filter(|code| code.count > 0)
            .collect();
        codes.sort_by(|a, b| a.code.cmp(&b.code));
        Requests {
            method: method.to_owned(),
            count: self.calls.load(Ordering::Relaxed),
            codes,
            durations: self.durations.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
        }
    }
}

impl RequestCounts {
    /// Creates the counts for these methods, such as `hashicorp.consul.resource.ResourceService/Write`.
    pub(crate) fn new(methods: Vec<String>) -> Self {
        let others = MethodCount::new(OTHER_LABEL);
        let mut counts: BTreeMap<_, _> =
            methods.into_iter().map(|method| (method.clone(), MethodCount::new(&method))).collect();
        counts.insert(OTHER_LABEL.to_owned(), others.clone());
        Self { methods: Arc::new(counts), others }
    }

    /// Returns the count of a method; that of all others if it was not known at the start.
    pub(crate) fn method(&self, name: &str) -> Arc<MethodCount> {
        self.methods.get(name).unwrap_or(&self.others).clone()
    }

    /// Returns the count of all paths without a method.
    pub(crate) fn others(&self) -> Arc<MethodCount> {
        self.others.clone()
    }

    /// The counts of called methods.
    pub(crate) fn report(&self) -> Vec<Requests> {
        self.answers().into_iter().map(|(requests, _)| requests).collect()
    }

    /// The same, each with the microseconds until its answers began.
    pub(crate) fn answers(&self) -> Vec<Answers> {
        let each = |(method, count): (&String, &Arc<MethodCount>)| {
            (count.report(method), count.micros.load(Ordering::Relaxed))
        };
        self.methods.iter().map(each).filter(|(requests, _)| requests.count > 0).collect()
    }
}

/// The counts of answered requests of the HTTP port, by route. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct HttpCounts(Arc<Mutex<BTreeMap<&'static str, RouteCount>>>);

/// The counts of a route's answers.
#[derive(Default)]
struct RouteCount {
    codes: BTreeMap<u16, u64>,
    durations: [u64; DURATIONS],
    micros: u64,
}

impl HttpCounts {
    /// Counts an answer. `route` is one of a fixed few.
    pub(crate) fn answered(&self, route: &'static str, code: u16, took: Duration) {
        let mut routes = self.0.lock();
        let count = routes.entry(route).or_default();
        *count.codes.entry(code).or_default() += 1;
        if let Some(count) = count.durations.get_mut(position(took)) {
            *count += 1;
        }
        count.micros = count.micros.saturating_add(micros(took));
    }

    /// The counts of requested routes.
    pub(crate) fn report(&self) -> Vec<Requests> {
        self.answers().into_iter().map(|(requests, _)| requests).collect()
    }

    /// The same, each with the microseconds until its answers began.
    pub(crate) fn answers(&self) -> Vec<Answers> {
        let routes = self.0.lock();
        let code = |(code, count): (&u16, &u64)| CodeCount { code: code.to_string(), count: *count };
        let each = |(route, count): (&&'static str, &RouteCount)| {
            let requests = Requests {
                method: (*route).to_owned(),
                count: count.codes.values().sum(),
                codes: count.codes.iter().map(code).collect(),
                durations: count.durations.to_vec(),
            };
            (requests, count.micros)
        };
        routes.iter().map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_at_the_first_bound_that_it_does_not_exceed() {
        for (micros, at) in [(0, 0), (10, 0), (11, 1), (1_000, 6), (10_000_000, 18), (10_000_001, 19)] {
            assert_eq!(position(Duration::from_micros(micros)), at, "{micros}");
        }
    }

    #[test]
    fn calls_are_counted_by_code_and_time() {
        let counts = RequestCounts::new(vec!["x/Read".into(), "x/Write".into()]);
        let read = counts.method("x/Read");
        for (code, micros) in [(0, 5), (5, 700), (0, 20_000_000), (99, 5)] {
            read.add();
            read.answered(code, Duration::from_micros(micros));
        }
        let report = counts.report();
        assert_eq!(report.len(), 1);
        let codes: Vec<_> = report[0].codes.iter().map(|code| (code.code.as_str(), code.count)).collect();
        assert_eq!((report[0].count, codes), (4, vec![("NotFound", 1), ("OK", 2), ("Unknown", 1)]));
        assert_eq!((report[0].durations.len(), report[0].durations[0], report[0].durations[19]), (20, 2, 1));
    }

    #[test]
    fn requests_are_counted_by_route() {
        let counts = HttpCounts::default();
        counts.answered("/api", 200, Duration::from_micros(5));
        counts.answered("/api", 404, Duration::from_micros(5));
        counts.answered("/", 200, Duration::from_micros(5));
        let report: Vec<_> = counts.report().into_iter().map(|route| (route.method, route.count)).collect();
        assert_eq!(report, [("/".to_owned(), 1), ("/api".to_owned(), 2)]);
    }
}
