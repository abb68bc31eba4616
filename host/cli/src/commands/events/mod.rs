//! `mortise events`: writes, conditions and failures of resources, in the order of time.
//!
//! | file | content |
//! |---|---|
//! | `history` | writes and deletions, from the history that the server keeps for watches |
//! | `compare` | the difference between two states of a resource, as events |
//! | `remains` | events older than the history, as far as a resource still shows them |
//! | `failures` | the last failures of controllers |
//! | `printer` | the output |

mod compare;
mod event;
mod failures;
mod history;
mod printer;
mod remains;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use jiff::Timestamp;
use mortise_resource::{Scope, pb};
use mortise_text::Types as _;

use self::{
    event::{Event, Wanted},
    failures::Failures,
    history::{Follower, Reach},
    printer::{EventFormat, Printer},
};
use crate::{
    CliError, Connect, Exit, Session, Tenancy, Ui,
    resources::catalog::Catalog,
    resources::ids::{self, Selection, type_name},
};

pub(super) const EXAMPLES: &str = "\
mortise events
mortise events artist korn
mortise events albums -A --since 1h
mortise events album/issues --watch -o json";

/// Time between two looks at the failures of controllers.
const FAILURES_INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `events`.
#[derive(Debug, Args)]
pub struct Events {
    /// TYPE, TYPE NAME…, or TYPE/NAME… [default: every type of plugins]
    #[arg(value_name = "TYPE [NAME]")]
    what: Vec<String>,
    /// Also prints every further event, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// Only events of the last 30m, 12h or another time [default: all that the server keeps]
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
    since: Option<Duration>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: EventFormat,
    /// Covers every partition and namespace
    #[arg(short = 'A', long, visible_alias = "all-namespaces", conflicts_with_all = ["partition", "namespace"])]
    all_tenancies: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// The kept events.
#[derive(Default)]
struct Kept {
    events: Vec<Event>,
    /// Watches that go on from there.
    followers: Vec<Follower>,
    reach: Reach,
    /// Types that are left out.
    refused: Vec<String>,
}

impl Events {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let wanted = self.wanted(&session, &catalog)?;
        let since = self.since.and_then(|since| Timestamp::now().checked_sub(since).ok());
        let Kept { mut events, followers, reach, refused } = self.kept(&session, &catalog, &wanted, since).await?;
        if !reach.is_whole {
            events.extend(remains::of_named(&session, &wanted, since, reach.from).await?);
        }
        let mut failures = Failures::default();
        events.extend(failures.new_ones(&session, &wanted, since).await?);
        events.sort_by_key(Event::moment);
        let mut printer = Printer::new(self.output, &catalog, ui, self.all_tenancies);
        printer.all(&events, !self.watch)?;
        self.limits(&reach, &refused, &failures, events.is_empty(), &ui);
        if self.watch {
            return follow(&session, &catalog, &wanted, followers, failures, printer).await;
        }
        Ok(Exit::Done)
    }

    /// The resources of the command line.
    fn wanted(&self, session: &Session, catalog: &Catalog) -> Result<Vec<Wanted>, CliError> {
        let selections = match self.what.is_empty() {
            true => {
                let infos = catalog.infos().iter().filter(|info| !info.plugin.is_empty());
                let types = infos.filter_map(|info| info.r#type.clone()).filter(|ty| self.has_place(ty, catalog));
                types.map(|ty| Selection { ty, names: Vec::new() }).collect()
            }
            false => ids::selections(&self.what, catalog, &self.tenancy)?,
        };
        if self.all_tenancies && selections.iter().any(|selection| !selection.names.is_empty()) {
            return Err(CliError::usage("-A does not go with names: give --partition and --namespace instead"));
        }
        let mut wanted = Vec::new();
        for Selection { ty, names } in selections {
            if names.is_empty() {
                let units = match self.all_tenancies {
                    true => everywhere(catalog.scope(&ty)),
                    false => self.tenancy.units_for(&ty, session, catalog),
                };
                wanted.push(Wanted { ty, units, name: None });
                continue;
            }
            for name in &names {
                let id = ids::id(&ty, name, &self.tenancy, session, catalog);
                wanted.push(Wanted { ty: ty.clone(), units: id.tenancy.unwrap_or_default(), name: Some(id.name) });
            }
        }
        Ok(wanted)
    }

    /// Returns true for a type that has the units of the flags.
    fn has_place(&self, ty: &pb::Type, catalog: &Catalog) -> bool {
        match catalog.scope(ty) {
            Some(Scope::Cluster) => self.tenancy.partition.is_none() && self.tenancy.namespace.is_none(),
            Some(Scope::Partition) => self.tenancy.namespace.is_none(),
            Some(Scope::Namespace | Scope::Undefined) | None => true,
        }
    }

    /// Reads the history of each type, all from one time on. Each is read before the next one is opened, since a server
    /// reads only some at a time. Without a type on the command line, those that the caller may not list are left out.
    async fn kept(
        &self,
        session: &Session,
        catalog: &Catalog,
        wanted: &[Wanted],
        since: Option<Timestamp>,
    ) -> Result<Kept, CliError> {
        let mut kept = Kept::default();
        let mut reach: Option<Reach> = None;
        for wanted in wanted {
            match history::open(session, wanted, since, reach).await {
                Ok((mut follower, reached)) => {
                    kept.events.extend(follower.replay(session, catalog).await?);
                    reach = Some(reached);
                    if self.watch {
                        kept.followers.push(follower);
                    }
                }
                Err(error) if self.what.is_empty() && error.code == Some(tonic::Code::PermissionDenied) => {
                    kept.refused.push(type_name(&wanted.ty));
                }
                Err(error) => return Err(error),
            }
        }
        kept.reach = reach.unwrap_or(Reach { from: None, is_whole: true });
        catalog.fault()?;
        Ok(kept)
    }

    /// Prints the limits of the history, for people.
    fn limits(&self, reach: &Reach, refused: &[String], failures: &Failures, is_empty: bool, ui: &Ui) {
        if self.output != EventFormat::Table {
            return;
        }
        if is_empty {
            ui.note("no events");
        }
        if !reach.is_whole {
            let from = reach.from.map_or_else(|| "now".to_owned(), event::moment_text);
            ui.note(&format!(
                "the server keeps events since {from} (store.history_events, store.history_bytes); older ones are \
                 shown only of named resources, as far as these still have their traces"
            ));
        }
        if !refused.is_empty() {
            ui.note(&format!("left out, since the caller may not list them: {}", refused.join(", ")));
        }
        if let Some(fault) = failures.fault() {
            ui.note(&format!("failures of controllers are left out: {fault}"));
        }
    }
}

/// All places of a scope.
fn everywhere(scope: Option<Scope>) -> pb::Tenancy {
    let (partition, namespace) = match scope {
        Some(Scope::Cluster) => ("", ""),
        Some(Scope::Partition) => ("*", ""),
        Some(Scope::Namespace | Scope::Undefined) | None => ("*", "*"),
    };
    pb::Tenancy { partition: partition.into(), namespace: namespace.into() }
}

/// Prints further events until Ctrl-C, until the server is gone, or until the output is closed.
async fn follow(
    session: &Session,
    catalog: &Catalog,
    wanted: &[Wanted],
    followers: Vec<Follower>,
    mut failures: Failures,
    mut printer: Printer<'_>,
) -> Result<Exit, CliError> {
    let next = |mut follower: Follower| async move {
        let events = follower.next(session, catalog).await;
        (follower, events)
    };
    let mut running: FuturesUnordered<_> = followers.into_iter().map(next).collect();
    let mut look = tokio::time::interval(FAILURES_INTERVAL);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let mut events = tokio::select! {
            Some((follower, events)) = running.next() => {
                running.push(next(follower));
                events?
            }
            _ = look.tick() => failures.new_ones(session, wanted, None).await?,
        };
        events.sort_by_key(Event::moment);
        printer.further(&events)?;
    }
}
