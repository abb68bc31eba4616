//! `mortise top`: a server's activity, refreshed at intervals.

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use clap::Args;
use mortise_resource::data::{ServerStatusResponse, server_status_response::PluginState};

use super::server_status::{describe_process, fetch, std_duration};
use crate::{CliError, Connect, Exit, Table, Ui, output::ui};

pub(super) const EXAMPLES: &str = "mortise top\nmortise top --once --interval 10s";

/// Clears the terminal and moves to its corner.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Prints once, after one interval, and ends
    #[arg(long)]
    once: bool,
    /// The time over which rates are measured
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "2s")]
    interval: Duration,
    #[command(flatten)]
    connect: Connect,
}

impl Top {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let mut before = (Instant::now(), fetch(&session).await?);
        loop {
            tokio::time::sleep(self.interval).await;
            let now = (Instant::now(), fetch(&session).await?);
            let page = render(&before, &now, &self.connect.ui());
            let clear = if !self.once && std::io::stdout().is_terminal() { CLEAR } else { "" };
            ui::print(format!("{clear}{page}"))?;
            if self.once {
                return Ok(Exit::Done);
            }
            before = now;
        }
    }
}

fn render(before: &(Instant, ServerStatusResponse), now: &(Instant, ServerStatusResponse), ui: &Ui) -> String {
    let ((then, before), (end, now)) = (before, now);
    let seconds = end.duration_since(*then).as_secs_f64().max(0.001);
    // A restarted server counts from zero.
    let rate = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64 / seconds;
    let (process, was) = (now.process.unwrap_or_default(), before.process.unwrap_or_default());
    let (cpu, cpu_was) = (std_duration(process.cpu.as_ref()), std_duration(was.cpu.as_ref()));
    let cpu = cpu.checked_sub(cpu_was).unwrap_or(cpu).as_secs_f64() / seconds * 100.0;
    let (store, store_was) = (now.store.clone().unwrap_or_default(), before.store.clone().unwrap_or_default());
    let mut out = format!(
        "mortise {}, up {}\n{}, {cpu:.0} % cpu\n{:.1} changes/s, version {}, {} watches, {} on disk\n\n",
        now.version,
        indicatif::HumanDuration(std_duration(now.uptime.as_ref())),
        describe_process(&process),
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
    use mortise_resource::data::server_status_response::{Process, Requests, Store};

    use super::*;

    fn look(requests: u64, commit: u64, calls: u64, millis: i64) -> ServerStatusResponse {
        let duration = |millis: i64| prost_types::Duration {
            seconds: millis / 1000,
            nanos: i32::try_from(millis % 1000).unwrap() * 1_000_000,
        };
        ServerStatusResponse {
            version: "1.2.3".into(),
            uptime: Some(duration(60_000)),
            store: Some(Store { commit, ..Store::default() }),
            plugins: vec![PluginState {
                name: "demo".into(),
                calls,
                time: Some(duration(millis)),
                ..Default::default()
            }],
            requests: vec![Requests { method: "x/Write".into(), count: requests }],
            process: Some(Process { pid: 7, cpu: Some(duration(millis)), ..Process::default() }),
            ..ServerStatusResponse::default()
        }
    }

    #[test]
    fn rates_are_differences_and_a_restart_is_no_trouble() {
        let then = Instant::now();
        let later = then + Duration::from_secs(2);
        let ui = Ui { color: false, color_err: false, width: None };
        let page = render(&(then, look(100, 50, 10, 1000)), &(later, look(300, 150, 20, 1500)), &ui);
        for expected in [
            "25 % cpu",
            "50.0 changes/s, version 150",
            "x/Write   100.0        300",
            "demo     5.0       50.0ms   25.0 %   0.0",
        ] {
            assert!(page.contains(expected), "{expected}:\n{page}");
        }
        let page = render(&(then, look(300, 150, 20, 1500)), &(later, look(10, 4, 1, 100)), &ui);
        assert!(page.contains("x/Write   5.0          10"), "{page}");
    }
}
