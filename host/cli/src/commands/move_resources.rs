//! `mortise move`: changes the type of resources, such as after a kind was renamed.

use clap::Args;
use mortise_resource::data::MoveRequest;

use crate::{
    CliError, Connect, Exit, Tenancy,
    error::diagnostic_line,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{self, id_of, placed_title},
        places::PlacedName,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise move oldthing/a --to shop.v1.Thing
mortise move shop.v1.OldThing --all --namespace '*' --to shop.v1.Thing --dry-run";

/// Arguments of `move`.
#[derive(Debug, Args)]
pub struct Move {
    /// TYPE NAME… or TYPE/NAME…; with --all, TYPE
    #[arg(value_name = "TYPE NAME", required = true)]
    what: Vec<String>,
    /// The new type; its plugin converts the resources
    #[arg(long, value_name = "TYPE")]
    to: String,
    /// All resources of the type in the namespace; '*' means all namespaces
    #[arg(long)]
    all: bool,
    /// Only shows what would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Move {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let to = catalog.find_type(&self.to)?;
        let mut wanted = Vec::new();
        for selected in ids::selections(&self.what, &catalog, &self.tenancy)? {
            if self.all != selected.names.is_empty() {
                let fault = if self.all { "--all takes a type alone" } else { "no resource is named" };
                return Err(CliError::usage(fault).remedy("give names after the type, or --all"));
            }
            let units = self.tenancy.units_for(&selected.ty, &session, &catalog);
            if self.all {
                let found = ids::list(&session, &selected.ty, units, "").await?;
                wanted.extend(found.iter().map(id_of));
            } else {
                let id = |name: &PlacedName| ids::id(&selected.ty, name, &self.tenancy, &session, &catalog);
                wanted.extend(selected.names.iter().map(id));
            }
        }
        let mut failed = false;
        for id in wanted {
            let title = placed_title(&id);
            let request =
                MoveRequest { id: Some(id), version: String::new(), to: Some(to.clone()), dry_run: self.dry_run };
            match session.call(&title, session.changes().r#move(request)).await {
                Ok(answer) => {
                    for warning in &answer.warnings {
                        ui.warn(&format!("{title}: {}", diagnostic_line(warning)));
                    }
                    let new = placed_title(&id_of(&answer.resource.unwrap_or_default()));
                    let word = if self.dry_run { "would become" } else { "became" };
                    ui::line(format!("{title} {word} {new}"))?;
                }
                Err(error) if error.exit == Exit::Unreachable => return Err(error),
                Err(error) => {
                    failed = true;
                    ui.note(&format!("mortise: {error}"));
                }
            }
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    }
}
