//! The table of all metrics of the process. docs/metrics.md shows the same table, and the crates of the host record
//! exactly these metrics; tests compare both.
//!
//! Histograms have real buckets, the same on every machine, so that they can be added up over machines. Samples are
//! folded into their buckets every few seconds, so that memory is bounded also when no metrics are asked for.

use std::time::Duration;

use metrics::Unit;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Handle of the recorded metrics.
pub type MetricsHandle = PrometheusHandle;

/// Time between two foldings of samples into buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Bounds of the buckets of times: from ten microseconds, as a hook takes, to ten seconds.
const SECONDS: [f64; 19] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Bounds of the buckets of group sizes.
const SIZES: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Counts of samples by their size.
    Histogram,
}

impl Kind {
    /// The name in Prometheus's text format.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name, with its unit at the end; `_total` for counters.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The meaning, in one sentence.
    pub help: &'static str,
}

impl Metric {
    /// The unit, which is the end of the name.
    fn unit(&self) -> Unit {
        match self.name.rsplit('_').next() {
            Some("seconds") => Unit::Seconds,
            Some("bytes") => Unit::Bytes,
            _ => Unit::Count,
        }
    }
}

/// A row for each metric: kind, name, labels and help text.
macro_rules! table {
    ($($kind:ident $name:ident($($label:ident),*) $help:literal;)+) => {
        &[$(Metric { name: stringify!($name), kind: Kind::$kind, labels: &[$(stringify!($label)),*], help: $help },)+]
    };
}

/// All metrics of the process, in order of name.
pub const ALL: &[Metric] = table! {
    Counter mortise_audit_failures_total()
        "Failures to write or sync the file of the audit log.";
    Counter mortise_audit_records_total(outcome)
        "Records of the audit log: written, or dropped because the queue was full.";
    Counter mortise_audit_refused_total()
        "Calls refused because the audit log takes no records.";
    Counter mortise_audit_reopened_total()
        "Openings of another file by the audit log, after a move, a removal or a request.";
    Counter mortise_audit_sink_records_total(sink, outcome)
        "Records given to a sink of the audit log (audit.sinks): written, or dropped because the sink took none.";
    Gauge mortise_backup_last_success_timestamp_seconds()
        "Unix time of the newest file of scheduled backups; 0 without a file.";
    Counter mortise_backup_runs_total(outcome)
        "Scheduled backups: done, or failed.";
    Counter mortise_busy_replaced_total(place)
        "Connections (grpc, http, dns, local) that ended with their calls to make room for others.";
    Counter mortise_caller_refused_total(kind)
        "Watches and calls refused because their caller has too many open.";
    Gauge mortise_consul_blocking_queries()
        "Waiting blocking queries of Consul's clients.";
    Counter mortise_controller_errors_total(controller)
        "Failed reconciles.";
    Gauge mortise_controller_in_progress(controller)
        "Resources in a reconcile now.";
    Counter mortise_controller_index_errors_total(controller)
        "Resources on which an index of the cache failed.";
    Counter mortise_controller_mapper_errors_total(controller)
        "Failed mappings of watched resources.";
    Gauge mortise_controller_mapper_queue_depth(controller)
        "Events waiting for mappers.";
    Gauge mortise_controller_quarantined_keys(controller)
        "Resources set aside because their reconcile crashed.";
    Gauge mortise_controller_queue_depth(controller)
        "Resources waiting for a reconcile.";
    Gauge mortise_controller_queue_oldest_seconds(controller)
        "Age of the oldest queued key.";
    Counter mortise_controller_reconcile_loops_throttled_total(controller)
        "Times that a resource had to wait because its reconcile kept waking itself.";
    Histogram mortise_controller_reconcile_seconds(controller)
        "Time of one reconcile.";
    Counter mortise_controller_reconciles_total(controller, outcome)
        "Finished reconciles: done, now or after (to be called again), deferred, error.";
    Counter mortise_controller_requeues_total(controller)
        "Reconciles with the answer to call again.";
    Counter mortise_controller_restarts_total(controller)
        "Runs of the controller that ended with an error.";
    Gauge mortise_controller_running(controller)
        "1 while the controller works, 0 while it is paused, backs off or reads existing resources.";
    Gauge mortise_controller_scheduled(controller)
        "Resources due later: retries, requeues, resyncs.";
    Gauge mortise_controller_throttled(controller)
        "Resources waiting because their reconcile keeps waking itself.";
    Counter mortise_controller_writes_total(controller, operation)
        "Writes of a controller: write, write-status or delete.";
    Gauge mortise_destination_services()
        "Services and addresses with streams of the destination API.";
    Gauge mortise_destination_streams()
        "Open streams of the destination API.";
    Counter mortise_destination_streams_lagged_total()
        "Streams of the destination API ended because their clients were too slow.";
    Counter mortise_destination_streams_refused_total()
        "Streams of the destination API refused because of a limit.";
    Counter mortise_destination_updates_total()
        "Messages sent on streams of the destination API, heartbeats included.";
    Counter mortise_dns_answers_kept_total()
        "Answers about services that were made before and still held.";
    Counter mortise_dns_connections_refused_total()
        "Connections of the DNS port closed because too many are open.";
    Counter mortise_dns_queries_total(transport, outcome)
        "Queries by answer: noerror, nxdomain, servfail, refused, invalid; without answer: late, dropped; unread if the client did not take it.";
    Gauge mortise_etcd_applied_revision()
        "Revision of etcd that the copy of a server has.";
    Gauge mortise_etcd_away()
        "1 while etcd does not answer: writes and consistent reads fail; otherwise 0.";
    Counter mortise_etcd_filled_resources_total(by)
        "Resources that filled the copy of a server: by a stream of etcd 3.7, or in pages.";
    Counter mortise_etcd_lost_answers_total()
        "Transactions without an answer, whose outcome was found out.";
    Gauge mortise_etcd_members()
        "Servers that share the content and are alive.";
    Counter mortise_etcd_reads_total()
        "Questions for the newest revision, each for all the reads and writes that wait for it.";
    Counter mortise_etcd_refused_total()
        "Transactions that were repeated, since something had changed meanwhile.";
    Counter mortise_etcd_transactions_total()
        "Transactions that etcd stored.";
    Gauge mortise_field_index_bytes()
        "Size of the indexes of declared fields; the limit is service.index_bytes.";
    Counter mortise_grpc_answers_dropped_total()
        "Answers ended because clients left too many bytes waiting.";
    Counter mortise_grpc_answers_stalled_total()
        "Answers, watches included, ended because the client took no bytes of them.";
    Gauge mortise_grpc_connections()
        "Open connections of the gRPC port.";
    Counter mortise_grpc_connections_refused_total()
        "Connections of the gRPC port closed because too many are open.";
    Counter mortise_grpc_requests_dropped_total()
        "Requests refused while they arrived because too many large ones did.";
    Counter mortise_grpc_requests_total(method)
        "Calls of the gRPC port, and RPCs over HTTP; watches included.";
    Gauge mortise_http_connections()
        "Open connections of the HTTP port.";
    Counter mortise_http_connections_refused_total()
        "Connections of the HTTP port answered with 503 or closed because too many are open.";
    Counter mortise_http_requests_total(route, code)
        "Answered HTTP requests by route and status code.";
    Counter mortise_identity_certificates_total(outcome)
        "Requests of proxies for certificates: issued; denied (no right); invalid (the request); failed.";
    Counter mortise_identity_reloads_total(outcome)
        "Changes of the files of the authority for identities: loaded, or refused, with the earlier ones still in service.";
    Counter mortise_idle_replaced_total(place)
        "Idle connections (grpc, http, dns, local) and uploads of plugins (uploads) ended to make room for new ones.";
    Counter mortise_inbound_updates_total()
        "Policies sent on streams for inbound connections of proxies.";
    Counter mortise_log_lines_dropped_total()
        "Lines of the log dropped because standard error did not take them.";
    Counter mortise_panics_total()
        "Panics; each is a defect, and the log has its place.";
    Histogram mortise_plugin_call_seconds(plugin, hook)
        "Time of one call of a hook, waiting for an instance included.";
    Counter mortise_plugin_calls_low_priority_total(plugin, hook)
        "Calls of hooks at low priority.";
    Counter mortise_plugin_calls_total(plugin, hook)
        "Calls of hooks, failed ones included.";
    Histogram mortise_plugin_compile_seconds(plugin)
        "Time to compile a plugin that was not in the cache.";
    Counter mortise_plugin_faults_total(plugin, hook, kind)
        "Calls of hooks without a usable answer, by kind of fault.";
    Counter mortise_plugin_fuel_total(plugin, hook)
        "Work of hooks, in units of fuel.";
    Counter mortise_plugin_http_requests_total(plugin, outcome)
        "HTTP requests of controllers: the class of the answer, such as 2xx; failed; or denied, without being sent.";
    Gauge mortise_plugin_instances(plugin)
        "Instances in use, warm ones of controllers and idle ones of hooks included.";
    Gauge mortise_plugin_instances_limit()
        "Maximum number of instances for hooks of all plugins.";
    Counter mortise_plugin_instances_reused_total(plugin)
        "Requests for which hooks ran in an instance that had served other requests.";
    Counter mortise_plugin_loads_total(plugin, outcome)
        "Attempts to load a plugin: new, replaced (a reload) or refused.";
    Counter mortise_plugin_logs_dropped_total(plugin)
        "Log lines dropped because a request or a second had too many.";
    Gauge mortise_plugin_memory_peak_bytes(plugin)
        "Largest linear memory of one instance since the plugin was loaded.";
    Counter mortise_plugin_probe_attempts_total(plugin, kind, outcome)
        "Attempts of checks that the host performs for controllers, by kind (http, tcp, grpc) and outcome (passing, failing).";
    Gauge mortise_plugin_probes(plugin)
        "Checks that the host performs for controllers, reports of clients included.";
    Gauge mortise_plugin_quarantine_state(plugin, hook)
        "State of a hook: 0 healthy, 1 on probation, 2 quarantined.";
    Counter mortise_plugin_refused_total(plugin, hook)
        "Calls of hooks refused because the hook is quarantined.";
    Gauge mortise_plugin_source_fault(plugin)
        "1 for a plugin whose source in a registry could not be followed at the last attempt.";
    Counter mortise_plugin_tcp_connects_total(plugin, outcome)
        "TCP connects of controllers: connected; failed; or denied, without a connect.";
    Counter mortise_quota_refused_total(quota)
        "Writes refused by the quota of a tenancy.";
    Gauge mortise_quota_used_ratio(quota)
        "Share of the quota that the fullest tenancy uses, 1 at the limit; of resources: the fullest type in a tenancy.";
    Counter mortise_rate_limited_total(category, scope)
        "Requests refused because too many came in a second: reads or writes, of one caller or of all.";
    Gauge mortise_region_conflicts(peer)
        "Resources of a peer whose names are taken here.";
    Counter mortise_region_copies_total(peer, outcome)
        "Changes of a peer's resources: written, removed, deferred, refused (of other types, or without ids).";
    Gauge mortise_region_deferred(peer)
        "Resources of a peer that are missing or outdated here, conflicts included.";
    Gauge mortise_region_lag_seconds(peer)
        "Time since the replicas of the type furthest behind were current; 0 if all are.";
    Counter mortise_region_refreshed_total()
        "Resources with regions computed again since a policy changed.";
    Counter mortise_region_resets_total(peer)
        "Watches of a peer that had to start with a new snapshot.";
    Gauge mortise_region_stopped(peer)
        "1 while nothing is taken from a peer: another region or store answers, or a snapshot would remove too much; otherwise 0.";
    Gauge mortise_search_versions()
        "Versions kept for further pages of searches.";
    Counter mortise_search_versions_replaced_total()
        "Versions given up for those of other searches; their next pages are Aborted.";
    Counter mortise_store_changes_total()
        "Committed changes.";
    Histogram mortise_store_checkpoint_seconds()
        "Time to copy a part of the write-ahead log to the tree.";
    Counter mortise_store_checkpoint_waits_total()
        "Times that writers waited for a part of the write-ahead log to be copied.";
    Histogram mortise_store_commit_group_size()
        "Writes in one commit.";
    Histogram mortise_store_commit_seconds()
        "Time of one commit, the disk included.";
    Counter mortise_store_commits_total()
        "Committed writes.";
    Gauge mortise_store_damaged()
        "1 once resources are found to be missing or different from what was acknowledged.";
    Gauge mortise_store_disk_shortfall_bytes()
        "Missing space on the disk without which writes are refused; 0 while there is enough.";
    Gauge mortise_store_history_events()
        "Events kept for watches to resume from.";
    Gauge mortise_store_poisoned()
        "1 once the store refuses writes because the disk failed.";
    Counter mortise_store_scans_aborted_total()
        "Lists and starting watches aborted because too much was overwritten in front of them.";
    Counter mortise_store_scrubbed_total()
        "Resources, owner entries and events compared with their sums.";
    Histogram mortise_store_sync_seconds()
        "Time to append to the write-ahead log and sync the disk, once.";
    Counter mortise_store_watch_lagged_total()
        "Watches that the store ended because they fell behind.";
    Gauge mortise_task_failed(task)
        "1 once a task or thread has panicked that must run as long as the server.";
    Gauge mortise_tls_certificate_expiry_seconds(setting)
        "Time until the first certificate of a file expires; negative afterwards.";
    Counter mortise_tls_handshakes_total(port, outcome)
        "Connections of a TLS port: done; failed; late (took too long); plain (no TLS).";
    Counter mortise_tls_reloads_total(outcome)
        "Changes of the files of TLS: loaded, or refused, with the earlier ones still in service.";
    Counter mortise_tokens_reaped_total()
        "Expired tokens that the server deleted.";
    Counter mortise_unread_answers_replaced_total()
        "Lists and beginning watches ended because their clients did not read them while others waited.";
    Counter mortise_watches_lagged_total()
        "Watches of clients ended because they fell behind.";
    Counter mortise_watches_paced_total()
        "Waits of watches whose caller's watches used their share of a processor.";
    Counter mortise_watches_refused_total()
        "Watches refused because too many are open.";
    Counter mortise_watches_replaced_total()
        "Watches that ended to make room for those of other callers.";
    Counter mortise_watches_resynced_total()
        "Watches without an order whose clients had to start again from a new snapshot.";
    Counter mortise_write_conflicts_total()
        "Requests without a version that queued behind another writer of their resource.";
};

/// Metrics that are computed when the page is asked for ([`super::metrics_page`]), in order of name.
pub(super) const COMPUTED: &[Metric] = table! {
    Gauge mortise_build_info(version, mode)
        "1, with the release and the command (serve, dev) as labels.";
    Histogram mortise_grpc_answer_seconds(method)
        "Time until the answer to a call of the gRPC port began; of a watch, its first message.";
    Counter mortise_grpc_answers_total(method, code)
        "Begun answers of the gRPC port by code.";
    Histogram mortise_http_answer_seconds(route)
        "Time until the answer to an HTTP request began.";
    Counter process_cpu_seconds_total()
        "Processor time of the process.";
    Gauge process_max_fds()
        "Most files that the process may have open.";
    Gauge process_open_fds()
        "Open files of the process.";
    Gauge process_resident_memory_bytes()
        "Memory of the process.";
    Gauge process_start_time_seconds()
        "Unix time of the start.";
    Gauge process_threads()
        "Threads of the process.";
};

/// Sends the process's metrics to Prometheus. Those without labels have a series from the start, so that an alert does
/// not wait for the first value; histograms have theirs with the first sample.
///
/// Works once per process; later calls get a handle without metrics.
///
/// # Errors
/// None in a build that passes its tests: buckets are constants.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".into()), &SIZES)?
        .build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::debug!("metrics are recorded elsewhere already");
        return Ok(handle);
    }
    for metric @ Metric { name, kind, help, labels } in ALL {
        let unit = metric.unit();
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, unit, *help),
            Kind::Gauge => metrics::describe_gauge!(*name, unit, *help),
            Kind::Histogram => metrics::describe_histogram!(*name, unit, *help),
        }
        match kind {
            Kind::Counter if labels.is_empty() => metrics::counter!(*name).increment(0),
            Kind::Gauge if labels.is_empty() => metrics::gauge!(*name).set(0.0),
            Kind::Counter | Kind::Gauge | Kind::Histogram => {}
        }
    }
    Ok(handle)
}

/// Folds samples into buckets until the process ends.
pub(crate) async fn upkeep(handle: PrometheusHandle) {
    let mut every = tokio::time::interval(UPKEEP_INTERVAL);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    const DOCS: &str = include_str!("../../../../docs/metrics.md");

    fn row(metric: &Metric) -> String {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        format!("| `{}` | {kind} | {} | {} |", metric.name, metric.labels.join(", "), metric.help)
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let documented: Vec<_> = DOCS.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
        let known: Vec<_> = ALL.iter().chain(COMPUTED).map(row).collect();
        assert_eq!(documented, known, "docs/metrics.md should have:\n{}", known.join("\n"));
    }

    /// Adds the metrics that the sources below a folder record: names and kinds.
    fn recorded(folder: &Path, found: &mut BTreeSet<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                recorded(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                for part in std::fs::read_to_string(&path).unwrap().split("metrics::").skip(1) {
                    let Some((kind, rest)) = part.split_once("!(") else { continue };
                    let name = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                    found.extend(name.filter(|_| kind.len() < 10).map(|name| (name.to_owned(), kind.to_owned())));
                }
            }
        }
    }

    #[test]
    fn the_host_records_these_metrics_and_no_others() {
        let mut found = BTreeSet::new();
        recorded(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut found);
        let kind = |metric: &Metric| format!("{:?}", metric.kind).to_lowercase();
        assert_eq!(found, ALL.iter().map(|metric| (metric.name.to_owned(), kind(metric))).collect());
    }

    /// The alerts and the dashboard name metrics that exist.
    #[test]
    fn alerts_and_dashboard_know_the_metrics() {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let known: Vec<_> = ALL.iter().chain(COMPUTED).collect();
        for (text, count) in [
            (include_str!("../../../../packaging/prometheus-rules.yaml"), 20),
            (include_str!("../../../../packaging/grafana-dashboard.json"), 10),
        ] {
            let exprs = text.lines().filter_map(|line| {
                line.trim_start().strip_prefix("expr: ").or(line.trim_start().strip_prefix("\"expr\": "))
            });
            let mut seen = BTreeSet::new();
            for word in exprs.flat_map(|expr| expr.split(|letter| !is_of_name(letter))) {
                if !(word.starts_with("mortise_") || word.starts_with("process_")) {
                    continue;
                }
                let is_it = |metric: &&&Metric| match metric.kind {
                    Kind::Histogram => word.strip_prefix(metric.name).is_some_and(|end| end == "_bucket"),
                    Kind::Counter | Kind::Gauge => word == metric.name,
                };
                assert!(known.iter().any(|metric| is_it(&metric)), "there is no metric {word}");
                seen.insert(word);
            }
            assert!(seen.len() >= count, "{seen:?}");
        }
    }

    #[test]
    fn names_follow_the_conventions() {
        for metric in ALL {
            assert!(metric.name.starts_with("mortise_"), "{}", metric.name);
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            let unit = metric.name.ends_with("_seconds") || metric.name.ends_with("_size");
            assert!(metric.kind != Kind::Histogram || unit, "{} has no buckets", metric.name);
        }
        assert!(ALL.is_sorted_by_key(|metric| metric.name) && COMPUTED.is_sorted_by_key(|metric| metric.name));
    }
}
