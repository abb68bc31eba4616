//! `mortise protect`: protects a resource from deletion, or allows deletion again.

use clap::Args;
use mortise_resource::data::SetBlockDeletionRequest;

use crate::{
    CliError, Connect, Exit, Tenancy,
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{self, placed_title},
};

pub(super) const EXAMPLES: &str = "\
mortise protect artist korn
mortise protect artist korn --off";

/// Arguments of `protect`.
#[derive(Debug, Args)]
pub struct Protect {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME", required = true)]
    what: Vec<String>,
    /// Allows deletion again
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Protect {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let id = ids::one(&self.what, &catalog, &self.tenancy, &session)?;
        let block_deletion = !self.off;
        let request = SetBlockDeletionRequest { id: Some(id.clone()), version: String::new(), block_deletion };
        session.call(placed_title(&id), async { session.ownership().set_block_deletion(request).await }).await?;
        let how = if self.off { "may be deleted" } else { "cannot be deleted" };
        ui::line(format!("{} {how}", placed_title(&id)))?;
        Ok(Exit::Done)
    }
}
