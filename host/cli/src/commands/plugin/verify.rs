//! `mortise plugin verify`.

use std::path::PathBuf;

use clap::Args;
use mortise_keys::signature::{PublicKey, read_signature, signature_path, verify};

use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise plugin verify demo.wasm --key release.pub
mortise plugin verify demo.wasm --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

/// Arguments of `plugin verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The component; its signature is FILE.minisig
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A public key, or its file; can be given several times
    #[arg(long = "key", value_name = "PUBLIC_KEY", required = true)]
    keys: Vec<String>,
}

impl Verify {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let key = |given: &String| {
            PublicKey::load(given).map_err(|e| CliError::usage(format!("cannot use the key {given:?}")).caused_by(e))
        };
        let keys = self.keys.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let content = std::fs::read(&self.file).map_err(|e| CliError::file("cannot read", &self.file, e))?;
        let file = self.file.display();
        let signature = read_signature(&self.file).map_err(|e| CliError::failed(file.to_string()).caused_by(e))?;
        let Some(signature) = signature else {
            let missing = signature_path(&self.file);
            return Err(CliError::failed(format!("{file} is not signed: {} does not exist", missing.display())));
        };
        match verify(&content, &signature, &keys) {
            Ok(who) => ui::line(format!("{file}: signed by the key {}: {}", who.key, who.comment)).map(|()| Exit::Done),
            Err(error) => Err(CliError::failed(file.to_string()).caused_by(error)),
        }
    }
}
