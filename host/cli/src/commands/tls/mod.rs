//! `mortise tls …`: makes a certificate authority, and shows certificates, both without a server; gets certificates
//! from the authority of a server.

mod certify;
mod fetch;
mod files;
mod init;
mod issue;
mod show;

use clap::{Args, Subcommand};

use crate::{CliError, Exit};

pub(super) const EXAMPLES: &str = "\
mortise tls init --host home.example.net --client laptop
mortise tls show tls";

/// Arguments of `tls`.
#[derive(Debug, Args)]
pub struct Tls {
    #[command(subcommand)]
    command: TlsCommand,
}

/// Subcommands of `tls`.
#[derive(Debug, Subcommand)]
enum TlsCommand {
    /// Makes a certificate authority, a certificate for the server and one for each client, as files
    #[command(after_help = super::after(init::EXAMPLES))]
    Init(init::Init),
    /// Gets a certificate for an identity from the authority of a server, as files
    #[command(after_help = super::after(certify::EXAMPLES))]
    Certify(Box<certify::Certify>),
    /// Shows when certificates expire, in files or of a running server
    #[command(after_help = super::after(show::EXAMPLES))]
    Show(show::Show),
}

impl Tls {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            TlsCommand::Init(init) => init.run(),
            TlsCommand::Certify(certify) => certify.run().await,
            TlsCommand::Show(show) => show.run().await,
        }
    }
}
