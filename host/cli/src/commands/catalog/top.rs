//! `mortise catalog top`: the services with the smallest share of healthy endpoints, refreshed at intervals.
//!
//! The resources are watched, so an interval costs as much as its changes.

use std::{collections::BTreeMap, io::IsTerminal as _, time::Duration};

use clap::Args;
use futures::{StreamExt as _, stream::SelectAll};
use mortise_resource::{
    pb::{self, watch_event::Event},
    types::gvk,
};
use tokio::time::{Instant, sleep_until};

use super::{
    list::{Scope, types},
    tally::{ServiceName, Tally},
};
use crate::{CliError, Connect, Exit, Session, Table, Ui, output::ui, resources::catalog::Catalog};

pub(super) const EXAMPLES: &str = "mortise catalog top\nmortise catalog top -A --rows 50 --interval 10s";

/// Clears the terminal and moves to its corner.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Arguments of `catalog top`.
#[derive(Debug, Args)]
pub(super) struct Top {
    /// Prints once, after one interval, and ends
    #[arg(long)]
    once: bool,
    /// The time between two pages, over which changes are counted
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "2s")]
    interval: Duration,
    /// Most services to show
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = clap::value_parser!(u16).range(1..))]
    rows: u16,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    connect: Connect,
}

/// The services, and the writes to the endpoints of each since the last page.
#[derive(Default)]
struct State {
    tally: Tally,
    changes: BTreeMap<ServiceName, usize>,
    /// Types whose present resources are not all here yet.
    incomplete: usize,
}

impl Top {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let mut state = State::default();
        let mut events = SelectAll::new();
        for of in types(&catalog)? {
            let opened = self.open(&session, &of).await?;
            events.push(Box::pin(opened.map(move |event| (of.clone(), event))));
            state.incomplete += 1;
        }
        let mut due = Instant::now() + self.interval;
        loop {
            tokio::select! {
                event = events.next() => {
                    let ended = || CliError::failed("the server ended the watch").remedy("run the command again");
                    let (of, event) = event.ok_or_else(ended)?;
                    let event = event.map_err(|status| CliError::rpc(gvk(&of), &status))?;
                    state.apply(event, of.kind != "Service")?;
                }
                () = sleep_until(due), if state.incomplete == 0 => {
                    let clear = if !self.once && std::io::stdout().is_terminal() { CLEAR } else { "" };
                    ui::print(format!("{clear}{}", state.render(usize::from(self.rows), &ui)))?;
                    if self.once {
                        return Ok(Exit::Done);
                    }
                    state.changes.clear();
                    due = Instant::now() + self.interval;
                }
            }
        }
    }

    async fn open(&self, session: &Session, of: &pb::Type) -> Result<tonic::Streaming<pb::WatchEvent>, CliError> {
        let tenancy = Some(self.scope.units(session));
        let request =
            pb::WatchListRequest { r#type: Some(of.clone()), tenancy, name_prefix: String::new(), after: None };
        session.call(gvk(of), async { session.resources().watch_list(request).await }).await
    }
}

impl State {
    fn apply(&mut self, event: pb::WatchEvent, has_endpoints: bool) -> Result<(), CliError> {
        let (resource, is_there) = match event.event {
            Some(Event::Upsert(upsert)) => (upsert.resource, true),
            Some(Event::Delete(delete)) => (delete.resource, false),
            Some(Event::EndOfSnapshot(_)) => {
                self.incomplete = self.incomplete.saturating_sub(1);
                return Ok(());
            }
            None => return Ok(()),
        };
        let service = self.tally.take(&resource.unwrap_or_default(), is_there)?;
        if self.incomplete == 0 && has_endpoints {
            *self.changes.entry(service).or_default() += 1;
        }
        Ok(())
    }

    /// The services with the smallest share of healthy endpoints, and above them all together.
    fn render(&self, rows: usize, ui: &Ui) -> String {
        let changes = |name: &ServiceName| self.changes.get(name).copied().unwrap_or(0);
        let counted = self.tally.services().map(|(name, summary)| (summary.count(), name, summary));
        let mut services: Vec<_> = counted.collect();
        let healthy: usize = services.iter().map(|(count, ..)| count.healthy).sum();
        let total: usize = services.iter().map(|(count, ..)| count.total).sum();
        let whole = services.iter().filter(|(count, ..)| count.total > 0 && count.healthy == count.total).count();
        let (count, changed) = (services.len(), self.changes.values().sum::<usize>());
        let mut out = format!(
            "{count} services, {whole} healthy as a whole; {healthy} of {total} endpoints healthy; {changed} changes\n\n"
        );
        services.sort_by(|one, other| one.0.share().total_cmp(&other.0.share()).then(one.1.cmp(other.1)));
        let mut table = Table::new(["namespace", "service", "healthy", "changes", "zones"]);
        for (count, name, summary) in services.into_iter().take(rows) {
            let (namespace, service) = name;
            let changes = changes(name).to_string();
            table.row(vec![namespace.into(), service.into(), count.cell(), changes.into(), summary.zones().into()]);
        }
        out.push_str(&table.render(ui));
        out
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb::watch_event::{EndOfSnapshot, Upsert};

    use super::*;

    #[test]
    fn writes_to_endpoints_are_counted_once_all_of_them_are_known() {
        let mut state = State { incomplete: 1, ..State::default() };
        let written = || {
            let kind =
                pb::Type { group: "catalog".into(), group_version: "v1".into(), kind: "ServiceEndpoints".into() };
            let tenancy = Some(pb::Tenancy { partition: "default".into(), namespace: "shop".into() });
            let id = pb::Id { name: "web".into(), r#type: Some(kind), tenancy, ..pb::Id::default() };
            let resource = pb::Resource { id: Some(id), ..pb::Resource::default() };
            pb::WatchEvent { event: Some(Event::Upsert(Upsert { resource: Some(resource) })) }
        };
        state.apply(written(), true).unwrap();
        assert!(state.changes.is_empty(), "it was there before");
        state.apply(pb::WatchEvent { event: Some(Event::EndOfSnapshot(EndOfSnapshot {})) }, true).unwrap();
        for has_endpoints in [true, false, true] {
            state.apply(written(), has_endpoints).unwrap();
        }
        assert_eq!(state.changes.into_iter().collect::<Vec<_>>(), [(("shop".to_owned(), "web".to_owned()), 2)]);
    }
}
