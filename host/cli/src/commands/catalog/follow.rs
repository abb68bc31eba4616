//! `mortise catalog load --follow`: keeps the resources as a file is, deletions included.
//!
//! Every resource that the command writes has the label `catalog-source`, with the name of the source. Only resources
//! with this label and name are deleted. A resource of another source is an error, and nothing changes then. The plan
//! is shown before every change, and the command asks unless `--yes` is given.
//!
//! The files are looked at twice a second, and read when they have settled. With `--yes`, the resources are compared
//! with the file every 30 seconds, too. A file with a fault changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use mortise_resource::{goten::LabelSelector, name};
use sha2::{Digest as _, Sha256};

use super::{
    items::{self, Item, KINDS},
    load::{Load, Loaded, print_remarks},
    plan::resource_name,
};
use crate::{
    CliError, Exit, Session, Ui,
    apply::plan::Change,
    commands::prune,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{Key, id_of, placed_title},
    },
};

/// Label of the resources that a source made.
const SOURCE_LABEL: &str = "catalog-source";

/// Time between two looks at the files.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Time between two comparisons with the server, with `--yes`, and between two attempts after a failure.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

/// State of a file by which a change is noticed; `None` if the file is absent.
type FileState = Option<(SystemTime, u64, u64)>;

/// Result of bringing the resources into the state of the file.
#[derive(Debug, PartialEq, Eq)]
enum Pass {
    /// The resources are as the file is.
    Unchanged,
    /// The changes are made.
    Changed,
    /// Something was refused.
    Failed,
    /// The user refused the plan.
    Declined,
}

impl Load {
    /// Follows the file until Ctrl-C; with `--dry-run`, shows the first plan.
    pub(super) async fn run_follow(&self, ui: &Ui) -> Result<Exit, CliError> {
        let source = self.source_name()?;
        let mut files = vec![self.file.clone()];
        let (loaded, mut seen) = self.read_settled(&mut files)?;
        let (session, catalog) = self.connect_to_catalog().await?;
        print_remarks(&loaded.plan, ui);
        let mut pass = self.pass(loaded, &source, &session, &catalog, ui).await?;
        if pass == Pass::Unchanged {
            ui::line(format!("the catalog is as {} is", self.file.display()))?;
        }
        if self.dry_run {
            return Ok(if pass == Pass::Failed { Exit::Failed } else { Exit::Done });
        }
        ui::line(format!("following {} as the source {source}", self.file.display()))?;
        let mut shown = None;
        loop {
            wait_for_change(&files, &seen, self.yes || pass == Pass::Failed).await;
            let outcome = match self.read_settled(&mut files) {
                Ok((loaded, state)) => {
                    if state != seen {
                        (seen, shown) = (state, None);
                        print_remarks(&loaded.plan, ui);
                    }
                    self.pass(loaded, &source, &session, &catalog, ui).await
                }
                Err(error) => {
                    seen = files.iter().map(|file| state(file)).collect();
                    Err(error)
                }
            };
            pass = match outcome {
                Ok(pass) => pass,
                Err(error) if error.exit == Exit::Closed => return Err(error),
                Err(error) => {
                    // A failure that lasts is printed once.
                    if shown.as_ref() != Some(&error) {
                        ui.note(&format!("mortise: {error}"));
                    }
                    shown = Some(error);
                    Pass::Failed
                }
            };
        }
    }

    /// Reads the source, and all files that belong to it in the state that is returned.
    fn read_settled(&self, files: &mut Vec<PathBuf>) -> Result<(Loaded, Vec<FileState>), CliError> {
        loop {
            let before: Vec<_> = files.iter().map(|file| state(file)).collect();
            let loaded = self.load()?;
            if loaded.files == *files {
                return Ok((loaded, before));
            }
            files.clone_from(&loaded.files);
        }
    }

    /// Shows the plan, asks, and makes the changes.
    async fn pass(
        &self,
        loaded: Loaded,
        source: &str,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Pass, CliError> {
        let Loaded { plan, .. } = loaded;
        self.check(&plan)?;
        let labels = BTreeMap::from([(SOURCE_LABEL.to_owned(), source.to_owned())]);
        let units = self.tenancy.units(session);
        let planned = items::plan_all(items::items(plan, &units, &labels), session, catalog).await;
        let in_file: BTreeSet<Key> = planned.iter().map(|(item, _)| Key::of(&id_of(&item.resource))).collect();
        let scope = planned.iter().filter_map(|(item, _)| id_of(&item.resource).tenancy).flat_map(|units| {
            KINDS.map(|kind| (items::type_of(kind), units.partition.clone(), units.namespace.clone()))
        });
        let selector = LabelSelector { match_labels: labels, ..LabelSelector::default() };
        let gone = prune::find(session, &selector, scope.collect(), &in_file, ui).await?;
        let changed: Vec<_> = planned
            .into_iter()
            .filter(|(_, plan)| !plan.as_ref().is_ok_and(|plan| plan.change == Change::Unchanged))
            .collect();
        if changed.is_empty() && gone.is_empty() {
            return Ok(Pass::Unchanged);
        }
        for (item, plan) in &changed {
            let before =
                plan.as_ref().ok().and_then(|plan| plan.before.as_ref()).and_then(|stored| stored.meta.as_ref());
            if let Some(other) = before.and_then(|meta| meta.labels.get(SOURCE_LABEL)).filter(|other| *other != source)
            {
                let title = placed_title(&id_of(&item.resource));
                return Err(CliError::failed(format!(
                    "{}: {title} is of the source {other:?}; nothing was done",
                    item.place
                ))
                .remedy(format!("give --source {other}, or remove its label {SOURCE_LABEL}")));
            }
        }
        let counts = items::print_plans(&changed, catalog, ui)?;
        prune::describe(session, &gone).await?;
        ui::line(format!("{}, {} to delete", counts.sentence(true), gone.len()))?;
        if counts.has_failed() {
            return Ok(Pass::Failed);
        }
        if self.dry_run {
            return Ok(Pass::Changed);
        }
        if !self.yes && !ui::confirm("Make these changes?", "--yes")? {
            ui::line("nothing was changed")?;
            return Ok(Pass::Declined);
        }
        let changed: Vec<Item> = changed.into_iter().map(|(item, _)| item).collect();
        let counts = items::write_all(changed, session, catalog, ui).await?;
        ui::line(counts.sentence(false))?;
        if counts.has_failed() {
            ui.warn("nothing was deleted, since not everything was written");
            return Ok(Pass::Failed);
        }
        let exit = prune::delete(session, gone, ui).await?;
        Ok(if exit == Exit::Done { Pass::Changed } else { Pass::Failed })
    }

    /// The name of the source: as given, else by the file's name, its path and this machine.
    fn source_name(&self) -> Result<String, CliError> {
        if let Some(given) = &self.source {
            return match name::is_valid(given) {
                true => Ok(given.clone()),
                false => Err(CliError::usage(format!("{given:?} cannot be the name of a source"))
                    .remedy("give 1 to 63 lower-case letters, digits and dashes")),
            };
        }
        let path = self.file.canonicalize().map_err(|error| CliError::file("cannot read", &self.file, error))?;
        let mut hash = Sha256::new();
        hash.update(rustix::system::uname().nodename().to_bytes());
        hash.update([0]);
        hash.update(path.as_os_str().as_encoded_bytes());
        let hash: String = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let file: String = file.chars().take(48).collect();
        Ok(format!("{}-{hash}", resource_name(&file).unwrap_or_else(|| "file".to_owned())))
    }
}

fn state(file: &Path) -> FileState {
    let data = file.metadata().ok()?;
    Some((data.modified().ok()?, data.len(), data.ino()))
}

/// Waits until a file has changed and settled, or, if `resyncs`, at most [`RESYNC_INTERVAL`].
async fn wait_for_change(files: &[PathBuf], seen: &[FileState], resyncs: bool) {
    let begin = Instant::now();
    let look = || files.iter().map(|file| state(file)).collect::<Vec<_>>();
    let mut last = look();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = look();
        let is_settled = now == last;
        if is_settled && (now != seen || (resyncs && begin.elapsed() >= RESYNC_INTERVAL)) {
            return;
        }
        last = now;
    }
}
