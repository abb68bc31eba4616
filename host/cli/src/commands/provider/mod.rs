//! `mortise provider …`: types of a server as resources of Terraform and OpenTofu (docs/terraform.md).

mod attach;
mod export;
mod launch;
mod source;

use clap::{Args, Subcommand};

use crate::{CliError, Exit};

pub use launch::launch;

pub(super) const EXAMPLES: &str = "\
eval \"$(mortise provider attach)\"
mortise provider export --out terraform-plugins";

/// Arguments of `provider`.
#[derive(Debug, Args)]
pub struct Provider {
    #[command(subcommand)]
    command: ProviderCommand,
}

/// Subcommands of `provider`.
#[derive(Debug, Subcommand)]
enum ProviderCommand {
    /// Prints the variable by which Terraform and OpenTofu attach to the server on this machine
    #[command(after_help = super::after(attach::EXAMPLES))]
    Attach(attach::Attach),
    /// Writes the provider as a file-system mirror, with the server's current schemas
    #[command(after_help = super::after(export::EXAMPLES))]
    Export(export::Export),
}

impl Provider {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            ProviderCommand::Attach(attach) => attach.run().await,
            ProviderCommand::Export(export) => export.run().await,
        }
    }
}
