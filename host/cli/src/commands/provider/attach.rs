//! `mortise provider attach`: the variable by which core attaches to a running server.

use std::path::Path;

use clap::Args;
use mortise_provider::serve::reattach;

use super::source::{SOURCE, Source, source};
use crate::{CliError, Connect, Exit, commands::server_status, output::ui};

pub(super) const EXAMPLES: &str = "\
eval \"$(mortise provider attach)\"
mortise provider attach --source example.org/platform/mortise";

/// Arguments of `provider attach`.
#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The provider's address, as in required_providers
    #[arg(long, value_name = "HOST/NAMESPACE/TYPE", default_value = SOURCE, value_parser = source)]
    source: Source,
    #[command(flatten)]
    connect: Connect,
}

impl Attach {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let status = server_status::fetch(&session).await?;
        let socket = Path::new(&status.provider_socket);
        if socket.as_os_str().is_empty() {
            return Err(CliError::failed(format!("the server at {} has no socket for core", session.url()))
                .remedy("set provider_socket in its configuration, and read the warnings that it logs at its start"));
        }
        if !socket.exists() {
            return Err(CliError::failed(format!("{} is not on this machine", socket.display()))
                .remedy("attach where the server runs, or have core start the provider: docs/terraform.md"));
        }
        let pid = status.process.map(|process| process.pid).unwrap_or_default();
        let value = reattach(&self.source.to_string(), pid, socket);
        ui::print(format!("export TF_REATTACH_PROVIDERS='{}'\n", value.replace('\'', "'\\''")))?;
        Ok(Exit::Done)
    }
}
