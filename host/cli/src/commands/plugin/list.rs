//! `mortise plugin list`.

use clap::Args;
use mortise_resource::types::gvk;

use super::summary::{PluginSummary, short};
use crate::{
    CliError, Connect, Exit, Table,
    commands::server_status::{health, stage},
    output::ui,
};

pub(super) const EXAMPLES: &str = "mortise plugin list";

/// Arguments of `plugin list`.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    connect: Connect,
}

impl List {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let plugins = PluginSummary::all(&session).await?;
        if plugins.is_empty() {
            ui::line("the server has no plugins")?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(["name", "version", "stage", "health", "digest", "source", "types", "message"]);
        for seen in &plugins {
            let types: Vec<_> = seen.plugin.types.iter().filter_map(|t| t.r#type.as_ref()).map(gvk).collect();
            table.row(vec![
                seen.name.as_str().into(),
                seen.plugin.version.as_str().into(),
                stage(&seen.stage),
                health(&seen.health),
                short(&seen.plugin.digest).into(),
                seen.plugin.source.as_str().into(),
                types.join(",").into(),
                seen.message.as_str().into(),
            ]);
        }
        ui::print(table.render(&self.connect.ui()))?;
        Ok(Exit::Done)
    }
}
