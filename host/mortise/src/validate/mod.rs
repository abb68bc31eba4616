//! `mortise validate`: checks a configuration as `mortise serve` would read it, with the files that it names, and lists
//! all findings. Starts nothing, and changes nothing.
//!
//! Resources are not read, since only a server has them: that policies exist, and that plugins accept their settings,
//! shows at the start.

mod machine;

use std::path::{Path, PathBuf};

use clap::Args;
use mortise_cli::{CliError, Exit, misspelt_variables, ui::line};

use crate::{
    server_flags::SettingFlags,
    settings::{self, Config, Examined, Finding, Overrides, Places, Sources, examine, sort_findings},
};

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Configuration file; without one, variables of the environment and flags alone are checked
    #[arg(value_name = "FILE", env = "MORTISE_CONFIG")]
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: SettingFlags,
}

impl Validate {
    /// Blocks until all files are read.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let name = self.file.as_ref().map_or_else(|| "the environment".to_owned(), |file| file.display().to_string());
        let Examination { findings, config } = examine_all(self.file.as_deref(), &self.flags.overrides());
        if findings.is_empty() {
            line(format!("{name}: the settings are valid"))?;
            return Ok(Exit::Done);
        }
        let mut error = CliError::failed(format!("{name}: the settings are not valid; findings: {}", findings.len()));
        for finding in &findings {
            error = error.detail(finding.to_string());
        }
        Err(match config {
            Some(_) => error,
            None => error.remedy("correct these first; other settings, and the files that they name, were not checked"),
        })
    }
}

/// All findings of a configuration, and the configuration as far as it is right.
pub(crate) struct Examination {
    pub(crate) findings: Vec<Finding>,
    /// `None` if a finding hides others.
    pub(crate) config: Option<Config>,
}

/// Examines the settings of a file, the environment and flags, and the files that they name. Blocks.
pub(crate) fn examine_all(file: Option<&Path>, flags: &Overrides) -> Examination {
    let env = |name: &str| std::env::var(name).ok();
    let mut sources = Sources { file, env: &env, flags, places: Places::default() };
    let Examined { mut findings, config } = examine(&mut sources);
    let misspelt = misspelt_variables(settings::variables);
    findings.extend(
        misspelt
            .into_iter()
            .map(|(name, meant)| Finding::of_variable(name, format!("it has no effect; did you mean {meant}?"))),
    );
    for fault in config.iter().flat_map(machine::faults) {
        let finding = sources.finding_of(&*fault);
        // The rules of settings read some files, too.
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    sort_findings(&mut findings);
    Examination { findings, config }
}
