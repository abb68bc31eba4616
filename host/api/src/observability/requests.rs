//! Counts of calls by method of the gRPC port.
//!
//! The methods are fixed at the start: all other paths share one count, so that no client can make the server remember
//! names. A call costs a look into a constant table, and one addition.

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

/// The counts, by path without its first slash. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RequestCounts(Arc<BTreeMap<String, (AtomicU64, metrics::Counter)>>);

impl RequestCounts {
    /// Creates the counts for these methods, such as `hashicorp.consul.resource.ResourceService/Write`.
    pub(crate) fn new(methods: Vec<String>) -> Self {
        let counter = |method: String| {
            let counter = metrics::counter!("mortise_grpc_requests_total", "method" => method.clone());
            (method, (AtomicU64::new(0), counter))
        };
        Self(Arc::new(methods.into_iter().chain([OTHER_LABEL.to_owned()]).map(counter).collect()))
    }

    /// Counts a call.
    pub(crate) fn count(&self, path: &str) {
        let known = self.0.get(path.strip_prefix('/').unwrap_or(path)).or_else(|| self.0.get(OTHER_LABEL));
        if let Some((count, metric)) = known {
            count.fetch_add(1, Ordering::Relaxed);
            metric.increment(1);
        }
    }

    /// The counts of called methods.
    pub(crate) fn report(&self) -> Vec<Requests> {
        let count = |(method, (count, _)): (&String, &(AtomicU64, _))| Requests {
            method: method.clone(),
            count: count.load(Ordering::Relaxed),
        };
        self.0.iter().map(count).filter(|requests| requests.count > 0).collect()
    }
}
