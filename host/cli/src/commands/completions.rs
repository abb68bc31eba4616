//! `mortise completions SHELL`: a script on standard output.

use clap::Args;
use clap_complete::Shell;

use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "mortise completions bash > ~/.local/share/bash-completion/completions/mortise";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, mut program: clap::Command) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "mortise", &mut script);
        ui::print(String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
