//! `mortise status`: with a type and a name, the state of a resource as its controllers report it; without, the state
//! of the server.

use clap::Args;

use crate::{
    Cell, CliError, Connect, Exit, Table, Tenancy, Ui,
    output::json::AnswerFormat,
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{self, id_of, placed_title},
    resources::{readiness::state, show},
};

pub(super) const EXAMPLES: &str = "mortise status\nmortise status artist korn\nmortise status -o json";

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// TYPE NAME or TYPE/NAME [default: the server]
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Status {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        if self.what.is_empty() {
            return super::server_status::show(&self.connect, self.output).await;
        }
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let id = ids::one(&self.what, &catalog, &self.tenancy, &session)?;
        let resource = ids::read(&session, &id).await?;
        if self.output == AnswerFormat::Json {
            let whole: serde_json::Value =
                serde_json::from_str(&show::json_text(&resource, &catalog)?).unwrap_or_default();
            let status = whole.get("status").cloned().unwrap_or_else(|| serde_json::json!({}));
            ui::line(format!("{status:#}"))?;
        } else if resource.status.is_empty() {
            ui::line(format!("no controller has reported on {}", placed_title(&id_of(&resource))))?;
        } else {
            ui::print(table(&resource, &self.connect.ui()))?;
        }
        Ok(Exit::Done)
    }
}

/// Renders a resource's conditions as a table.
pub(super) fn table(resource: &mortise_resource::pb::Resource, ui: &Ui) -> String {
    let mut table = Table::new(["controller", "condition", "state", "reason", "message", "current"]);
    for (key, status) in &resource.status {
        // Whether the status is about the current generation of the resource.
        let current = if status.observed_generation == resource.generation { "yes" } else { "no" };
        for condition in &status.conditions {
            let (style, state) = state(condition);
            table.row(vec![
                key.as_str().into(),
                condition.r#type.as_str().into(),
                Cell::styled(style, state),
                condition.reason.as_str().into(),
                condition.message.as_str().into(),
                current.into(),
            ]);
        }
    }
    table.render(ui)
}
