//! `mortise diff`: shows what apply would change.

use std::collections::HashSet;

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mortise_resource::pb;

use crate::{
    CliError, Connect, Exit, Tenancy,
    apply::{
        files::{self, Files},
        plan, report,
    },
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{Key, id_of},
    },
};

pub(super) const EXAMPLES: &str = "\
mortise diff -f artist.yaml
mortise diff -f shop/ && echo nothing to do";

/// Most plans requested at once.
const IN_FLIGHT: usize = 16;

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Diff {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let documents = files::read(&self.files, &catalog, &self.tenancy, &session).await?;
        let mut different = false;
        let keys: HashSet<Key> = documents.iter().map(|document| Key::of(&id_of(&document.resource))).collect();
        let (session, catalog, keys) = (&session, &catalog, &keys);
        let mut plans = stream::iter(documents)
            .map(|document| async move {
                let creates = |unit: &pb::Id| keys.contains(&Key::of(unit));
                let plan = plan::dry_run(session, catalog, &document.resource, creates).await;
                let plan = plan.map_err(|e| files::at(&document, e))?;
                Ok::<_, CliError>((document, plan))
            })
            .buffered(IN_FLIGHT);
        while let Some((document, plan)) = plans.try_next().await? {
            report::notes(&document, &plan, &ui);
            let diff = plan.diff(catalog)?;
            different |= !diff.is_empty();
            ui::print(report::coloured(&diff, &ui))?;
        }
        Ok(if different { Exit::Different } else { Exit::Done })
    }
}
