//! The page of `mortise top` as text: for `--once`, and where standard output is a file or a pipe.

use std::collections::BTreeMap;

use mortise_resource::data::server_status_response::PluginState;

use super::sample::{Sample, Span};
use crate::{
    Table, Ui,
    commands::server_status::{describe_process, std_duration},
};

/// Renders the figures of a time.
pub(super) fn render(before: &Sample, now: &Sample, ui: &Ui) -> String {
    let span = Span::between(before, now);
    let (before, now) = (&before.status, &now.status);
    let rate = |now: u64, before: u64| span.rate(now, before);
    let seconds = span.seconds();
    let process = now.process.unwrap_or_default();
    let (store, store_was) = (now.store.clone().unwrap_or_default(), before.store.clone().unwrap_or_default());
    let mut out = format!(
        "mortise {}, up {}\n{}, {:.0} % cpu\n{:.1} changes/s, version {}, {} watches, {} on disk\n\n",
        now.version,
        indicatif::HumanDuration(std_duration(now.uptime.as_ref())),
        describe_process(&process),
        span.cpu(),
        rate(store.commit, store_was.commit),
        store.commit,
        now.watches,
        indicatif::HumanBytes(store.bytes_on_disk),
    );

    let was: BTreeMap<_, _> = before.requests.iter().map(|r| (r.method.as_str(), r.count)).collect();
    let mut requests: Vec<_> = now
        .requests
        .iter()
        .map(|r| (rate(r.count, was.get(r.method.as_str()).copied().unwrap_or(0)), r.method.as_str(), r.count))
        .collect();
    requests.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let mut table = Table::new(["method", "per second", "since start"]);
    for (rate, method, count) in requests {
        table.row(vec![method.into(), format!("{rate:.1}").into(), count.to_string().into()]);
    }
    out.push_str(&table.render(ui));

    if !now.plugins.is_empty() {
        let was: BTreeMap<_, _> = before.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin)).collect();
        let mut table = Table::new(["plugin", "calls/s", "each", "busy", "faults/s"]);
        let nothing = PluginState::default();
        for plugin in &now.plugins {
            let was = was.get(plugin.name.as_str()).copied().unwrap_or(&nothing);
            let (time, time_was) = (std_duration(plugin.time.as_ref()), std_duration(was.time.as_ref()));
            let spent = time.checked_sub(time_was).unwrap_or(time);
            let calls = plugin.calls.checked_sub(was.calls).unwrap_or(plugin.calls);
            let each = if calls == 0 { "-".to_owned() } else { format!("{:.1?}", spent.div_f64(calls as f64)) };
            table.row(vec![
                plugin.name.as_str().into(),
                format!("{:.1}", calls as f64 / seconds).into(),
                each.into(),
                format!("{:.1} %", spent.as_secs_f64() / seconds * 100.0).into(),
                format!("{:.1}", rate(plugin.faults, was.faults)).into(),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }

    let was: BTreeMap<_, _> = before.controllers.iter().map(|c| (c.name.as_str(), c)).collect();
    if !now.controllers.is_empty() {
        let mut table = Table::new(["controller", "reconciles/s", "errors/s", "queued"]);
        for controller in &now.controllers {
            let (reconciles, errors) =
                was.get(controller.name.as_str()).map_or((0, 0), |was| (was.reconciles, was.errors));
            table.row(vec![
                controller.name.as_str().into(),
                format!("{:.1}", rate(controller.reconciles, reconciles)).into(),
                format!("{:.1}", rate(controller.errors, errors)).into(),
                controller.queued.to_string().into(),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mortise_resource::data::{
        ServerStatusResponse,
        server_status_response::{Process, Requests, Store},
    };

    use super::*;

    fn look(at: Instant, requests: u64, commit: u64, calls: u64, millis: i64) -> Sample {
        let duration = |millis: i64| prost_types::Duration {
            seconds: millis / 1000,
            nanos: i32::try_from(millis % 1000).unwrap() * 1_000_000,
        };
        let status = ServerStatusResponse {
            version: "1.2.3".into(),
            uptime: Some(duration(60_000)),
            store: Some(Store { commit, ..Store::default() }),
            plugins: vec![PluginState {
                name: "demo".into(),
                calls,
                time: Some(duration(millis)),
                ..Default::default()
            }],
            requests: vec![Requests { method: "x/Write".into(), count: requests, ..Requests::default() }],
            process: Some(Process { pid: 7, cpu: Some(duration(millis)), ..Process::default() }),
            ..ServerStatusResponse::default()
        };
        Sample::of(at, status)
    }

    #[test]
    fn rates_are_differences_and_a_restart_is_no_trouble() {
        let then = Instant::now();
        let later = then + Duration::from_secs(2);
        let ui = Ui { color: false, color_err: false, width: None };
        let page = render(&look(then, 100, 50, 10, 1000), &look(later, 300, 150, 20, 1500), &ui);
        for expected in [
            "25 % cpu",
            "50.0 changes/s, version 150",
            "x/Write   100.0        300",
            "demo     5.0       50.0ms   25.0 %   0.0",
        ] {
            assert!(page.contains(expected), "{expected}:\n{page}");
        }
        let page = render(&look(then, 300, 150, 20, 1500), &look(later, 10, 4, 1, 100), &ui);
        assert!(page.contains("x/Write   5.0          10"), "{page}");
    }
}
