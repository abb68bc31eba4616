//! `mortise diff`: what apply would change.

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    CliError, Connect, Exit, Style, Tenancy, Ui,
    apply::files::{self, Files},
    apply::plan,
    output::ui,
    resources::catalog::Catalog,
};

pub(super) const EXAMPLES: &str = "\
mortise diff -f artist.yaml
mortise diff -f shop/ && echo nothing to do";

/// Questions that are asked at once.
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
        let session = self.connect.session().await?;
        let catalog = Catalog::fetch(&session).await?;
        let documents = files::read(&self.files, &catalog, &self.tenancy, &session)?;
        let mut different = false;
        let (session, catalog) = (&session, &catalog);
        let mut plans = stream::iter(documents)
            .map(|document| async move {
                let plan = plan::plan(session, &document.resource).await.map_err(|e| files::at(&document, e))?;
                Ok::<_, CliError>((document, plan))
            })
            .buffered(IN_FLIGHT);
        while let Some((document, plan)) = plans.try_next().await? {
            super::apply::warn(&document, &plan.warnings, &ui);
            let diff = plan.diff(catalog)?;
            different |= !diff.is_empty();
            ui::print(coloured(&diff, &ui))?;
        }
        Ok(if different { Exit::Different } else { Exit::Done })
    }
}

/// A unified diff, with colours if there are any.
pub(super) fn coloured(diff: &str, ui: &Ui) -> String {
    let mut out = String::with_capacity(diff.len());
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Style::Bold,
            Some(b'+') => Style::Good,
            Some(b'-') => Style::Bad,
            Some(b'@') => Style::Dim,
            _ => Style::Plain,
        };
        out.push_str(&ui.paint(style, line));
        out.push('\n');
    }
    out
}
