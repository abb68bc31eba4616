//! `mortise controllers`: activity and recent failures of controllers, once or as a watch.

mod watch;

use std::time::Duration;

use clap::Args;
use mortise_resource::{
    data::{ControllerReport, ListControllersRequest, ListControllersResponse, SetAside},
    types::{describe, gvk},
};

use super::server_status::{state, std_duration};
use crate::{
    Cell, CliError, Connect, Exit, Session, Style, Table, Ui,
    output::json::{self, AnswerFormat},
    output::ui,
};

pub(super) const EXAMPLES: &str =
    "mortise controllers\nmortise controllers demo/albums\nmortise controllers --plugin demo --watch";

/// Arguments of `controllers`.
#[derive(Debug, Args)]
pub struct Controllers {
    /// The controller to show in full: <plugin>/<name>, or a name alone for the host's own
    #[arg(value_name = "NAME", conflicts_with = "plugin")]
    name: Option<String>,
    /// Only the controllers of one plugin
    #[arg(long, value_name = "PLUGIN")]
    plugin: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    /// Also shows every change, until Ctrl-C: on a terminal, a table that is kept up to date; elsewhere and as JSON, a
    /// line for each changed controller
    #[arg(short, long, conflicts_with = "name")]
    watch: bool,
    /// Prints a line for each changed controller on a terminal, too
    #[arg(long, requires = "watch")]
    lines: bool,
    /// The time between two questions to the server
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = crate::args::duration,
        default_value = "2s",
        requires = "watch"
    )]
    interval: Duration,
    #[command(flatten)]
    connect: Connect,
}

/// Headings of the table.
const HEADINGS: [&str; 9] =
    ["name", "manages", "state", "queued", "oldest", "running", "reconciles", "errors", "last error"];

impl Controllers {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let ui = self.connect.ui();
        if self.watch {
            return self.follow(&session, &ui).await;
        }
        let reports = self.reports(&session).await?;
        let as_json = self.output == AnswerFormat::Json;
        match &self.name {
            None if as_json => {
                let all = ListControllersResponse { controllers: reports };
                ui::print(json::message("mortise.v1.ListControllersResponse", &all)?)?;
            }
            None if reports.is_empty() => ui::line("no controllers run")?,
            None => ui::print(table(&reports).render(&ui))?,
            Some(name) => {
                let unknown = || {
                    CliError::failed(format!("no controller is named {name:?}"))
                        .remedy("`mortise controllers` lists them")
                };
                let report = reports.iter().find(|report| report.name == *name).ok_or_else(unknown)?;
                ui::print(match as_json {
                    true => json::message("mortise.v1.ControllerReport", report)?,
                    false => describe_one(report, &ui),
                })?;
            }
        }
        Ok(Exit::Done)
    }

    /// Asks the server for its controllers.
    async fn reports(&self, session: &Session) -> Result<Vec<ControllerReport>, CliError> {
        let request = ListControllersRequest { plugin: self.plugin.clone().unwrap_or_default() };
        Ok(session.call("controllers", session.controllers().list(request)).await?.controllers)
    }
}

fn table(reports: &[ControllerReport]) -> Table {
    let mut table = Table::new(HEADINGS);
    reports.iter().for_each(|report| table.row(cells(report)));
    table
}

/// The row of a controller.
fn cells(report: &ControllerReport) -> Vec<Cell> {
    let errors = if report.errors > 0 { Style::Warn } else { Style::Plain };
    let last = report.last_errors.first().map(|error| error.message.clone());
    vec![
        report.name.as_str().into(),
        report.manages.as_ref().map(gvk).unwrap_or_default().into(),
        state(&report.state),
        report.queued.to_string().into(),
        oldest(report).into(),
        report.running.to_string().into(),
        report.reconciles.to_string().into(),
        Cell::styled(errors, report.errors.to_string()),
        last.unwrap_or_else(|| report.reason.clone()).into(),
    ]
}

fn oldest(report: &ControllerReport) -> String {
    report.oldest.as_ref().map_or_else(|| "-".to_owned(), |oldest| format!("{:.1?}", std_duration(Some(oldest))))
}

fn describe_one(report: &ControllerReport, ui: &Ui) -> String {
    let watches: Vec<_> = report.watches.iter().map(gvk).collect();
    let mut out = String::new();
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<14}{value}\n"));
    line("name", report.name.clone());
    line("plugin", if report.plugin.is_empty() { "the host's own".to_owned() } else { report.plugin.clone() });
    line("manages", report.manages.as_ref().map(gvk).unwrap_or_default());
    line("watches", if watches.is_empty() { "nothing else".to_owned() } else { watches.join(", ") });
    let reason = if report.reason.is_empty() { String::new() } else { format!(": {}", report.reason) };
    line("state", format!("{}{reason}", report.state));
    line(
        "queue",
        format!(
            "{} waiting, oldest {}, {} running, {} due later",
            report.queued,
            oldest(report),
            report.running,
            report.deferred
        ),
    );
    line(
        "since start",
        format!(
            "{} reconciles, {} errors, {} requeues, {} throttled, {} restarts",
            report.reconciles, report.errors, report.requeues, report.throttled, report.restarts
        ),
    );
    if report.mapper_queued + report.mapper_errors + report.mapper_skipped + report.index_errors > 0 {
        line(
            "mappers",
            format!(
                "{} changes waiting, {} errors, {} results left out, {} errors of indexes",
                report.mapper_queued, report.mapper_errors, report.mapper_skipped, report.index_errors
            ),
        );
    }
    if report.throttled_now > 0 {
        let throttled: Vec<_> = report.throttled_resources.iter().map(describe).collect();
        line("throttled", format!("{}, since they trigger themselves: {}", report.throttled_now, throttled.join(", ")));
    }
    if report.set_aside_now > 0 {
        let describe_aside = |aside: &SetAside| {
            let id = aside.id.as_ref().map(describe).unwrap_or_default();
            format!("{id} for {:.1?}", std_duration(aside.retry_in.as_ref()))
        };
        let aside: Vec<_> = report.set_aside.iter().map(describe_aside).collect();
        line("quarantined", format!("{}, since they broke the controller: {}", report.set_aside_now, aside.join(", ")));
    }
    if !report.put_off.is_empty() {
        let mut table = Table::new(["resource", "times", "put off"]);
        for item in &report.put_off {
            let id = item.id.as_ref().map(describe).unwrap_or_default();
            table.row(vec![id.into(), item.count.to_string().into(), item.message.as_str().into()]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }
    if !report.last_errors.is_empty() {
        let mut table = Table::new(["resource", "in a row", "last error"]);
        for error in &report.last_errors {
            table.row(vec![
                error.id.as_ref().map(describe).unwrap_or_default().into(),
                error.count.to_string().into(),
                Cell::styled(Style::Bad, error.message.as_str()),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }
    out
}

#[cfg(test)]
mod tests {
    use mortise_resource::{data::ReconcileError, pb};

    use super::*;

    #[test]
    fn one_is_described_with_its_errors() {
        let report = ControllerReport {
            name: "demo/albums".into(),
            plugin: "demo".into(),
            manages: Some(pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }),
            state: "BackingOff".into(),
            reason: "no lease".into(),
            queued: 3,
            errors: 2,
            last_errors: vec![ReconcileError { message: "no".into(), count: 2, ..Default::default() }],
            throttled_now: 1,
            throttled_resources: vec![pb::Id { name: "restless".into(), ..pb::Id::default() }],
            set_aside_now: 1,
            set_aside: vec![SetAside {
                id: Some(pb::Id { name: "poison".into(), ..pb::Id::default() }),
                retry_in: Some(prost_types::Duration { seconds: 4, nanos: 0 }),
            }],
            put_off: vec![ReconcileError { message: "no quorum yet".into(), count: 3, ..Default::default() }],
            index_errors: 7,
            ..ControllerReport::default()
        };
        let ui = Ui { color: false, color_err: false, width: None };
        let text = describe_one(&report, &ui);
        for expected in [
            "manages       demo.v2.Artist\n",
            "watches       nothing else\n",
            "state         BackingOff: no lease\n",
            "queue         3 waiting, oldest -, 0 running, 0 due later\n",
            "RESOURCE   IN A ROW   LAST ERROR\n",
            "restless",
            "poison",
            "for 4.0s",
            "no quorum yet",
            "mappers       0 changes waiting, 0 errors, 0 results left out, 7 errors of indexes\n",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        assert!(table(&[report]).render(&ui).contains("demo/albums   demo.v2.Artist   BackingOff"));
    }
}
