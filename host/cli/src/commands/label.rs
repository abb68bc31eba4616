//! `mortise label`: sets and removes labels.

use clap::Args;

use crate::{
    CliError, Exit,
    resources::label_edits::{LabelEditArgs, LabelEdits},
};

pub(super) const EXAMPLES: &str = "\
mortise label artist korn env=prod
mortise label artist/korn album/issues env=test old- --overwrite
mortise label albums -l env=test env-
mortise label artist korn --list";

/// Arguments of `label`.
#[derive(Debug, Args)]
pub struct Label {
    #[command(flatten)]
    args: LabelEditArgs,
}

impl Label {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        self.args.run(LabelEdits::Labels).await
    }
}
