//! `mortise reload`: the server reads its configuration and the files that it names again, as after SIGHUP.

use clap::Args;
use mortise_resource::data::{ReloadRequest, ReloadResponse};

use crate::{
    CliError, Connect, Exit,
    output::json::{self, AnswerFormat},
    output::ui,
};

pub(super) const EXAMPLES: &str = "mortise reload\nmortise reload -o json";

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

impl Reload {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let answer = session.call("reload", session.server().reload(ReloadRequest {})).await?;
        ui::print(match self.output {
            AnswerFormat::Json => json::message("mortise.v1.ReloadResponse", &answer)?,
            AnswerFormat::Table => describe(&answer),
        })?;
        let Some(refused) = answer.refused.first() else { return Ok(Exit::Done) };
        let error = CliError::failed(format!("reload: {refused}"));
        Err(answer.refused.iter().skip(1).fold(error, |error, refused| error.detail(refused.clone())))
    }
}

fn describe(answer: &ReloadResponse) -> String {
    let ReloadResponse { changed, restart_needed, files, .. } = answer;
    let mut out = match changed.as_slice() {
        [] => "the settings are the same\n".to_owned(),
        changed => format!("changed settings: {}\n", changed.join(", ")),
    };
    for file in files {
        out.push_str(&format!("read again: {file}\n"));
    }
    if !restart_needed.is_empty() {
        out.push_str(&format!("these settings take effect with a restart: {}\n", restart_needed.join(", ")));
    }
    out
}
