//! `mortise backup`: takes a backup, lists those of the schedule, verifies and restores one.

use std::{path::PathBuf, process::ExitCode, time::SystemTime};

use clap::{Args, Subcommand};
use mortise_backup::list_backups;
use mortise_cli::{
    CliError, Color, Exit, Table, Ui,
    commands::{after, backup::Backup as Take},
    ui::{line, print},
};

use crate::{
    offline::{Directories, Restore, RestoreOptions, verify},
    settings::parts,
};

pub(crate) const EXAMPLES: &str = "mortise backup /var/backups/mortise-$(date +%F).tar.gz\n\
                                   mortise backup - | ssh vault 'cat > mortise.tar.gz'\n\
                                   mortise backup list --config /etc/mortise/config.toml";

/// Arguments of `backup`.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Backups {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[command(flatten)]
    take: Take,
}

/// Commands for files of backups.
#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Lists the files of scheduled backups on this machine, the newest first
    #[command(after_help = after("mortise backup list --config /etc/mortise/config.toml\nmortise backup list /mnt/backups"))]
    List(List),
    /// Reads all of a backup, checks it as a restore does, and shows its content
    #[command(after_help = after("mortise backup verify mortise.tar.gz"))]
    Verify(Verify),
    /// Restores a data directory and a plugin folder from a backup, as `mortise restore` does
    #[command(after_help = after("mortise backup restore --from mortise.tar.gz --data-dir /var/lib/mortise/data"))]
    Restore(Box<RestoreFrom>),
}

/// Arguments of `backup list`.
#[derive(Debug, Args)]
struct List {
    /// Directory of the files [default: that of the server's configuration]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    directories: Directories,
}

/// Arguments of `backup verify`.
#[derive(Debug, Args)]
struct Verify {
    /// The backup; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Arguments of `backup restore`.
#[derive(Debug, Args)]
struct RestoreFrom {
    /// The backup; - is standard input
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    #[command(flatten)]
    options: RestoreOptions,
}

impl Backups {
    /// Runs the command.
    pub(crate) fn run(self) -> ExitCode {
        let Self { command, take } = self;
        match command {
            None => mortise_cli::block_on(take.run()),
            Some(_) if take.is_given() => mortise_cli::report(Err(CliError::usage(
                "backup: a command for files of backups takes no argument before it",
            )
            .remedy("put it behind the command; a file of that name is ./list, ./verify or ./restore"))),
            Some(BackupCommand::List(list)) => mortise_cli::report(list.run()),
            Some(BackupCommand::Verify(command)) => mortise_cli::report(verify(&command.file, "it can be restored")),
            Some(BackupCommand::Restore(command)) => {
                let RestoreFrom { from, options } = *command;
                crate::offline(|| Restore { file: from, options }.run())
            }
        }
    }
}

impl List {
    fn run(self) -> Result<Exit, CliError> {
        let dir = match self.dir {
            Some(dir) => dir,
            None => parts::backup_dir(&self.directories.config(None)?),
        };
        let files = list_backups(&dir).map_err(|fault| CliError::because(Exit::Usage, fault))?;
        if files.is_empty() {
            line(format!("no scheduled backups in {}", dir.display()))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(["file", "taken", "age", "bytes"]);
        for file in files {
            let age = SystemTime::from(file.taken_at).elapsed().unwrap_or_default().as_secs();
            table.row(vec![
                file.path.display().to_string().into(),
                file.taken_at.to_string().into(),
                age_text(age).into(),
                file.bytes.to_string().into(),
            ]);
        }
        print(table.render(&Ui::new(Color::Auto)))?;
        Ok(Exit::Done)
    }
}

/// An age in its largest whole unit.
fn age_text(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
