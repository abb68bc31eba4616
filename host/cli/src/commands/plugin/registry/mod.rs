//! `mortise plugin push|pull|search|outdated|export|import`: plugins in registries of OCI artifacts.
//!
//! # Contract
//! The commands ask the registry with the credentials of `docker login`; only `outdated` asks a server of Mortise, too.
//! A file is written whole or not at all. `--key` refuses what none of the given keys has signed.

mod fetch;
mod outdated;
mod pull;
mod push;
mod search;
mod set;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use mortise_registry::{CredentialSource, Options, Registry, RegistryError};

pub(super) use self::{
    fetch::{Fetch, Keys},
    outdated::{EXAMPLES as OUTDATED, Outdated},
    pull::{EXAMPLES as PULL, Pull},
    push::{EXAMPLES as PUSH, Push},
    search::{EXAMPLES as SEARCH, Search},
    set::{EXPORT, Export, IMPORT, Import},
};
use crate::{CliError, Exit, env};

/// Most bytes of a component that is pulled; the server's own limit is `sandbox.component_bytes`.
const MAX_COMPONENT_BYTES: usize = 256 << 20;

/// The way to a registry.
#[derive(Debug, Args)]
#[command(next_help_heading = "Registry")]
pub(super) struct Way {
    /// A file of credentials as `docker login` writes it [default: config.json in $DOCKER_CONFIG, or in ~/.docker]
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// Authorities for the registry's certificate (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "plain_http")]
    registry_ca: Option<PathBuf>,
    /// Longest time of one operation at the registry
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::args::duration)]
    registry_timeout: Duration,
    /// Speaks plain http with each registry of the command, so that others on the way can read and change everything
    #[arg(long)]
    plain_http: bool,
}

impl Way {
    /// Prepares a client of the registry on a host; connects to nothing.
    fn registry(&self, host: &str) -> Result<Registry, CliError> {
        // A registry may ask for neither, so a misspelt path would pass unseen.
        for path in [&self.registry_config, &self.registry_ca].into_iter().flatten() {
            std::fs::File::open(path).map_err(|e| CliError::file("cannot read", path, e))?;
        }
        let credentials = match &self.registry_config {
            Some(path) => CredentialSource::File(path.clone()),
            None => CredentialSource::usual(env::process),
        };
        let options = Options {
            plain_http: self.plain_http,
            authorities: self.registry_ca.clone(),
            credentials,
            timeout: self.registry_timeout,
            component_bytes: MAX_COMPONENT_BYTES,
        };
        Ok(Registry::new(host, options)?)
    }
}

impl From<RegistryError> for CliError {
    fn from(error: RegistryError) -> Self {
        let exit = match &error {
            RegistryError::Reference(_)
            | RegistryError::Credentials(_)
            | RegistryError::PlainHttp { .. }
            | RegistryError::Authorities { .. } => Exit::Usage,
            RegistryError::Connect { .. } | RegistryError::Tls { .. } | RegistryError::Broken { .. } => {
                Exit::Unreachable
            }
            RegistryError::TooLate { .. } => Exit::TimedOut,
            _ => Exit::Failed,
        };
        let step = error.step();
        CliError::because(exit, error).remedy(step)
    }
}
