//! Counts of calls by method of the gRPC port.
//!
//! The methods are fixed at the start: all other paths share one count, so that no client can make the server remember
//! names.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mortise_resource::data::server_status_response::Requests;

/// The label of all other paths.
const OTHER_LABEL: &str = "(other)";

/// The counts, by method. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RequestCounts {
    methods: Arc<BTreeMap<String, Arc<MethodCount>>>,
    others: Arc<MethodCount>,
}

/// The count of a method's calls.
pub(crate) struct MethodCount {
    calls: AtomicU64,
    metric: metrics::Counter,
}

impl MethodCount {
    fn new(method: &str) -> Arc<Self> {
        let metric = metrics::counter!("mortise_grpc_requests_total", "method" => method.to_owned());
        Arc::new(Self { calls: AtomicU64::new(0), metric })
    }

    /// Counts a call.
    pub(crate) fn add(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.metric.increment(1);
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
        let report = |(method, count): (&String, &Arc<MethodCount>)| Requests {
            method: method.clone(),
            count: count.calls.load(Ordering::Relaxed),
        };
        self.methods.iter().map(report).filter(|requests| requests.count > 0).collect()
    }
}
