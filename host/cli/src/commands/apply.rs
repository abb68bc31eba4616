//! `mortise apply`: brings the stored resources into the state that files describe.
//!
//! Partitions and namespaces are written before their content, and owners before what they own, which gets the owner's
//! uid. A document with a missing reference is tried again after the others. A changed document costs three calls:
//! read, MutateAndValidate, write; one that is already stored byte for byte costs the read alone. Up to
//! [`Throttle::MOST`] resources are in flight at once, so that the server's writers share their syncs; fewer when the
//! server is overloaded. Resources that are already as wanted are not written.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use clap::{ArgAction, Args};
use futures::{StreamExt as _, stream};
use mortise_resource::{Diagnostic, goten::LabelSelector, meta, pb};
use mortise_text::Document;
use tonic::Code;

use super::{
    only::{self, ChangeArgs, WriteMode},
    prune,
};
use crate::{
    CliError, Connect, Exit, Progress, Session, Tenancy, Ui,
    apply::{
        files::{self, Files},
        order,
        plan::{self, Change, Plan},
        report,
    },
    connect::throttle::Throttle,
    output::{progress::Unit, ui},
    resources::{
        catalog::Catalog,
        deletion_plan,
        ids::{Key, id_of, placed_title, refers_to_nothing},
        state::{self, WantedState},
        wait,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise apply -f artist.yaml
cat artists.json | mortise apply -f -
mortise apply -f https://example.com/artists.yaml --dry-run
mortise apply -f shop/ --dry-run
mortise apply -f shop/ --prune -l app=shop
mortise apply -f artist.yaml --wait condition=Accepted --timeout 1m";

/// Failures printed one by one; the rest are only counted.
const MAX_TOLD: usize = 50;

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    files: Files,
    /// Shows what would change and writes nothing; the server fills in defaults and validates
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "server",
          default_value = "none", hide_default_value = true, value_parser = crate::args::dry_run, action = ArgAction::Set)]
    dry_run: bool,
    /// Prints only counts, not single resources
    #[arg(short, long)]
    quiet: bool,
    /// Deletes resources that match --selector and are not in the files; asks first
    #[arg(long, requires = "selector")]
    prune: bool,
    /// Labels of the resources to prune, such as app=shop,env!=prod
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = crate::resources::selector::selector, requires = "prune")]
    selector: Option<LabelSelector>,
    /// Types to prune besides those in the files
    #[arg(long, value_name = "TYPE", value_delimiter = ',', requires = "prune")]
    prune_types: Vec<String>,
    /// Namespaces to prune besides those in the files
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', requires = "prune")]
    prune_namespaces: Vec<String>,
    /// Does not ask before pruning
    #[arg(short, long)]
    yes: bool,
    /// Waits until every resource has a condition, such as condition=Accepted or condition=Accepted=false; at most
    /// --timeout
    #[arg(long, value_name = "CONDITION", value_parser = state::condition, conflicts_with = "dry_run")]
    wait: Option<WantedState>,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
    /// Set by the commands that share this one's work.
    #[arg(skip)]
    mode: WriteMode,
}

/// Counts of the results so far.
#[derive(Default)]
pub(super) struct Counts {
    created: usize,
    updated: usize,
    unchanged: usize,
    failed: usize,
    skipped: usize,
}

/// Result of one document.
pub(super) enum Outcome {
    /// The resource is as wanted; holds the stored resource.
    Done(Change, Box<pb::Resource>, Vec<Diagnostic>),
    /// The document was only planned.
    Planned(Box<Plan>),
    /// The owner, in the same set, could not be written.
    Orphan,
    Failed(CliError),
}

impl Apply {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let documents = files::read(&self.files, &catalog, &self.tenancy, &session).await?;
        self.carry_out(documents, &session, &catalog, &ui).await
    }

    /// Makes the command that writes files in another mode.
    pub(super) fn in_mode(mode: WriteMode, args: ChangeArgs) -> Self {
        let ChangeArgs { files, dry_run, quiet, tenancy, connect } = args;
        let (prune_types, prune_namespaces) = (Vec::new(), Vec::new());
        let (prune, selector, yes, wait) = (false, None, false, None);
        Self {
            files,
            dry_run,
            quiet,
            prune,
            selector,
            prune_types,
            prune_namespaces,
            yes,
            wait,
            tenancy,
            connect,
            mode,
        }
    }

    /// Writes documents, prunes and waits.
    pub(super) async fn carry_out(
        self,
        documents: Vec<Document>,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Exit, CliError> {
        let prune_types = self.prune_types.iter().map(|name| catalog.find_type(name)).collect::<Result<Vec<_>, _>>()?;
        let in_files: BTreeSet<Key> = documents.iter().map(|document| Key::of(&id_of(&document.resource))).collect();
        let scope = prune::scope(&documents, &prune_types, &self.prune_namespaces, &self.tenancy, session, catalog);
        if let Some(selector) = &self.selector {
            prune::warn_of_unselected(&documents, selector, ui)?;
        }

        let mut counts = Counts::default();
        let count = documents.len();
        let levels = order::levels(documents)?;
        let written = self.apply(levels, count, session, catalog, ui, &mut counts).await?;
        if self.quiet || count > 20 || counts.failed > 0 {
            ui::line(counts.sentence(self.dry_run))?;
        }
        if counts.failed > 0 {
            if self.prune {
                ui.warn("nothing was pruned, since not everything was applied");
            }
            return Ok(Exit::Failed);
        }
        if let Some(selector) = self.selector.as_ref().filter(|_| self.prune) {
            let exit = prune::prune(session, selector, scope, &in_files, self.dry_run, self.yes, ui).await?;
            if exit != Exit::Done {
                return Ok(exit);
            }
        }
        if let Some(condition) = &self.wait {
            wait::until(session, catalog, &written, condition).await?;
            ui::line(format!("condition met: {condition}"))?;
        }
        Ok(Exit::Done)
    }

    /// Writes level after level, and returns the stored resources.
    async fn apply(
        &self,
        levels: Vec<Vec<Document>>,
        count: usize,
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
        counts: &mut Counts,
    ) -> Result<Vec<pb::Resource>, CliError> {
        let progress = Progress::begin("applying", Some(count as u64), Unit::Items);
        // Uids of the resources that are done, since later ones may have them as owner; empty in a dry run, `None`
        // after a failure.
        let done: Arc<Mutex<HashMap<Key, Option<String>>>> = Arc::default();
        let throttle = Throttle::default();
        let mut written = Vec::new();
        let mut levels = levels.into_iter();
        // Documents with a missing reference and the documents that they own, each with its outcome if the reference
        // never comes.
        let mut waiting: Vec<(Document, Outcome)> = Vec::new();
        loop {
            let next = levels.next();
            let (is_last, tried) = (next.is_none(), waiting.len());
            if is_last && waiting.is_empty() {
                return Ok(written);
            }
            let again = std::mem::take(&mut waiting);
            let mut unwritten: HashSet<Key> = again.iter().map(|(item, _)| Key::of(&id_of(&item.resource))).collect();
            let mut now = Vec::new();
            let again = again.into_iter().map(|(document, _)| document);
            for document in next.unwrap_or_default().into_iter().chain(again) {
                // A resource waits together with its owner.
                match document.resource.owner.as_ref().is_some_and(|owner| unwritten.contains(&Key::of(owner))) {
                    true => {
                        unwritten.insert(Key::of(&id_of(&document.resource)));
                        waiting.push((document, Outcome::Orphan));
                    }
                    false => now.push(document),
                }
            }
            let mut coming = stream::iter(now)
                .map(|document| {
                    let (done, throttle) = (Arc::clone(&done), &throttle);
                    async move {
                        let outcome = self.one(&document, &done, throttle, session, catalog).await;
                        let going = going(session, &document, &outcome).await;
                        (document, outcome, going)
                    }
                })
                .buffered(Throttle::MOST);
            while let Some((document, outcome, going)) = coming.next().await {
                let outcome = match outcome {
                    Outcome::Failed(error) if refers_to_nothing(&error) => {
                        waiting.push((document, Outcome::Failed(error)));
                        continue;
                    }
                    outcome => outcome,
                };
                let id = id_of(&document.resource);
                let uid = match &outcome {
                    Outcome::Done(_, resource, _) => Some(id_of(resource).uid),
                    Outcome::Planned(_) => Some(String::new()),
                    Outcome::Orphan | Outcome::Failed(_) => None,
                };
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(Key::of(&id), uid);
                progress.advance(1);
                if let Some(resource) = progress.suspend(|| self.tell(&document, outcome, catalog, ui, counts))?
                    && self.wait.is_some()
                {
                    written.push(resource);
                }
                if let Some(held) = going.filter(|_| counts.failed <= MAX_TOLD) {
                    progress.suspend(|| ui.note(&format!("{} is being deleted, and {held}", placed_title(&id))));
                }
            }
            if is_last && waiting.len() == tried {
                for (document, outcome) in waiting {
                    progress.suspend(|| self.tell(&document, outcome, catalog, ui, counts))?;
                }
                return Ok(written);
            }
        }
    }

    async fn one(
        &self,
        document: &Document,
        done: &Mutex<HashMap<Key, Option<String>>>,
        throttle: &Throttle,
        session: &Session,
        catalog: &Catalog,
    ) -> Outcome {
        let known = |id: &pb::Id| done.lock().unwrap_or_else(PoisonError::into_inner).get(&Key::of(id)).cloned();
        let mut wanted = document.resource.clone();
        if let Some(owner) = wanted.owner.as_mut().filter(|owner| owner.uid.is_empty()) {
            match known(owner) {
                Some(Some(uid)) => owner.uid = uid,
                Some(None) => return Outcome::Orphan,
                // The owner is not in this set: the server looks it up.
                None => {}
            }
        }
        let outcome = throttle.call(async || {
            if self.mode != WriteMode::Apply {
                only::write(self.mode, self.dry_run, session, catalog, wanted.clone()).await
            } else if self.dry_run {
                let creates = |unit: &pb::Id| matches!(known(unit), Some(Some(_)));
                plan::dry_run(session, catalog, &wanted, creates).await.map(|plan| Outcome::Planned(Box::new(plan)))
            } else {
                write(session, catalog, wanted.clone()).await
            }
        });
        outcome.await.unwrap_or_else(Outcome::Failed)
    }

    /// Prints the result of a document, and returns the stored resource. Fails only when the server is unreachable.
    fn tell(
        &self,
        document: &Document,
        outcome: Outcome,
        catalog: &Catalog,
        ui: &Ui,
        counts: &mut Counts,
    ) -> Result<Option<pb::Resource>, CliError> {
        let name = placed_title(&id_of(&document.resource));
        match outcome {
            Outcome::Done(change, resource, warnings) => {
                counts.count(change);
                report::warnings(document, &warnings, ui);
                if !self.quiet {
                    ui::line(format!("{name} {}", change.word()))?;
                }
                return Ok(Some(*resource));
            }
            Outcome::Planned(plan) => {
                counts.count(plan.change);
                report::notes(document, &plan, ui);
                if !self.quiet {
                    ui::print(report::coloured(&plan.diff(catalog)?, ui))?;
                    ui::line(format!("{name} {} (dry run)", plan.change.word()))?;
                }
            }
            Outcome::Orphan => {
                counts.failed += 1;
                counts.skipped += 1;
                if counts.failed <= MAX_TOLD {
                    ui.note(&format!("mortise: {}: {name}: skipped, since its owner failed", document.place));
                }
            }
            Outcome::Failed(error) if error.exit == Exit::Unreachable => return Err(error),
            Outcome::Failed(error) => {
                counts.failed += 1;
                if counts.failed <= MAX_TOLD {
                    ui.note(&format!("mortise: {}", files::at(document, error)));
                }
            }
        }
        Ok(None)
    }
}

/// Describes the reasons for which the stored resource is there, if it is being deleted: a write of it may be refused, and
/// will not stay. `None` for others.
async fn going(session: &Session, document: &Document, outcome: &Outcome) -> Option<String> {
    let stored = match outcome {
        Outcome::Done(_, resource, _) => resource.as_ref().clone(),
        Outcome::Planned(plan) => plan.before.clone()?,
        Outcome::Failed(error) if matches!(error.code, Some(Code::InvalidArgument | Code::FailedPrecondition)) => {
            // The failure itself is reported in any case.
            plan::stored(session, &document.resource).await.ok().flatten()?
        }
        Outcome::Failed(_) | Outcome::Orphan => return None,
    };
    match meta::is_marked(&stored.metadata) && meta::has_finalizers(&stored.metadata) {
        true => Some(deletion_plan::held(session, &stored).await),
        false => None,
    }
}

/// Reads the stored resource, and writes unless it is as wanted.
pub(super) async fn write(session: &Session, catalog: &Catalog, wanted: pb::Resource) -> Result<Outcome, CliError> {
    let id = id_of(&wanted);
    let change = match plan::stored(session, &wanted).await? {
        None => Change::Created,
        Some(stored) if plan::same(&wanted, &stored) => {
            return Ok(Outcome::Done(Change::Unchanged, stored.into(), Vec::new()));
        }
        Some(stored) => {
            // The server's defaults may be the only difference.
            let plan = plan::plan(session, catalog, &wanted, Some(stored)).await?;
            match (plan.change, plan.before) {
                (Change::Unchanged, Some(stored)) => {
                    return Ok(Outcome::Done(Change::Unchanged, stored.into(), plan.warnings));
                }
                (change, _) => change,
            }
        }
    };
    let conditional = !wanted.version.is_empty();
    let request = pb::WriteRequest { resource: Some(wanted) };
    let call = async { session.resources().write(request).await };
    let answer = session.call(placed_title(&id), call).await.map_err(|error| match error.code {
        Some(Code::Aborted) if conditional => {
            error.remedy("it changed after the file was read; remove version from the file to overwrite it")
        }
        _ => error,
    })?;
    Ok(Outcome::Done(change, answer.resource.unwrap_or_default().into(), answer.warnings))
}

impl Counts {
    pub(super) fn count(&mut self, change: Change) {
        match change {
            Change::Created => self.created += 1,
            Change::Updated => self.updated += 1,
            Change::Unchanged => self.unchanged += 1,
        }
    }

    pub(super) fn fail(&mut self) {
        self.failed += 1;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed > 0
    }

    pub(super) fn sentence(&self, dry_run: bool) -> String {
        let Self { created, updated, unchanged, failed, skipped } = self;
        let mut text = format!("{created} created, {updated} updated, {unchanged} unchanged");
        if *failed > 0 {
            text.push_str(&format!(", {failed} failed"));
        }
        if *skipped > 0 {
            text.push_str(&format!(" ({skipped} skipped: their owner failed)"));
        }
        if dry_run {
            text.push_str(" (dry run)");
        }
        text
    }
}
