//! `mortise get --watch`: the watches of a command, shown as lines or as a table on a terminal.

use std::time::Duration;

use futures::{StreamExt as _, stream::FuturesUnordered};
use mortise_resource::{
    backoff::{Backoff, Waits},
    data::SearchRequest,
    pb,
};

use super::{
    Get, changes, page,
    sink::{LiveTable, Sink},
    watch::{self, Listed},
};
use crate::{
    CliError, CriticalSection, Exit, Session, Ui,
    live::{
        Section,
        page::{Page, Updates},
        screen,
    },
    resources::{
        catalog::Catalog,
        ids::{self, Selection, placed_title, type_name},
    },
};

/// First and longest pause before a table on a terminal asks a server again that went away.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// A watch of a type.
struct Watched {
    ty: pb::Type,
    way: Way,
}

/// Kind of a watch.
enum Way {
    /// One page of a query, in its order.
    Page(SearchRequest),
    /// The result of a query.
    Query(SearchRequest),
    /// Resources by their place and their names.
    List(Listed),
}

impl Get {
    pub(super) async fn watch(
        &self,
        wanted: &[Selection],
        is_all: bool,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Exit, CliError> {
        let all = wanted.iter().map(|wanted| self.watched(wanted, session, catalog));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        // A watch that continues has only changes, which are no table.
        let is_live = self.output.is_table() && !self.lines && self.resume.is_empty() && screen::is_there();
        match all.as_slice() {
            all if is_live => self.table(all, is_all, session, catalog, ui).await,
            [Watched { way: Way::Query(query), .. }] => self.continued(query, session, catalog, ui).await,
            all => self.many_lines(all, is_all, session, catalog, ui).await,
        }
    }

    fn watched(&self, wanted: &Selection, session: &Session, catalog: &Catalog) -> Result<Watched, CliError> {
        let Selection { ty, names } = wanted;
        let units = self.units(ty, session, catalog);
        let by_query = self.query.chooses() || self.query.projects() || !self.resume.is_empty();
        if by_query && !names.is_empty() {
            return Err(CliError::usage("names show whole resources: leave --view, --fields and --resume out"));
        }
        let query = || self.query.request(ty, units.clone(), &self.prefix);
        let way = match () {
            () if self.query.is_ordered() => Way::Page(query()),
            () if by_query => Way::Query(query()),
            () => Way::List(self.by_names(wanted, &units, session, catalog)?),
        };
        Ok(Watched { ty: ty.clone(), way })
    }

    fn by_names(
        &self,
        Selection { ty, names }: &Selection,
        units: &pb::Tenancy,
        session: &Session,
        catalog: &Catalog,
    ) -> Result<Listed, CliError> {
        let named: Vec<pb::Id> = names.iter().map(|name| ids::id(ty, name, &self.tenancy, session, catalog)).collect();
        let fault = |id: &pb::Id| Some(format!("{}: {}", placed_title(id), mortise_resource::name::fault(&id.name)?));
        if let Some(fault) = named.iter().find_map(fault) {
            return Err(CliError::usage(fault));
        }
        let units = named.first().and_then(|id| id.tenancy.clone()).unwrap_or_else(|| units.clone());
        if named.iter().any(|id| id.tenancy.as_ref() != Some(&units)) {
            return Err(CliError::usage("one place can be watched at a time").remedy("-A watches every place"));
        }
        let prefix = match named.as_slice() {
            [single] => single.name.clone(),
            _ => self.prefix.clone(),
        };
        Ok(Listed { units, prefix, names: named.into_iter().map(|id| id.name).collect() })
    }

    fn printer<'c>(&self, ty: &pb::Type, typed: bool, catalog: &'c Catalog, ui: &'c Ui) -> watch::Printer<'c> {
        let rows = self.rows(catalog, ty, typed, true, false);
        watch::Printer::new(self.output.clone(), rows, self.shown(catalog), ui, !typed)
    }

    /// Prints the result of a query and its changes. Ctrl-C prints the token of the last change.
    async fn continued(
        &self,
        query: &SearchRequest,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Exit, CliError> {
        let mut printer = self.printer(&query.r#type.clone().unwrap_or_default(), false, catalog, ui);
        let mut resume = self.resume.clone();
        let _section = CriticalSection::enter();
        let ended = tokio::select! {
            ended = changes::follow(session, query, &mut resume, &mut printer) => ended.map(|()| Exit::Done),
            interrupted = tokio::signal::ctrl_c() => match interrupted {
                Ok(()) => Ok(Exit::Interrupted),
                Err(error) => Err(CliError::failed("cannot listen for Ctrl-C").caused_by(error)),
            },
        };
        if !resume.is_empty() {
            ui.note(&format!("to continue from here: --resume {resume}"));
        }
        ended
    }

    /// Prints the changes of types beside each other, until the first watch ends.
    async fn many_lines(
        &self,
        all: &[Watched],
        is_all: bool,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Exit, CliError> {
        let lines = async |watched: &Watched| match &watched.way {
            Way::Page(query) => {
                let show = async |page: &_| self.show_page(&watched.ty, page, catalog, ui);
                page::follow(session, query.clone(), show).await
            }
            Way::Query(query) => {
                let mut printer = self.printer(&watched.ty, all.len() > 1, catalog, ui);
                changes::follow(session, query, &mut String::new(), &mut printer).await
            }
            Way::List(listed) => {
                let mut printer = self.printer(&watched.ty, all.len() > 1, catalog, ui);
                watch::follow(session, &watched.ty, listed, &mut printer).await
            }
        };
        let mut running: FuturesUnordered<_> =
            all.iter().map(async |watched| (watched, lines(watched).await)).collect();
        while let Some((watched, ended)) = running.next().await {
            match ended {
                Err(error) if is_all && error.code == Some(tonic::Code::PermissionDenied) => {
                    ui.note(&format!("left out, since the caller may not list it: {}", type_name(&watched.ty)));
                }
                ended => return ended.map(|()| Exit::Done),
            }
        }
        Ok(Exit::Done)
    }

    /// Shows the changes in tables on the terminal, which go on when the server comes back.
    async fn table(
        &self,
        all: &[Watched],
        is_all: bool,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Exit, CliError> {
        let rows = |watched: &Watched| self.rows(catalog, &watched.ty, all.len() > 1, false, false);
        let sections = all.iter().map(|watched| {
            let rows = rows(watched);
            Section::new(&rows.table, rows.age_position(), &type_name(&watched.ty))
        });
        let names: Vec<_> = all.iter().map(|watched| type_name(&watched.ty)).collect();
        let page = Page::new(&format!("{} at {}", names.join(", "), session.url()), sections.collect(), ui.color);
        let source = async |updates: Updates| {
            let tables = all.iter().enumerate().map(|(section, watched)| {
                let table = LiveTable { section, rows: rows(watched), catalog, updates: updates.clone() };
                kept_up(watched, is_all, session, table)
            });
            let mut running: FuturesUnordered<_> = tables.collect();
            match running.next().await {
                Some(Err(error)) => Err(error),
                Some(Ok(())) | None => Ok(Exit::Done),
            }
        };
        crate::live::page::run(page, source).await
    }
}

/// Keeps a table up to date, until the server refuses. While the server is away, it is asked again and again.
async fn kept_up(watched: &Watched, is_all: bool, session: &Session, mut table: LiveTable<'_>) -> Result<(), CliError> {
    let mut waits = Waits::new(Backoff::new(MIN_PAUSE, MAX_PAUSE));
    let mut resume = String::new();
    loop {
        let began_at = tokio::time::Instant::now();
        let ended = match &watched.way {
            Way::Page(query) => page::follow(session, query.clone(), async |page: &_| table.page(page).await).await,
            Way::Query(query) => changes::follow(session, query, &mut resume, &mut table).await,
            Way::List(listed) => watch::follow(session, &watched.ty, listed, &mut table).await,
        };
        let fault = match ended {
            Err(error) if matches!(error.exit, Exit::Unreachable | Exit::TimedOut) => error.message,
            Err(error) if is_all && error.code == Some(tonic::Code::PermissionDenied) => {
                table.fault(&error.message).await?;
                return std::future::pending().await;
            }
            ended => return ended,
        };
        table.fault(&format!("no changes, trying again: {fault}")).await?;
        if began_at.elapsed() > MAX_PAUSE {
            waits.reset();
        }
        tokio::time::sleep(waits.next_wait()).await;
    }
}
