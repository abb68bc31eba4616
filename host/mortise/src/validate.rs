//! `mortise validate`: checks the settings without starting a server.

use std::path::PathBuf;

use clap::Args;
use mortise_cli::{CliError, Exit, ui::line};

use crate::settings::{ConfigError, Overrides, Settings};

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Configuration file; without one, the variables of the environment alone are checked
    #[arg(value_name = "FILE", env = "MORTISE_CONFIG")]
    file: Option<PathBuf>,
}

impl Validate {
    /// Reads the settings as `mortise serve` does.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let checked = self.check();
        checked.map_err(|fault| CliError::because(Exit::Usage, fault))?;
        let what = self.file.map_or_else(|| "the environment".to_owned(), |file| file.display().to_string());
        line(format!("{what}: the settings are valid"))?;
        Ok(Exit::Done)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let env = |name: &str| std::env::var(name).ok();
        let config = Settings::load(self.file.as_deref(), &env, Overrides::default())?.config;
        config.check_exposure(config.acl.enabled)?;
        Ok(config.check_authority(config.acl.enabled)?)
    }
}
