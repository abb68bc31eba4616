//! `mortise completions SHELL`: a script on standard output.

use clap::Args;
use clap_complete::Shell;

use crate::{CliError, Exit, completion, output::ui};

pub(super) const EXAMPLES: &str = "mortise completions bash > ~/.local/share/bash-completion/completions/mortise";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        ui::print(String::from_utf8_lossy(&completion::script(self.shell)?))?;
        Ok(Exit::Done)
    }
}
