//! `mortise status` without a resource: the state of the server.

use std::time::SystemTime;

use mortise_resource::data::{
    ServerStatusRequest, ServerStatusResponse,
    server_status_response::{ControllerState, PluginState, Process, ScheduledBackups, Store},
};

use crate::{
    Cell, CliError, Connect, Exit, Session, Style, Table, Ui,
    output::json::{self, AnswerFormat},
    output::ui,
};

/// Asks a server for its status.
pub(super) async fn fetch(session: &Session) -> Result<ServerStatusResponse, CliError> {
    session.call("status", session.server().status(ServerStatusRequest {})).await
}

/// Asks a server for its status, and prints it.
pub(super) async fn show(connect: &Connect, shown: AnswerFormat) -> Result<Exit, CliError> {
    let session = connect.session().await?;
    let status = fetch(&session).await?;
    ui::print(match shown {
        AnswerFormat::Table => render(&status, &session.url(), &connect.ui()),
        AnswerFormat::Json => json::message("mortise.v1.ServerStatusResponse", &status)?,
    })?;
    Ok(exit(&status))
}

/// Fails when the store is damaged or rejects writes, for scripts. Other warnings are for people.
fn exit(status: &ServerStatusResponse) -> Exit {
    let sound = status.store.as_ref().is_none_or(|store| store.refuses_writes.is_empty() && store.damaged.is_empty());
    if sound { Exit::Done } else { Exit::Failed }
}

fn render(status: &ServerStatusResponse, url: &str, ui: &Ui) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<14}{value}\n"));
    let store = status.store.clone().unwrap_or_default();
    let process = status.process.unwrap_or_default();
    line("server", format!("mortise {} at {url} ({}), up {}", status.version, status.mode, uptime(status)));
    line("process", describe_process(&process));
    line("data", describe_data(&store));
    line("version", format!("{}, {}", store.commit, describe_history(&store)));
    line("resources", store.resources.iter().map(|count| count.count).sum::<u64>().to_string());
    line("watches", format!("{} of at most {}", status.watches, status.max_watches));
    line("requests", status.requests.iter().map(|requests| requests.count).sum::<u64>().to_string());
    if store.backups > 0 {
        line("backups", format!("{} being taken", store.backups));
    }
    if let Some(backups) = &status.scheduled_backups {
        line("backup", describe_backups(backups));
    }
    if !status.restart_needed.is_empty() {
        line("restart", format!("needed for {}", status.restart_needed.join(", ")));
    }
    if !store.resources.is_empty() {
        let mut table = Table::new(["type", "resources"]);
        for count in &store.resources {
            table.row(vec![format!("{}.{}", count.group, count.kind).into(), count.count.to_string().into()]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }
    if !status.plugins.is_empty() {
        out.push('\n');
        out.push_str(&plugins(&status.plugins).render(ui));
    }
    if !status.controllers.is_empty() {
        out.push('\n');
        out.push_str(&controllers(&status.controllers).render(ui));
    }
    if !status.warnings.is_empty() {
        out.push('\n');
        for warning in &status.warnings {
            out.push_str(&ui.paint(Style::Warn, &format!("warning: {warning}")));
            out.push('\n');
        }
    }
    out
}

/// Colours a plugin's stage.
pub(super) fn stage(stage: &str) -> Cell {
    let style = match stage {
        "Serving" => Style::Good,
        "Disabled" | "Removed" => Style::Dim,
        "Waiting" | "Compiling" | "Checking" | "Swapping" => Style::Warn,
        _ => Style::Bad,
    };
    Cell::styled(style, stage)
}

/// Colours a plugin's health.
pub(super) fn health(health: &str) -> Cell {
    let style = match health {
        _ if health.contains("Quarantine") => Style::Bad,
        _ if health.contains("Probation") => Style::Warn,
        _ => Style::Plain,
    };
    Cell::styled(style, health)
}

/// Colours a controller's state.
pub(super) fn state(state: &str) -> Cell {
    let style = match state {
        "Running" => Style::Good,
        "Paused" | "BackingOff" => Style::Bad,
        _ => Style::Warn,
    };
    Cell::styled(style, state)
}

fn plugins(plugins: &[PluginState]) -> Table {
    let mut table = Table::new(["plugin", "version", "stage", "health", "calls", "faults", "message"]);
    for plugin in plugins {
        table.row(vec![
            plugin.name.as_str().into(),
            plugin.version.as_str().into(),
            stage(&plugin.stage),
            health(&plugin.health),
            plugin.calls.to_string().into(),
            plugin.faults.to_string().into(),
            plugin.message.as_str().into(),
        ]);
    }
    table
}

fn controllers(controllers: &[ControllerState]) -> Table {
    let mut table = Table::new(["controller", "state", "queued", "reconciles", "errors"]);
    for controller in controllers {
        table.row(vec![
            controller.name.as_str().into(),
            state(&controller.state),
            controller.queued.to_string().into(),
            controller.reconciles.to_string().into(),
            controller.errors.to_string().into(),
        ]);
    }
    table
}

fn uptime(status: &ServerStatusResponse) -> String {
    indicatif::HumanDuration(std_duration(status.uptime.as_ref())).to_string()
}

/// Converts a duration; zero for one that is negative or absent.
pub(super) fn std_duration(duration: Option<&prost_types::Duration>) -> std::time::Duration {
    duration.copied().and_then(|duration| std::time::Duration::try_from(duration).ok()).unwrap_or_default()
}

pub(super) fn describe_process(process: &Process) -> String {
    let Process { pid, resident_bytes, threads, open_files, .. } = *process;
    let memory = indicatif::HumanBytes(resident_bytes);
    format!("pid {pid}, {memory} in memory, {threads} threads, {open_files} open files")
}

fn describe_data(store: &Store) -> String {
    let temporary = if store.temporary { ", temporary: deleted when the server stops" } else { "" };
    format!("{}, {} on disk{temporary}", store.data_dir, indicatif::HumanBytes(store.bytes_on_disk))
}

/// Describes the scheduled backups, with ages by the clock of this machine.
fn describe_backups(backups: &ScheduledBackups) -> String {
    let ScheduledBackups { schedule, dir, is_here, is_running, last_bytes, files, .. } = backups;
    let time = |at: Option<&prost_types::Timestamp>| at.and_then(|at| SystemTime::try_from(*at).ok());
    let last = match time(backups.last_success.as_ref()) {
        None => format!("none in {dir}"),
        Some(at) => {
            let age = indicatif::HumanDuration(at.elapsed().unwrap_or_default());
            format!("the last of {files} was taken {age} ago ({}, {dir})", indicatif::HumanBytes(*last_bytes))
        }
    };
    let next = time(backups.next.as_ref()).map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
    let next = match next {
        _ if *is_running => "one is being taken".to_owned(),
        Some(wait) => format!("the next in {}", indicatif::HumanDuration(wait)),
        None if *is_here => "the next one is due".to_owned(),
        None => "another server takes them".to_owned(),
    };
    let failed = if backups.fault.is_empty() { "" } else { "; the last attempt failed" };
    format!("{schedule}: {last}; {next}{failed}")
}

fn describe_history(store: &Store) -> String {
    let bytes = indicatif::HumanBytes(store.event_bytes);
    format!("the last {} events are kept ({bytes})", store.events)
}

#[cfg(test)]
mod tests {
    use mortise_resource::data::server_status_response::{Requests, TypeCount};

    use super::*;

    #[test]
    fn a_store_that_refuses_every_write_is_a_failure_to_scripts_and_a_warning_is_none() {
        let mut status = ServerStatusResponse {
            store: Some(Store::default()),
            warnings: vec!["the store refuses writes that need disk space".into()],
            ..ServerStatusResponse::default()
        };
        assert_eq!(exit(&status), Exit::Done);
        status.store.as_mut().unwrap().refuses_writes = "store/wal.1: sync: input/output error".into();
        assert_eq!(exit(&status), Exit::Failed);
        let store =
            Store { damaged: "resources of type demo.Artist: 2 are there, and 3 should be".into(), ..Store::default() };
        status.store = Some(store);
        assert_eq!(exit(&status), Exit::Failed);
    }

    #[test]
    fn everything_is_shown_and_what_is_wrong_comes_last() {
        let status = ServerStatusResponse {
            version: "1.2.3".into(),
            mode: "serve".into(),
            uptime: Some(prost_types::Duration { seconds: 7200, nanos: 0 }),
            store: Some(Store {
                data_dir: "/var/lib/mortise/data".into(),
                commit: 12,
                resources: vec![TypeCount { group: "demo".into(), kind: "Artist".into(), count: 5 }],
                first_event: 3,
                events: 10,
                event_bytes: 2048,
                bytes_on_disk: 1 << 20,
                backups: 1,
                ..Store::default()
            }),
            watches: 2,
            max_watches: 10_000,
            plugins: vec![PluginState {
                name: "demo".into(),
                version: "1.0.0".into(),
                stage: "Truncated".into(),
                health: "Healthy".into(),
                message: "the file is truncated".into(),
                calls: 9,
                faults: 1,
                time: None,
            }],
            controllers: vec![ControllerState {
                name: "demo/albums".into(),
                state: "Running".into(),
                ..Default::default()
            }],
            requests: vec![
                Requests { method: "x/Read".into(), count: 40, ..Requests::default() },
                Requests { method: "x/Write".into(), count: 2, ..Requests::default() },
            ],
            process: Some(Process { pid: 7, resident_bytes: 3 << 20, threads: 4, open_files: 9, cpu: None }),
            warnings: vec!["plugin demo is not serving what its source holds".into()],
            ..ServerStatusResponse::default()
        };
        let ui = Ui { color: false, color_err: false, width: None };
        assert_eq!(
            render(&status, "http://127.0.0.1:8502", &ui),
            "\
server        mortise 1.2.3 at http://127.0.0.1:8502 (serve), up 2 hours
process       pid 7, 3.00 MiB in memory, 4 threads, 9 open files
data          /var/lib/mortise/data, 1.00 MiB on disk
version       12, the last 10 events are kept (2.00 KiB)
resources     5
watches       2 of at most 10000
requests      42
backups       1 being taken

TYPE          RESOURCES
demo.Artist   5

PLUGIN   VERSION   STAGE       HEALTH    CALLS   FAULTS   MESSAGE
demo     1.0.0     Truncated   Healthy   9       1        the file is truncated

CONTROLLER    STATE     QUEUED   RECONCILES   ERRORS
demo/albums   Running   0        0            0

warning: plugin demo is not serving what its source holds
"
        );
    }
}
