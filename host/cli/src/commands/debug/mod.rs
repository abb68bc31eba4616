//! `mortise debug`: one archive with what is known about a server, to look at later or to hand on.
//!
//! # Contract
//! The list of the content comes first, in the archive and on the terminal. A part that is absent is listed with the
//! reason, and stops no other part. No part has resources, values of plugins' settings, tokens or private bytes;
//! messages of plugins may quote from resources and settings.
//!
//! # Limits
//! Those of [`parts`]: bytes of a part, lines of a log, plugins.

mod archive;
mod parts;
mod process;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use jiff::Timestamp;
use mortise_durable_fs::AtomicFile;

use self::{
    archive::{pack, table},
    parts::{Part, Parts},
    process::ServerProcess,
};
use crate::{CliError, Connect, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise debug
mortise debug incident.tar.gz --interval 30s --log /var/log/mortise.log";

/// Longest time between the two samples.
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// Arguments of `debug`.
#[derive(Debug, Args)]
pub struct Debug {
    /// The archive to write, in the format .tar.gz [default: mortise-debug-TIME.tar.gz in this folder]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The time between the two samples of metrics, figures and processor time
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "5s")]
    interval: Duration,
    /// A file of the server's log on this machine, whose end is included. A log may name resources
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Replaces an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Debug {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        if self.interval > MAX_INTERVAL {
            return Err(CliError::usage(format!("--interval {:?}: at most {MAX_INTERVAL:?}", self.interval)));
        }
        let now = Timestamp::now();
        let name = format!("mortise-debug-{}", now.strftime("%Y%m%dT%H%M%SZ"));
        let file = self.file.clone().unwrap_or_else(|| format!("{name}.tar.gz").into());
        let shown = file.display().to_string();
        if !self.force && file.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{shown} exists already")).remedy("--force replaces it"));
        }
        // This comes before the calls, so that a mistyped directory is reported at once.
        let mut target = AtomicFile::new_beside(&file).map_err(CliError::fs)?;
        let session = self.connect.session().await?;
        let parts = self.collect(Parts::new(session)).await?;
        let is_empty = parts.iter().all(|part| part.content.is_err());
        // The first fault says what all of them do.
        if let Some(fault) = parts.iter().find_map(|part| part.content.as_ref().err()).filter(|_| is_empty) {
            return Err(fault.clone());
        }
        pack(target.file(), &name, now, &parts)
            .map_err(|e| CliError::failed(format!("cannot write {shown}")).caused_by(e))?;
        let placed = if self.force { target.replace_durably() } else { target.create_durably() };
        placed.map_err(|e| CliError::failed(format!("cannot write {shown}")).caused_by(e.source))?;
        ui::print(table(&parts).render(&self.connect.ui()))?;
        ui::line(format!("{shown}: look through it before you hand it on"))?;
        Ok(Exit::Done)
    }

    /// Collects all parts; two samples of those that change, with the interval between them.
    ///
    /// # Errors
    /// The server is lost, or does not answer in time.
    async fn collect(&self, mut parts: Parts) -> Result<Vec<Part>, CliError> {
        let status = parts.status("status-1.json").await?;
        parts.metrics("metrics-1.txt").await;
        let process = status.and_then(|status| ServerProcess::find(&status, &parts.url()));
        let before = process.as_ref().map(ServerProcess::threads).unwrap_or_default();
        tokio::time::sleep(self.interval).await;
        parts.metrics("metrics-2.txt").await;
        parts.status("status-2.json").await?;
        match process {
            None => parts.missing("process/threads.txt", process::ABOUT_THREADS, process::ELSEWHERE),
            Some(process) => {
                parts.add("process/threads.txt", process::ABOUT_THREADS, Ok(process.work_since(&before).into_bytes()));
                process.add_files(&mut parts);
            }
        }
        parts.settings().await;
        parts.services().await;
        parts.plugins().await;
        if let Some(log) = &self.log {
            parts.log(log);
        }
        Ok(parts.into_list())
    }
}
