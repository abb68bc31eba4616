//! The page of all metrics, in Prometheus's text format: the recorded ones, and [`COMPUTED`], which are read from the
//! counts of requests and from the process when somebody asks.
//!
//! # Cost
//! A call pays for none of the computed metrics: the counts exist for `mortise status`, too.

use std::{fmt::Write as _, time::SystemTime};

use metrics_exporter_prometheus::PrometheusHandle;
use mortise_plugin_manager::controllers::ControllerManager;
use mortise_resource::data::server_status_response::{Process, Requests};

use super::{
    metrics::{COMPUTED, Kind, Metric},
    process::{max_open_files, process},
    requests::{Answers, DURATION_BOUNDS, HttpCounts, RequestCounts},
    server_status::ServerInfo,
};

/// Code whose count is there with the first call of a method, as 0.
const FAULT: &str = "Internal";

/// Sources of the page. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MetricsPage {
    recorded: PrometheusHandle,
    controllers: ControllerManager,
    grpc: RequestCounts,
    http: HttpCounts,
    about: ServerInfo,
}

impl MetricsPage {
    pub(crate) fn new(
        recorded: PrometheusHandle,
        controllers: ControllerManager,
        grpc: RequestCounts,
        http: HttpCounts,
        about: ServerInfo,
    ) -> Self {
        Self { recorded, controllers, grpc, http, about }
    }

    /// Renders the recorded metrics alone.
    pub(crate) fn recorded(&self) -> String {
        self.recorded.render()
    }

    /// Renders the page.
    pub(crate) fn render(&self) -> String {
        self.controllers.observe();
        let (mut page, process) = (self.recorded.render(), process());
        for metric in COMPUTED {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "# HELP {} {}", metric.name, metric.help);
            let _ = writeln!(page, "# TYPE {} {}", metric.name, metric.kind.name());
            page.push_str(&self.series(metric, &process));
            page.push('\n');
        }
        page
    }

    /// Renders the series of a computed metric.
    fn series(&self, metric: &Metric, process: &Process) -> String {
        let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let plain = |value: f64| match value.is_infinite() {
            true => format!("{} +Inf\n", metric.name),
            false => format!("{} {value}\n", metric.name),
        };
        match metric.name {
            "mortise_build_info" => {
                format!("{}{{version=\"{}\",mode=\"{}\"}} 1\n", metric.name, self.about.version, self.about.mode)
            }
            "mortise_grpc_answer_seconds" => histogram(metric, "method", &self.grpc.answers()),
            "mortise_grpc_answers_total" => codes(metric, "method", &self.grpc.answers()),
            "mortise_http_answer_seconds" => histogram(metric, "route", &self.http.answers()),
            "process_cpu_seconds_total" => {
                let cpu = process.cpu.unwrap_or_default();
                plain(cpu.seconds as f64 + f64::from(cpu.nanos) / 1e9)
            }
            "process_max_fds" => plain(max_open_files()),
            "process_open_fds" => plain(process.open_files as f64),
            "process_resident_memory_bytes" => plain(process.resident_bytes as f64),
            "process_start_time_seconds" => plain(seconds(self.about.started_at)),
            "process_threads" => plain(process.threads as f64),
            _ => String::new(),
        }
    }
}

/// Renders the counts of codes.
fn codes(metric: &Metric, label: &str, answers: &[Answers]) -> String {
    let mut out = String::new();
    for (requests, _) in answers {
        for code in &requests.codes {
            let (name, method) = (metric.name, &requests.method);
            let _ = writeln!(out, "{name}{{{label}=\"{method}\",code=\"{}\"}} {}", code.code, code.count);
        }
        // An alert on a rate needs the series from before the first fault.
        if !requests.codes.iter().any(|code| code.code == FAULT) {
            let _ = writeln!(out, "{}{{{label}=\"{}\",code=\"{FAULT}\"}} 0", metric.name, requests.method);
        }
    }
    out
}

/// Renders the times until answers began, with the buckets of every histogram of seconds.
fn histogram(metric: &Metric, label: &str, answers: &[Answers]) -> String {
    debug_assert_eq!(metric.kind, Kind::Histogram);
    let mut out = String::new();
    for (Requests { method, durations, .. }, micros) in answers {
        let (name, mut sum) = (metric.name, 0);
        let bounds = DURATION_BOUNDS.iter().map(|bound| (*bound as f64 / 1e6).to_string());
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(durations) {
            sum += count;
            let _ = writeln!(out, "{name}_bucket{{{label}=\"{method}\",le=\"{bound}\"}} {sum}");
        }
        let _ = writeln!(out, "{name}_sum{{{label}=\"{method}\"}} {}", *micros as f64 / 1e6);
        let _ = writeln!(out, "{name}_count{{{label}=\"{method}\"}} {sum}");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn metric(name: &str) -> &'static Metric {
        COMPUTED.iter().find(|metric| metric.name == name).unwrap()
    }

    #[test]
    fn buckets_add_up_and_end_with_the_count() {
        let counts = RequestCounts::new(vec!["x/Read".into()]);
        let read = counts.method("x/Read");
        for (code, micros) in [(0, 10), (0, 11), (5, 20_000_000)] {
            read.add();
            read.answered(code, Duration::from_micros(micros));
        }
        let text = histogram(metric("mortise_grpc_answer_seconds"), "method", &counts.answers());
        let line =
            |end: &str| text.lines().find(|line| line.contains(end)).unwrap().rsplit(' ').next().unwrap().to_owned();
        let seen = ["le=\"0.00001\"", "le=\"0.000025\"", "le=\"10\"", "le=\"+Inf\"", "_count{"].map(line);
        assert_eq!(seen, ["1", "2", "2", "3", "3"]);
        assert_eq!(line("_sum{"), "20.000021");
        let text = codes(metric("mortise_grpc_answers_total"), "method", &counts.answers());
        assert!(text.contains("mortise_grpc_answers_total{method=\"x/Read\",code=\"NotFound\"} 1\n"), "{text}");
        assert!(text.contains("code=\"OK\"} 2\n") && text.contains("code=\"Internal\"} 0\n"), "{text}");
    }
}
