//! `mortise plugin pull`.

use std::path::PathBuf;

use clap::Args;
use mortise_registry::Reference;

use super::{Fetch, Keys, Way};
use crate::{CliError, Exit, output::ui};

pub(in super::super) const EXAMPLES: &str = "mortise plugin pull oci://ghcr.io/acme/demo:1.2.0 --key acme.pub\n\
                                             mortise plugin pull oci://localhost:5000/demo -o build/demo.wasm";

/// Arguments of `plugin pull`.
#[derive(Debug, Args)]
pub struct Pull {
    /// The plugin: oci://HOST/NAME[:TAG][@sha256:DIGEST]
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    /// The file to write; its signature goes beside it, as FILE.minisig [default: the last part of NAME, and .wasm]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replaces existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    way: Way,
}

impl Pull {
    pub(in super::super) async fn run(self) -> Result<Exit, CliError> {
        let name = || PathBuf::from(format!("{}.wasm", self.reference.repository.short_name()));
        let path = self.output.clone().unwrap_or_else(name);
        if !self.force {
            Fetch::refuse_existing(&path)?;
        }
        let fetched = Fetch::pull(&self.way, &self.reference, &self.keys).await?;
        fetched.write(&path, self.force)?;
        ui::line(format!("{}: {}, {}", path.display(), fetched.reference, fetched.signed()))?;
        Ok(Exit::Done)
    }
}
