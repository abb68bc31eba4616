//! `mortise replace`: replaces resources that exist.

use clap::{ArgAction, Args};

use super::{
    apply::Apply,
    only::{ChangeArgs, WriteMode},
};
use crate::{CliError, Connect, Exit, Tenancy, apply::files::Files};

pub(super) const EXAMPLES: &str = "\
mortise replace -f artist.yaml
mortise get artist korn -o yaml | sed 's/ROCK/METAL/' | mortise replace -f -";

/// Arguments of `replace`.
#[derive(Debug, Args)]
pub struct Replace {
    #[command(flatten)]
    files: Files,
    /// Shows what would change and writes nothing; the server fills in defaults and validates
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

impl Replace {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let Self { files, dry_run, quiet, tenancy, connect } = self;
        Apply::in_mode(WriteMode::Replace, ChangeArgs { files, dry_run, quiet, tenancy, connect }).run().await
    }
}
