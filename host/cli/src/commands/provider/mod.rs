//! `mortise provider …`: types of a server as resources of Terraform and OpenTofu (docs/terraform.md).

mod attach;
mod docs;
mod export;
mod launch;
mod source;
mod types;

use clap::{Args, Subcommand};

use crate::{CliError, Exit};

pub use launch::launch;

pub(super) const EXAMPLES: &str = "\
eval \"$(mortise provider attach)\"
mortise provider export --out terraform-plugins
mortise provider docs --out docs";

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
    /// Writes the provider as a mirror, with the server's current schemas
    #[command(after_help = super::after(export::EXAMPLES))]
    Export(export::Export),
    /// Writes pages about the server's types, in the form of Terraform's registry
    #[command(after_help = super::after(docs::EXAMPLES))]
    Docs(docs::Docs),
}

impl Provider {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            ProviderCommand::Attach(attach) => attach.run().await,
            ProviderCommand::Export(export) => export.run().await,
            ProviderCommand::Docs(docs) => docs.run().await,
        }
    }
}
