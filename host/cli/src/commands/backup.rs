//! `mortise backup`: everything that a server holds, as one file, while it serves.
//!
//! The file is written under another name in the same directory, checked against its seal, synced and renamed: it
//! appears whole or not at all.

use std::{
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_backup::SealChecker;
use mortise_durable_fs::AtomicFile;
use mortise_resource::data::{BackupRequest, backup_response::Begins};

use crate::{CliError, CommandFuture, Connect, Exit, Progress, Session, Unit, output::ui};

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// The file to write, in the format .tar.gz; - is standard output
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Replaces an existing file
    #[arg(long)]
    force: bool,
    /// Leaves out the server's configuration file
    #[arg(long)]
    without_config: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Backup {
    /// Takes a backup.
    pub fn run(self) -> CommandFuture {
        Box::pin(self.take_into_file())
    }

    /// Returns whether an argument of this command is there, besides those of the connection.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.file.is_some() || self.force || self.without_config
    }

    async fn take_into_file(self) -> Result<Exit, CliError> {
        // Required by the command line.
        let file = self.file.clone().unwrap_or_default();
        if file.as_os_str() == "-" {
            if io::stdout().is_terminal() {
                return Err(CliError::usage("a backup is not text, and standard output is a terminal")
                    .remedy("name a file, or send it somewhere: mortise backup - > FILE"));
            }
            let session = self.connect.session().await?;
            let taken = self.take(&session, &mut io::stdout().lock(), &file).await?;
            self.connect.ui().note(&taken.describe("-"));
            return Ok(Exit::Done);
        }
        let name = file.display().to_string();
        if !self.force && file.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{name} exists already")).remedy("--force replaces it"));
        }
        // This comes before the call, so that a mistyped directory is reported at once.
        let mut part = AtomicFile::new_beside(&file).map_err(CliError::fs)?;
        let session = self.connect.session().await?;
        let taken = self.take(&session, part.file(), &file).await?;
        let placed = if self.force { part.replace_durably() } else { part.create_durably() };
        placed.map_err(|e| CliError::failed(format!("cannot write {name}")).caused_by(e.source))?;
        ui::line(taken.describe(&name))?;
        Ok(Exit::Done)
    }

    async fn take(&self, session: &Session, into: &mut dyn Write, file: &Path) -> Result<BackupSummary, CliError> {
        let request = BackupRequest { without_config: self.without_config };
        let mut stream = session.call("backup", session.server().backup(request)).await?;
        let mut checker = SealChecker::default();
        let (mut taken, mut progress, mut shown) = (BackupSummary::default(), None, 0);
        loop {
            let next = session.next("backup", &mut stream).await?;
            let Some(next) = next else { break };
            if let Some(begins) = next.begins {
                progress = Some(Progress::begin("backing up", Some(begins.records), Unit::Items));
                taken.begins = begins;
            }
            checker.update(&next.chunk);
            into.write_all(&next.chunk).map_err(|e| match e.kind() {
                io::ErrorKind::BrokenPipe => CliError::new(Exit::Closed, "output closed"),
                _ => CliError::failed(format!("cannot write {}", file.display())).caused_by(e),
            })?;
            taken.bytes += next.chunk.len() as u64;
            if let Some(progress) = &progress {
                progress.advance(next.records.saturating_sub(shown));
                shown = shown.max(next.records);
            }
        }
        into.flush()?;
        if !checker.is_whole() {
            return Err(CliError::failed("backup: the server's answer ended early; the part received is not a backup")
                .remedy("the server's log says why; try again"));
        }
        Ok(taken)
    }
}

/// Summary of a complete backup.
#[derive(Default)]
struct BackupSummary {
    begins: Begins,
    bytes: u64,
}

impl BackupSummary {
    fn describe(&self, name: &str) -> String {
        let Begins { commit, resources, events, files, .. } = self.begins;
        format!(
            "{name}: {}, the state of commit {commit}: {resources} resources, {events} events, {files} other files",
            indicatif::HumanBytes(self.bytes)
        )
    }
}
