//! `mortise create`: creates resources, and fails if one exists.

use clap::{ArgAction, Args};
use mortise_text::Format;

use super::{
    apply::Apply,
    only::{ChangeArgs, WriteMode},
};
use crate::{
    CliError, Connect, Exit, Tenancy,
    apply::files::{self, Files},
    resources::{catalog::Catalog, ids},
};

pub(super) const EXAMPLES: &str = "\
mortise create -f artist.yaml
mortise create namespace blue
mortise create artist abba --data '{\"name\": \"ABBA\"}'";

/// Arguments of `create`.
#[derive(Debug, Args)]
pub struct Create {
    /// TYPE NAME or TYPE/NAME, in place of files
    #[arg(value_name = "TYPE NAME", required_unless_present = "filename", conflicts_with = "filename")]
    target: Vec<String>,
    /// Data of the resource, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}", hide_default_value = true, conflicts_with = "filename")]
    data: String,
    /// A file, a directory, a URL (https://…, or http://…, which is not verified), or - for standard input; can be
    /// given several times
    #[arg(short, long, value_name = "FILE|DIR|URL|-", num_args = 1..)]
    filename: Vec<std::path::PathBuf>,
    /// Also reads the directories within a directory
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Format of the files, in place of the one by their names: yaml, json or hcl
    #[arg(long, value_name = "FORMAT", value_parser = files::format, requires = "filename")]
    format: Option<Format>,
    /// Shows what would be created and writes nothing; the server fills in defaults and validates
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "server",
          default_value = "none", hide_default_value = true, value_parser = crate::args::dry_run, action = ArgAction::Set)]
    dry_run: bool,
    /// Prints only counts, not single resources
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Create {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let files = Files { filename: self.filename, recursive: self.recursive, format: self.format };
        let documents = match self.target.is_empty() {
            true => files::read(&files, &catalog, &self.tenancy, &session).await?,
            false => {
                let id = ids::one(&self.target, &catalog, &self.tenancy, &session)?;
                files::typed(id, &self.data, &catalog, &self.tenancy, &session)?
            }
        };
        let Self { dry_run, quiet, tenancy, connect, .. } = self;
        let args = ChangeArgs { files, dry_run, quiet, tenancy, connect };
        Apply::in_mode(WriteMode::Create, args).carry_out(documents, &session, &catalog, &ui).await
    }
}
