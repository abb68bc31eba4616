//! `mortise plugin sign`.

use std::path::PathBuf;

use clap::Args;
use mortise_keys::signature::{SecretKey, sign, signature_path};

use super::keys::{Password, write_new};
use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise plugin sign target/plugins/demo.wasm --key release.key
mortise plugin sign demo.wasm --key release.key --comment \"demo 1.2.0\" --force";

/// Arguments of `plugin sign`.
#[derive(Debug, Args)]
pub struct Sign {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file of the secret key, from `mortise plugin keygen` or minisign
    #[arg(long, value_name = "SECRET_KEY")]
    key: PathBuf,
    /// A signed line that is shown with the signature [default: the time and the file's name]
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    password: Password,
    /// Replaces an existing signature
    #[arg(long)]
    force: bool,
}

impl Sign {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let path = signature_path(&self.file);
        if !self.force && path.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{} exists already", path.display())).remedy("--force replaces it"));
        }
        let content = std::fs::read(&self.file).map_err(|e| CliError::file("cannot read", &self.file, e))?;
        let key = SecretKey::read(&self.key, || self.password.read())?;
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let signature = sign(&content, &name, &key, self.comment.as_deref())?;
        write_new(&path, signature.as_bytes(), 0o644, self.force)?;
        ui::line(path.display().to_string())?;
        Ok(Exit::Done)
    }
}
