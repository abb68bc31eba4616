//! `mortise controllers --watch`: the controllers, and those that changed since the last question to the server.

use std::collections::BTreeMap;

use mortise_resource::data::ControllerReport;
use prost::Message as _;

use super::{Controllers, HEADINGS, cells};
use crate::{
    CliError, Exit, Session, Table, Ui,
    live::{
        Row, Section, Update,
        page::{self, Page, Updates},
        screen,
    },
    output::json::{self, AnswerFormat},
    output::ui,
};

impl Controllers {
    /// Shows the changes until the user or the server ends them.
    pub(super) async fn follow(&self, session: &Session, ui: &Ui) -> Result<Exit, CliError> {
        match self.output {
            AnswerFormat::Table if !self.lines && screen::is_there() => self.live(session, ui).await,
            _ => self.changes(session, ui).await,
        }
    }

    /// Shows a table on the terminal, which goes on when the server comes back.
    async fn live(&self, session: &Session, ui: &Ui) -> Result<Exit, CliError> {
        let first = self.reports(session).await?;
        let section = Section::new(&Table::new(HEADINGS), None, "controllers");
        let page = Page::new(&format!("controllers at {}", session.url()), vec![section], ui.color);
        let source = async |updates: Updates| {
            let mut update = Update::Whole(first.iter().map(row).collect());
            loop {
                if updates.send((0, update)).await.is_err() {
                    return Ok(Exit::Done);
                }
                tokio::time::sleep(self.interval).await;
                update = match self.reports(session).await {
                    Ok(reports) => Update::Whole(reports.iter().map(row).collect()),
                    Err(error) if matches!(error.exit, Exit::Unreachable | Exit::TimedOut) => {
                        Update::Fault(format!("no answer, trying again: {}", error.message))
                    }
                    Err(error) => return Err(error),
                };
            }
        };
        page::run(page, source).await
    }

    /// Prints the controllers, and each that changed, once for each question to the server.
    async fn changes(&self, session: &Session, ui: &Ui) -> Result<Exit, CliError> {
        let mut known: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut table = Table::new(HEADINGS);
        let mut is_first = true;
        loop {
            let reports = self.reports(session).await?;
            for report in reports.iter().filter(|report| has_changed(&known, report)) {
                match self.output {
                    AnswerFormat::Table => table.row(cells(report)),
                    AnswerFormat::Json => ui::print(json::compact("mortise.v1.ControllerReport", report)?)?,
                }
            }
            if is_first && self.output == AnswerFormat::Table {
                ui::print(table.render(ui))?;
                table.drain(ui);
                is_first = false;
            } else if !table.is_empty() {
                ui::print(table.drain(ui))?;
            }
            known = reports.iter().map(|report| (report.name.clone(), lasting(report))).collect();
            tokio::time::sleep(self.interval).await;
        }
    }
}

fn row(report: &ControllerReport) -> (String, Row) {
    (report.name.clone(), Row { cells: cells(report), age: None })
}

fn has_changed(known: &BTreeMap<String, Vec<u8>>, report: &ControllerReport) -> bool {
    known.get(&report.name).is_none_or(|before| *before != lasting(report))
}

/// A report without the times that change by themselves.
fn lasting(report: &ControllerReport) -> Vec<u8> {
    let mut report = ControllerReport { oldest: None, ..report.clone() };
    report.set_aside.iter_mut().for_each(|aside| aside.retry_in = None);
    report.encode_to_vec()
}
