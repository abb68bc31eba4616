//! Every metric of the process: what it is called, what it is, and what it means. docs/metrics.md shows the same table;
//! a test compares the two.
//!
//! Histograms have real buckets, the same on every machine, so that they can be added up over machines. Samples are
//! folded into their buckets every few seconds, so that memory is bounded also when no metrics are asked for.

use std::time::Duration;

use metrics::Unit;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// How often samples are folded into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// From ten microseconds, what a hook takes, to ten seconds.
const SECONDS: [f64; 19] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Things in a group.
const SIZES: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// What kind of metric it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, joined by commas.
    pub labels: &'static str,
    /// What it means.
    pub help: &'static str,
}

const fn metric(kind: Kind, name: &'static str, labels: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

/// All of them, in order of name.
pub const ALL: [Metric; 82] = {
    use Kind::{Counter, Gauge, Histogram};
    [
        metric(Counter, "mortise_audit_failures_total", "", "Failures to write into the audit log's file."),
        metric(
            Counter,
            "mortise_audit_records_total",
            "outcome",
            "Records of the audit log: written, or dropped because too many waited.",
        ),
        metric(
            Counter,
            "mortise_audit_refused_total",
            "",
            "Calls that were refused because the audit log takes no records.",
        ),
        metric(
            Counter,
            "mortise_caller_refused_total",
            "what",
            "Watches and calls that were refused because their caller has too many open.",
        ),
        metric(Counter, "mortise_controller_errors_total", "controller", "Reconciles that failed."),
        metric(Gauge, "mortise_controller_in_progress", "controller", "Resources that are being reconciled."),
        metric(
            Counter,
            "mortise_controller_index_errors_total",
            "controller",
            "Resources that an index of the cache failed on.",
        ),
        metric(
            Counter,
            "mortise_controller_mapper_errors_total",
            "controller",
            "Mappings of watched resources that failed.",
        ),
        metric(Gauge, "mortise_controller_mapper_queue_depth", "controller", "Events that wait for mappers."),
        metric(Gauge, "mortise_controller_queue_depth", "controller", "Resources that wait to be reconciled."),
        metric(
            Gauge,
            "mortise_controller_queue_oldest_seconds",
            "controller",
            "How long the one has waited that waits longest.",
        ),
        metric(Histogram, "mortise_controller_reconcile_seconds", "controller", "Time of one reconcile."),
        metric(
            Counter,
            "mortise_controller_reconciles_total",
            "controller, outcome",
            "Reconciles that ended: done, now or after (to be called again), deferred, error.",
        ),
        metric(Counter, "mortise_controller_requeues_total", "controller", "Reconciles that asked to be called again."),
        metric(Counter, "mortise_controller_restarts_total", "controller", "Runs that ended with an error."),
        metric(
            Gauge,
            "mortise_controller_running",
            "controller",
            "1 while it works, 0 while it is paused, backs off or reads what is there.",
        ),
        metric(
            Gauge,
            "mortise_controller_scheduled",
            "controller",
            "Resources that are due later: retries, requeues, resyncs.",
        ),
        metric(
            Counter,
            "mortise_controller_self_wakes_total",
            "controller",
            "How often a resource was held back because its reconcile woke itself.",
        ),
        metric(
            Gauge,
            "mortise_controller_set_aside",
            "controller",
            "Resources that are set aside, since their reconcile broke down.",
        ),
        metric(
            Gauge,
            "mortise_controller_throttled",
            "controller",
            "Resources that are held back because they keep waking themselves.",
        ),
        metric(
            Counter,
            "mortise_controller_writes_total",
            "controller, operation",
            "What a controller wrote: write, write-status or delete.",
        ),
        metric(Gauge, "mortise_destination_services", "", "Services that streams of the destination API are about."),
        metric(Gauge, "mortise_destination_streams", "", "Streams of the destination API that are open."),
        metric(
            Counter,
            "mortise_destination_streams_lagged_total",
            "",
            "Streams of the destination API that ended because their clients were too slow.",
        ),
        metric(
            Counter,
            "mortise_destination_streams_refused_total",
            "",
            "Streams of the destination API that were refused because a limit was reached.",
        ),
        metric(
            Counter,
            "mortise_destination_updates_total",
            "",
            "What streams of the destination API were sent, heartbeats included.",
        ),
        metric(
            Counter,
            "mortise_dns_connections_refused_total",
            "",
            "Connections of the DNS port that were closed because too many are open.",
        ),
        metric(
            Counter,
            "mortise_dns_queries_total",
            "transport, outcome",
            "Queries by what they were answered: noerror, nxdomain, servfail, refused, invalid; late and dropped, which were not.",
        ),
        metric(
            Gauge,
            "mortise_field_index_bytes",
            "",
            "Bytes of the indexes of fields that types declare, of service.index_bytes.",
        ),
        metric(
            Counter,
            "mortise_grpc_answers_dropped_total",
            "",
            "Answers that were ended because too much waited for clients.",
        ),
        metric(
            Counter,
            "mortise_grpc_answers_stalled_total",
            "",
            "Answers, watches included, that were ended because the client took nothing of them.",
        ),
        metric(Gauge, "mortise_grpc_connections", "", "Connections of the gRPC port that are open."),
        metric(
            Counter,
            "mortise_grpc_connections_refused_total",
            "",
            "Connections of the gRPC port that were closed because too many are open.",
        ),
        metric(
            Counter,
            "mortise_grpc_requests_dropped_total",
            "",
            "Requests that were refused while they arrived, because too many large ones did.",
        ),
        metric(Counter, "mortise_grpc_requests_total", "method", "Calls of the gRPC port, watches included."),
        metric(Gauge, "mortise_http_connections", "", "Connections of the HTTP port that are open."),
        metric(
            Counter,
            "mortise_http_connections_refused_total",
            "",
            "Connections of the HTTP port that were answered 503 or closed because too many are open.",
        ),
        metric(
            Counter,
            "mortise_http_requests_total",
            "route, code",
            "HTTP requests that were answered, by what is behind the path and the status code.",
        ),
        metric(
            Histogram,
            "mortise_plugin_call_seconds",
            "plugin, hook",
            "Time of one call of a hook, waiting for an instance included.",
        ),
        metric(
            Counter,
            "mortise_plugin_calls_low_priority_total",
            "plugin, hook",
            "Calls of hooks that ran at low priority.",
        ),
        metric(Counter, "mortise_plugin_calls_total", "plugin, hook", "Calls of hooks, failed ones included."),
        metric(
            Histogram,
            "mortise_plugin_compile_seconds",
            "plugin",
            "Time to compile a plugin that was not in the cache.",
        ),
        metric(
            Counter,
            "mortise_plugin_faults_total",
            "plugin, hook, kind",
            "Calls of hooks that gave no usable answer, by what ended them.",
        ),
        metric(Counter, "mortise_plugin_fuel_total", "plugin, hook", "Work of hooks, in units of fuel."),
        metric(
            Counter,
            "mortise_plugin_http_requests_total",
            "plugin, outcome",
            "HTTP requests of controllers: 2xx and so on, by what was answered; failed; denied, which was not sent.",
        ),
        metric(Gauge, "mortise_plugin_instances", "plugin", "Instances in use, warm ones of controllers included."),
        metric(
            Gauge,
            "mortise_plugin_instances_limit",
            "",
            "Instances for hooks of all plugins that may be in use at once.",
        ),
        metric(
            Counter,
            "mortise_plugin_loads_total",
            "plugin, outcome",
            "Attempts to load a plugin: new, replaced (a reload) or refused.",
        ),
        metric(
            Counter,
            "mortise_plugin_logs_dropped_total",
            "plugin",
            "Log lines dropped because a request or a second had too many.",
        ),
        metric(
            Gauge,
            "mortise_plugin_memory_peak_bytes",
            "plugin",
            "Most linear memory of one instance since the plugin was loaded.",
        ),
        metric(
            Gauge,
            "mortise_plugin_quarantine_state",
            "plugin, hook",
            "How a hook is doing: 0 healthy, 1 on probation, 2 quarantined.",
        ),
        metric(
            Counter,
            "mortise_plugin_refused_total",
            "plugin, hook",
            "Calls of hooks that were refused because the hook is quarantined.",
        ),
        metric(
            Counter,
            "mortise_plugin_tcp_connects_total",
            "plugin, outcome",
            "TCP connects of controllers: connected; failed; denied, which went nowhere.",
        ),
        metric(Counter, "mortise_quota_refused_total", "quota", "Writes that a quota of a tenancy refused."),
        metric(
            Gauge,
            "mortise_quota_used_ratio",
            "quota",
            "How full the fullest is, 1 at the limit: a type in a tenancy of resources, a tenancy of bytes.",
        ),
        metric(
            Counter,
            "mortise_rate_limited_total",
            "category, of",
            "Requests that were refused because too many came in a second: reads or writes, of one caller or of all.",
        ),
        metric(Gauge, "mortise_region_conflicts", "peer", "Resources of a peer whose names are taken here."),
        metric(
            Counter,
            "mortise_region_copies_total",
            "peer, outcome",
            "Changes of a peer's resources: written, removed, held_back, refused (of other types, or no ids).",
        ),
        metric(
            Gauge,
            "mortise_region_held_back",
            "peer",
            "Resources of a peer that are not here, or not as they are there, conflicts included.",
        ),
        metric(
            Gauge,
            "mortise_region_lag_seconds",
            "peer",
            "How long ago the copies of the type that is furthest behind were current; 0 if all are.",
        ),
        metric(
            Counter,
            "mortise_region_refreshed_total",
            "",
            "Resources whose regions were computed anew since a policy changed.",
        ),
        metric(
            Counter,
            "mortise_region_resets_total",
            "peer",
            "Watches of a peer that had to begin with a new snapshot.",
        ),
        metric(Counter, "mortise_store_changes_total", "", "Changes committed."),
        metric(
            Histogram,
            "mortise_store_checkpoint_seconds",
            "",
            "Time to copy a part of the write-ahead log to the tree.",
        ),
        metric(
            Counter,
            "mortise_store_checkpoint_waits_total",
            "",
            "Times that writers waited until a part of the write-ahead log was copied.",
        ),
        metric(Histogram, "mortise_store_commit_group_size", "", "Writes that shared one commit."),
        metric(Histogram, "mortise_store_commit_seconds", "", "Time of one commit, the disk included."),
        metric(Counter, "mortise_store_commits_total", "", "Writes committed."),
        metric(
            Gauge,
            "mortise_store_damaged",
            "",
            "1 once resources are found not to be there, or not as they were acknowledged.",
        ),
        metric(Gauge, "mortise_store_history_events", "", "Events kept for watches to resume from."),
        metric(
            Gauge,
            "mortise_store_missing_bytes",
            "",
            "What the disk has too little of for writes to be taken; 0 while there is room.",
        ),
        metric(Gauge, "mortise_store_poisoned", "", "1 once the store refuses writes because the disk failed."),
        metric(
            Counter,
            "mortise_store_scans_outrun_total",
            "",
            "Lists and beginning watches that were given up because too much was overwritten in front of them.",
        ),
        metric(
            Counter,
            "mortise_store_scrubbed_total",
            "",
            "Resources, owner entries and events that were compared with their sums.",
        ),
        metric(
            Histogram,
            "mortise_store_sync_seconds",
            "",
            "Time to append to the write-ahead log and sync the disk, once.",
        ),
        metric(
            Counter,
            "mortise_store_watch_lagged_total",
            "",
            "Watches that the store ended because they fell behind.",
        ),
        metric(
            Gauge,
            "mortise_tls_certificate_expiry_seconds",
            "setting",
            "How long the certificate of a file is still valid that expires first; negative once it has.",
        ),
        metric(
            Counter,
            "mortise_tls_handshakes_total",
            "port, outcome",
            "Connections of a TLS port: done; failed; late, which took too long; plain, which did not speak TLS.",
        ),
        metric(
            Counter,
            "mortise_tls_reloads_total",
            "outcome",
            "Changes of the files of TLS: loaded, or refused, which left the earlier ones in service.",
        ),
        metric(
            Counter,
            "mortise_watches_lagged_total",
            "",
            "Watches of clients that were ended because they fell behind.",
        ),
        metric(Counter, "mortise_watches_refused_total", "", "Watches refused because too many are open."),
        metric(
            Counter,
            "mortise_watches_reset_total",
            "",
            "Watches without an order whose clients were told to forget what they had, and got a snapshot.",
        ),
    ]
};

/// Makes the process's metrics go to Prometheus. Once per process; later calls get a handle that shows nothing.
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
    }
    for Metric { name, kind, help, .. } in ALL {
        let unit = if name.ends_with("_seconds") {
            Unit::Seconds
        } else if name.ends_with("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        };
        match kind {
            Kind::Counter => metrics::describe_counter!(name, unit, help),
            Kind::Gauge => metrics::describe_gauge!(name, unit, help),
            Kind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
    Ok(handle)
}

/// Folds samples into buckets, for ever.
pub(crate) async fn upkeep(handle: PrometheusHandle) {
    let mut every = tokio::time::interval(UPKEEP);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../../../docs/metrics.md");

    fn row(metric: &Metric) -> String {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        format!("| `{}` | {kind} | {} | {} |", metric.name, metric.labels, metric.help)
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let documented: Vec<_> = DOCS.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
        let known: Vec<_> = ALL.iter().map(row).collect();
        assert_eq!(documented, known, "docs/metrics.md should have:\n{}", known.join("\n"));
    }

    #[test]
    fn names_follow_the_conventions() {
        for metric in ALL {
            assert!(metric.name.starts_with("mortise_"), "{}", metric.name);
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            let unit = metric.name.ends_with("_seconds") || metric.name.ends_with("_size");
            assert!(metric.kind != Kind::Histogram || unit, "{} has no buckets", metric.name);
        }
        assert!(ALL.is_sorted_by_key(|metric| metric.name));
    }
}
