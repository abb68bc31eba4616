//! `mortise adopt`: takes over something that exists outside, as the type's plugin describes it.

use clap::Args;
use mortise_resource::data::ImportRequest;

use crate::{
    CliError, Connect, Exit, Tenancy,
    error::diagnostic_line,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{id_of, placed_title},
        show,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise adopt route default.default.web.conf --dry-run
mortise adopt route default.default.web.conf --name web";

/// Arguments of `adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// The type of the new resource
    #[arg(value_name = "TYPE")]
    kind: String,
    /// The name outside, in a form that the type's plugin knows
    #[arg(value_name = "EXTERNAL-ID")]
    external_id: String,
    /// The name of the resource [default: chosen by the plugin]
    #[arg(long)]
    name: Option<String>,
    /// Only shows the resource that would be stored
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Adopt {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let kind = catalog.find_type(&self.kind)?;
        let request = ImportRequest {
            tenancy: Some(self.tenancy.units_for(&kind, &session, &catalog)),
            r#type: Some(kind),
            external_id: self.external_id.clone(),
            name: self.name.unwrap_or_default(),
            dry_run: self.dry_run,
        };
        let answer = session.call(&self.external_id, session.changes().import(request)).await?;
        for warning in &answer.warnings {
            ui.warn(&format!("{}: {}", self.external_id, diagnostic_line(warning)));
        }
        let resource = answer.resource.unwrap_or_default();
        if self.dry_run {
            ui::print(show::yaml(&resource, &catalog)?)?;
        } else {
            ui::line(format!("{} adopted", placed_title(&id_of(&resource))))?;
        }
        Ok(Exit::Done)
    }
}
