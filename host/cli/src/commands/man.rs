//! `mortise man`: one manual page on standard output, or all of them as files.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man as Page;

use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise man | man -l -
mortise man plugin install | man -l -
mortise man --dir /usr/local/share/man/man1";

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Writes all pages into this directory, one file for each command
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
    /// The command to describe [default: the whole program]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Man {
    pub(super) fn run(self, program: clap::Command) -> Result<Exit, CliError> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|e| CliError::file("cannot make the directory", dir, e))?;
                write_all(&program, "mortise", dir)?;
            }
            None => {
                let mut command = &program;
                let mut name = "mortise".to_owned();
                for word in &self.command {
                    command = command.find_subcommand(word).ok_or_else(|| {
                        CliError::usage(format!("the command `{name} {word}` does not exist"))
                            .remedy(format!("`{name} --help` lists them"))
                    })?;
                    name = format!("{name} {}", command.get_name());
                }
                ui::print(String::from_utf8_lossy(&page(command, &name)?))?;
            }
        }
        Ok(Exit::Done)
    }
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>, CliError> {
    let named = command.clone().name(name.replace(' ', "-")).bin_name(name.to_owned());
    let mut out = Vec::new();
    Page::new(named).render(&mut out)?;
    Ok(out)
}

fn write_all(command: &clap::Command, name: &str, dir: &Path) -> Result<(), CliError> {
    let file = dir.join(format!("{}.1", name.replace(' ', "-")));
    std::fs::write(&file, page(command, name)?).map_err(|e| CliError::file("cannot write", &file, e))?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(inner, &format!("{name} {}", inner.get_name()), dir)?;
    }
    Ok(())
}
