//! `mortise provider …`: types of a server as resources of Terraform and OpenTofu (docs/terraform.md).

mod attach;
mod export;
mod launch;

use clap::{Args, Subcommand};

use crate::{CliError, Exit};

pub use launch::launch;

pub(super) const EXAMPLES: &str = "\
eval \"$(mortise provider attach)\"
mortise provider export --out terraform-plugins";

/// The address of the provider, as configurations name it.
const SOURCE: &str = "mortise.local/mortise/mortise";

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

/// The address of a provider: a host name, a namespace and a type.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    host: String,
    namespace: String,
    name: String,
}

/// Parses the address of a provider.
fn source(text: &str) -> Result<Source, String> {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let host = |host: &str| host.contains('.') && host.split('.').all(part);
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [first, namespace, name] if host(first) && part(namespace) && part(name) => {
            Ok(Source { host: (*first).to_owned(), namespace: (*namespace).to_owned(), name: (*name).to_owned() })
        }
        _ => Err(format!("a source is HOST/NAMESPACE/TYPE with a dot in HOST, such as {SOURCE}")),
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.host, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_three_parts() {
        assert_eq!(source(SOURCE).unwrap().to_string(), SOURCE);
        for wrong in ["", "mortise", "a/b/c", "a.b/c", "a.b//c", "a.b/c/d/e", "a.b/C/d", "a.b/c/d_e", ".b/c/d"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }
}
