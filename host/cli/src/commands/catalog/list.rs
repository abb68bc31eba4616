//! `mortise catalog list`: services with their healthy and all endpoints, by zone.

use clap::Args;
use mortise_resource::pb;

use super::tally::{ENDPOINTS, SERVICE, SLICE, Tally};
use crate::{
    CliError, Connect, Exit, Session, Table, Tenancy,
    output::{json::AnswerFormat, ui},
    resources::{catalog::Catalog, ids},
};

pub(super) const EXAMPLES: &str = "mortise catalog list\nmortise catalog list -A -o json";

/// Selection of services.
#[derive(Debug, Args)]
pub(super) struct Scope {
    /// Shows the services of every namespace
    #[arg(short = 'A', long, conflicts_with_all = ["partition", "namespace"])]
    pub(super) all_namespaces: bool,
    #[command(flatten)]
    tenancy: Tenancy,
}

impl Scope {
    /// The tenancy in which services are listed; `*` is every namespace.
    pub(super) fn units(&self, session: &Session) -> pb::Tenancy {
        match self.all_namespaces {
            true => pb::Tenancy { partition: "default".into(), namespace: "*".into() },
            false => self.tenancy.units(session),
        }
    }
}

/// Arguments of `catalog list`.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    connect: Connect,
}

/// Types whose resources make a tally.
pub(super) fn types(catalog: &Catalog) -> Result<Vec<pb::Type>, CliError> {
    let mut types = vec![catalog.find_type(SERVICE)?, catalog.find_type(ENDPOINTS)?];
    // Servers of earlier versions have no slices.
    types.extend(catalog.find_type(SLICE).ok());
    Ok(types)
}

impl List {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let units = self.scope.units(&session);
        let mut tally = Tally::default();
        for of in types(&catalog)? {
            for resource in ids::list(&session, &of, units.clone(), "").await? {
                tally.take(&resource, true)?;
            }
        }
        if self.output == AnswerFormat::Json {
            let all: Vec<_> = tally.services().map(|(name, summary)| summary.json(name)).collect();
            ui::line(serde_json::Value::from(all).to_string())?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(["namespace", "service", "healthy", "zones", "ports"]);
        for ((namespace, name), summary) in tally.services() {
            let (zones, ports) = (summary.zones(), summary.ports());
            table.row(vec![namespace.into(), name.into(), summary.count().cell(), zones.into(), ports.into()]);
        }
        match table.is_empty() {
            true => self.connect.ui().note("no services"),
            false => ui::print(table.render(&self.connect.ui()))?,
        }
        Ok(Exit::Done)
    }
}
