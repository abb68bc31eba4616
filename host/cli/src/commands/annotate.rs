//! `mortise annotate`: sets and removes annotations.

use clap::Args;

use crate::{
    CliError, Exit,
    resources::label_edits::{LabelEditArgs, LabelEdits},
};

pub(super) const EXAMPLES: &str = "\
mortise annotate artist korn note='on tour until May'
mortise annotate albums --all note-
mortise annotate artist korn --list";

/// Arguments of `annotate`.
#[derive(Debug, Args)]
pub struct Annotate {
    #[command(flatten)]
    args: LabelEditArgs,
}

impl Annotate {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        self.args.run(LabelEdits::Annotations).await
    }
}
