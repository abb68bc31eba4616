//! `mortise types`: the types that the server can store, as `kubectl api-resources` lists them.

use clap::{Args, ValueEnum};
use mortise_resource::{data::ListTypesResponse, manifest::Scope, types::gvk};

use crate::{CliError, Connect, Exit, Table, output::json, output::ui, resources::catalog::Catalog};

pub(super) const EXAMPLES: &str = "\
mortise types
mortise types -o name";

/// Arguments of `types`.
#[derive(Debug, Args)]
pub struct Types {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// Full names, one a line
    Name,
    /// JSON, for programs
    Json,
}

impl Types {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let types = Catalog::fetch(&session).await?;
        let name = |info: &mortise_resource::data::TypeInfo| info.r#type.as_ref().map(gvk).unwrap_or_default();
        if self.output == Format::Name {
            ui::print(types.infos().iter().map(|info| name(info) + "\n").collect::<String>())?;
            return Ok(Exit::Done);
        }
        if self.output == Format::Json {
            let all = ListTypesResponse { types: types.infos().to_vec() };
            ui::print(json::message("mortise.v1.ListTypesResponse", &all)?)?;
            return Ok(Exit::Done);
        }
        let wide = self.output == Format::Wide;
        let mut headings = vec!["name", "short names", "scope", "plugin"];
        if wide {
            headings.extend(["plugin version", "schema", "message"]);
        }
        let mut table = Table::new(headings);
        for info in types.infos() {
            let scope = match info.scope() {
                Scope::Cluster => "cluster",
                Scope::Partition => "partition",
                Scope::Namespace => "namespace",
                Scope::Unspecified => "any",
            };
            let plugin = match (info.plugin.as_str(), info.orphaned) {
                ("", _) => "(built in)".to_owned(),
                (plugin, false) => plugin.to_owned(),
                (plugin, true) => format!("{plugin} (absent)"),
            };
            let mut row = vec![name(info).into(), info.short_names.join(",").into(), scope.into(), plugin.into()];
            if wide {
                row.extend([
                    info.plugin_version.as_str().into(),
                    info.schema_version.to_string().into(),
                    info.message.as_str().into(),
                ]);
            }
            table.row(row);
        }
        ui::print(table.render(&self.connect.ui()))?;
        Ok(Exit::Done)
    }
}
