//! `mortise plugin build`: makes a component of the crate in the current folder.

use clap::Args;
use mortise_cli::{CliError, Exit, ui};

use crate::{offline::Offline, report, source::Crate};

pub(crate) const EXAMPLES: &str = "\
mortise plugin build
mortise plugin build --path ./guest-book --target wasip2 --lines";

/// Arguments of `plugin build`.
#[derive(Debug, Args)]
pub struct Build {
    #[command(flatten)]
    package: Crate,
}

impl Build {
    /// Builds, and prints a report of the component.
    pub(crate) async fn run(self) -> Result<Exit, CliError> {
        let path = self.package.build().await?;
        let offline = Offline::new(&path)?;
        let about = report::ComponentReport::read(&offline).await?;
        let mut text = format!("built {}\n", path.display());
        text.push_str(&about.text());
        let next = match about.fault() {
            None => "mortise plugin test".to_owned(),
            Some(_) => format!("mortise plugin inspect {}", path.display()),
        };
        text.push_str(&format!("next: {next}\n"));
        ui::print(text)?;
        about.into_fault().map_or(Ok(Exit::Done), |fault| Err(crate::fault::load(&path, fault)))
    }
}
