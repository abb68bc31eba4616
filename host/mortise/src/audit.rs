//! `mortise audit verify`: reads the files of the audit log, while a server writes them or without one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mortise_audit::{Verified, VerifyError, verify};
use mortise_cli::{CliError, Exit, commands::after, ui::line};

use crate::{offline::Directories, settings::parts};

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: AuditCommand,
}

/// Commands for the audit log.
#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Verifies that no record is missing, changed or added, and names the first line that breaks the chain
    #[command(after_help = after(
        "mortise audit verify --data-dir /var/lib/mortise/data\n\
         mortise audit verify /var/log/mortise-audit.1 /var/lib/mortise/data/audit"
    ))]
    Verify(Verify),
}

/// Arguments of `audit verify`.
#[derive(Debug, Args)]
struct Verify {
    /// Files of one log, in any order, and directories of them [default: that of the server's configuration]
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    directories: Directories,
}

impl Audit {
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let AuditCommand::Verify(command) = self.command;
        command.run()
    }
}

impl Verify {
    fn run(self) -> Result<Exit, CliError> {
        let paths = match self.paths.is_empty() {
            true => vec![parts::audit_dir(&self.directories.config(None)?)],
            false => self.paths,
        };
        let verified = verify(&paths).map_err(|error| match error {
            VerifyError::File(_) | VerifyError::Empty(_) => CliError::because(Exit::Usage, error)
                .remedy("name the directory or the files of the log, or the server's data directory: --data-dir DIR"),
            VerifyError::Broken { .. } => CliError::because(Exit::Failed, error)
                .remedy("files that were moved elsewhere can be named, too; otherwise records were removed or changed"),
        })?;
        describe(&verified)?;
        Ok(Exit::Done)
    }
}

fn describe(verified: &Verified) -> Result<(), CliError> {
    let Verified {
        files,
        records,
        first,
        last,
        before_chain,
        unfinished,
        unfinished_elsewhere,
        ends_unfinished,
        has_head,
    } = verified;
    match records {
        0 => line(format!("no records, files: {files}"))?,
        _ => line(format!("the chain is whole: records {first} to {last}, files: {files}"))?,
    }
    if *first > 1 {
        line(format!("it begins with record {first}; the {} before it are in files that are not here", first - 1))?;
    }
    if *before_chain > 0 {
        line(format!("lines before the chain, of a release without one: {before_chain}"))?;
    }
    if *unfinished > 0 {
        line(format!("unfinished lines, each named by the record behind it: {unfinished}"))?;
    }
    if *unfinished_elsewhere > 0 {
        line(format!("unfinished lines that are named and not here, as in a sink: {unfinished_elsewhere}"))?;
    }
    if *ends_unfinished {
        line("the last line is unfinished: it is being written, or the server was killed")?;
    }
    if !has_head && *records > 0 {
        line("audit.head is not here, so records that were taken from the end are not noticed")?;
    }
    Ok(())
}
