//! `mortise members`: the running servers that share the store.

use std::time::SystemTime;

use clap::Args;
use mortise_resource::data::{ListMembersRequest, Member};

use super::version::OWN;
use crate::{
    Cell, CliError, Connect, Exit, Style, Table,
    output::json::{self, AnswerFormat},
    output::ui,
};

pub(super) const EXAMPLES: &str = "mortise members\nmortise members -o json";

/// Arguments of `members`.
#[derive(Debug, Args)]
pub struct Members {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

impl Members {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let answer = session.call("members", session.server().list_members(ListMembersRequest {})).await?;
        match self.output {
            AnswerFormat::Json => ui::print(json::message("mortise.v1.ListMembersResponse", &answer)?)?,
            _ => ui::print(table(&answer.members).render(&self.connect.ui()))?,
        }
        Ok(Exit::Done)
    }
}

fn table(members: &[Member]) -> Table {
    let mut table = Table::new(["id", "version", "grpc", "http", "up", "commit", "lag", "holds"]);
    for member in members {
        let id = if member.is_this { format!("{} (this)", member.id) } else { member.id.clone() };
        let version = if member.version == OWN { Style::Plain } else { Style::Warn };
        let lag = if member.lag == 0 { Style::Good } else { Style::Warn };
        table.row(vec![
            id.into(),
            Cell::styled(version, or_dash(&member.version)),
            or_dash(&member.grpc_address).into(),
            or_dash(&member.http_address).into(),
            up(member).into(),
            member.commit.to_string().into(),
            Cell::styled(lag, member.lag.to_string()),
            or_dash(&member.holds.join(", ")).into(),
        ]);
    }
    table
}

/// Returns the time since the start, by the clocks of two machines.
fn up(member: &Member) -> String {
    let started = member.started_at.and_then(|at| SystemTime::try_from(at).ok());
    let up = started.map(|at| at.elapsed().unwrap_or_default());
    up.map_or_else(|| "-".to_owned(), |up| format!("{} s", up.as_secs()))
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
