//! `mortise catalog …`: service discovery. Loads services, shows them as proxies see them, and reports results of
//! health checks.

mod compose;
mod consul;
mod follow;
mod hosts;
mod items;
mod list;
mod load;
mod plan;
mod report;
mod tally;
mod top;
mod watch;

use clap::{Args, Subcommand};

use crate::{CliError, Exit};

pub(super) const EXAMPLES: &str = "\
mortise catalog load compose.yaml --dry-run
mortise catalog list
mortise catalog watch web --port 80";

/// Arguments of `catalog`.
#[derive(Debug, Args)]
pub struct Catalog {
    #[command(subcommand)]
    command: CatalogCommand,
}

/// Subcommands of `catalog`.
#[derive(Debug, Subcommand)]
enum CatalogCommand {
    /// Loads services and workloads from a compose file, a hosts file or an export of Consul's catalog
    #[command(after_help = super::after(load::EXAMPLES))]
    Load(Box<load::Load>),
    /// Lists services with their healthy and all endpoints, by zone
    #[command(after_help = super::after(list::EXAMPLES))]
    List(list::List),
    /// Shows the services with the smallest share of healthy endpoints, refreshed at intervals
    #[command(after_help = super::after(top::EXAMPLES))]
    Top(top::Top),
    /// Shows the endpoints of a service as a proxy sees them, and every change
    #[command(after_help = super::after(watch::EXAMPLES))]
    Watch(watch::Watch),
    /// Reports the result of a ttl check of a workload; a passing result holds for the check's ttl
    #[command(after_help = super::after(report::EXAMPLES))]
    Report(report::Report),
}

impl Catalog {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            CatalogCommand::Load(load) => load.run().await,
            CatalogCommand::List(list) => list.run().await,
            CatalogCommand::Top(top) => top.run().await,
            CatalogCommand::Watch(watch) => watch.run().await,
            CatalogCommand::Report(report) => report.run().await,
        }
    }
}
