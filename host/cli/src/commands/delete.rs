//! `mortise delete`: deletes by name, by prefix or by files.
//!
//! Each resource is read first and deleted by the uid that was read, so that a new resource of the same name, made
//! meanwhile, stays.

use clap::{ArgAction, Args};
use futures::{StreamExt as _, stream};
use mortise_resource::{goten::LabelSelector, meta, pb};

use crate::{
    CliError, Connect, Exit, Progress, Session, Tenancy,
    apply::files::{self, Files},
    apply::order,
    connect::throttle::Throttle,
    output::{progress::Unit, ui},
    resources::catalog::Catalog,
    resources::deletion_plan,
    resources::ids::{self, id_of, placed_title, read_if_there},
    resources::search::QueryArgs,
    resources::wait,
};

pub(super) const EXAMPLES: &str = "\
mortise delete artist korn
mortise delete artist/korn album/issues --wait
mortise delete albums --prefix korn-
mortise delete artist korn --dry-run
mortise delete -f shop/ --ignore-not-found";

/// Resources after whose deletion a sum is printed.
const MANY: usize = 20;

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// TYPE NAME…, TYPE/NAME…, or TYPE with --prefix or --selector
    #[arg(value_name = "TYPE [NAME]", required_unless_present = "filename", conflicts_with = "filename")]
    what: Vec<String>,
    /// Deletes the resources in a file, a directory, a URL or standard input (-)
    #[arg(short, long, value_name = "FILE|DIR|URL|-", num_args = 1..)]
    filename: Vec<std::path::PathBuf>,
    /// Also reads the directories within a directory
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Deletes all resources of the type with this name prefix; asks first
    #[arg(long, value_name = "PREFIX", conflicts_with = "filename")]
    prefix: Option<String>,
    /// Deletes all resources of the type with these labels, such as app=shop,env!=prod; asks first
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = crate::resources::selector::selector, conflicts_with = "filename")]
    selector: Option<LabelSelector>,
    /// Deletes all resources of the type in the place; asks first
    #[arg(long, conflicts_with_all = ["filename", "prefix", "selector"])]
    all: bool,
    /// Does not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Treats a missing resource as deleted
    #[arg(long)]
    ignore_not_found: bool,
    /// Waits until the resource is gone, finalizers included; at most --timeout
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", hide_default_value = true, action = ArgAction::Set)]
    wait: bool,
    /// Shows all that would follow: what goes now or afterwards, changes, blocks or hangs, and why
    #[arg(long, conflicts_with = "wait", value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "server",
          default_value = "none", hide_default_value = true, value_parser = crate::args::dry_run, action = ArgAction::Set)]
    dry_run: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Delete {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let levels = self.to_delete(&session, &catalog, &ui).await?;
        let Some(levels) = levels else {
            ui::line("nothing was deleted")?;
            return Ok(Exit::Done);
        };
        let count = levels.iter().map(Vec::len).sum::<usize>();
        let progress = Progress::begin("deleting", Some(count as u64), Unit::Items);
        let (mut waiting, mut failed) = (0, 0_usize);
        let mut gone = Vec::new();
        for level in levels {
            let (this, session, throttle) = (&self, &session, Throttle::default());
            let throttle = &throttle;
            let mut deleting = stream::iter(level)
                .map(|id| async move {
                    let done = throttle.call(async || this.one(session, &id).await).await;
                    (id, done)
                })
                .buffered(Throttle::MOST);
            while let Some((id, done)) = deleting.next().await {
                progress.advance(1);
                match done {
                    Ok(Some(Described { id: deleted, how, waits })) => {
                        progress.suspend(|| ui::line(format!("{} {how}", placed_title(&deleted))))?;
                        waiting += usize::from(waits);
                        gone.push(deleted);
                    }
                    Ok(None) if self.ignore_not_found => {}
                    Ok(None) => {
                        failed += 1;
                        let fault = match id.uid.as_str() {
                            "" => "resource not found".to_owned(),
                            uid => format!("nothing deleted: no resource of this name has the uid {uid}"),
                        };
                        progress.suspend(|| ui.note(&format!("mortise: {}: {fault}", placed_title(&id))));
                    }
                    Err(error) if error.exit == Exit::Unreachable => return Err(error),
                    Err(error) => {
                        failed += 1;
                        progress.suspend(|| ui.note(&format!("mortise: {error}")));
                    }
                }
            }
        }
        drop(progress);
        if count > MANY {
            let mut sum = format!("{} deleted", gone.len() - waiting);
            for (number, what) in [(waiting, "waiting for finalizers"), (failed, "failed")] {
                if number > 0 {
                    sum.push_str(&format!(", {number} {what}"));
                }
            }
            ui::line(if self.dry_run { format!("{sum} (dry run)") } else { sum })?;
        }
        if self.wait {
            for id in &gone {
                wait::until_gone(&session, id).await?;
            }
        }
        Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
    }

    /// Resources to delete, by levels: owned resources before their owners, and the content of a namespace or partition
    /// before the unit itself. `None` if the user answers no or nothing matches.
    async fn to_delete(
        &self,
        session: &Session,
        catalog: &Catalog,
        ui: &crate::Ui,
    ) -> Result<Option<Vec<Vec<pb::Id>>>, CliError> {
        if !self.filename.is_empty() {
            let files = Files { filename: self.filename.clone(), recursive: self.recursive, format: None };
            let levels = order::levels(files::read(&files, catalog, &self.tenancy, session).await?)?;
            let ids = |level: Vec<mortise_text::Document>| level.iter().map(|d| id_of(&d.resource)).collect();
            return Ok(Some(levels.into_iter().rev().map(ids).collect()));
        }
        let wanted = ids::selections(&self.what, catalog, &self.tenancy)?;
        let named = wanted.iter().any(|wanted| !wanted.names.is_empty());
        let chosen = self.all || self.prefix.is_some() || self.selector.is_some();
        if named == chosen {
            let fault =
                if named { "give either names, or --prefix, --selector or --all" } else { "no resource is named" };
            return Err(CliError::usage(fault).remedy("give names after the type, --prefix, --selector, --all or -f"));
        }
        let mut ids = Vec::new();
        for wanted in &wanted {
            ids.extend(wanted.names.iter().map(|name| ids::id(&wanted.ty, name, &self.tenancy, session, catalog)));
            if chosen {
                let units = self.tenancy.units_for(&wanted.ty, session, catalog);
                let prefix = self.prefix.as_deref().unwrap_or_default();
                let found = match &self.selector {
                    Some(selector) => {
                        let query = QueryArgs::by(Some(selector.clone()), "");
                        query.search(session, &wanted.ty, units, prefix, ui).await?.resources
                    }
                    None => ids::list(session, &wanted.ty, units, prefix).await?,
                };
                ids.extend(found.iter().map(id_of));
            }
        }
        if chosen && !ids.is_empty() && !self.yes && !self.dry_run {
            for id in &ids {
                ui.note(&format!("  {}", placed_title(id)));
            }
            let these =
                if ids.len() == 1 { "this resource".to_owned() } else { format!("these {} resources", ids.len()) };
            if !ui::confirm(&format!("Delete {these}?"), "--yes")? {
                return Ok(None);
            }
        }
        Ok((!chosen || !ids.is_empty()).then(|| vec![ids]))
    }

    /// Deletes one resource, and describes the result; `None` when it does not exist.
    async fn one(&self, session: &Session, id: &pb::Id) -> Result<Option<Described>, CliError> {
        let Some(stored) = read_if_there(session, id).await? else { return Ok(None) };
        let found = id_of(&stored);
        if self.dry_run {
            let how = deletion_plan::described(session, &found, "deleted").await?;
            return Ok(Some(Described { id: found, how, waits: false }));
        }
        let request = pb::DeleteRequest { id: Some(found.clone()), version: String::new() };
        let answer = session.call(placed_title(id), async { session.resources().delete(request).await }).await?;
        ui::warn(&placed_title(id), &answer.warnings, &self.connect.ui());
        // A resource that refers to it may hold it, too.
        let now = read_if_there(session, &found).await?.unwrap_or_default();
        let finalizers: Vec<_> = meta::finalizers(&now.metadata).into_iter().collect();
        let how = if finalizers.is_empty() {
            "deleted".to_owned()
        } else {
            format!("marked for deletion; waiting for finalizers: {}", finalizers.join(" "))
        };
        Ok(Some(Described { id: found, how, waits: !finalizers.is_empty() }))
    }
}

/// A deletion of one resource.
struct Described {
    id: pb::Id,
    /// Effect, in words.
    how: String,
    /// Finalizers keep the resource.
    waits: bool,
}
