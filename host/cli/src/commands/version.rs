//! `mortise version`: the versions of this program and of the server.

use clap::Args;
use serde_json::json;

use super::server_status;
use crate::{CliError, Connect, Exit, output::json::AnswerFormat, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise version
mortise version --client
mortise version -o json";

/// Version of this program.
pub(super) const OWN: &str = env!("CARGO_PKG_VERSION");

/// Arguments of `version`.
#[derive(Debug, Args)]
pub struct Version {
    /// Shows the version of this program alone, without a server
    #[arg(long)]
    client: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

impl Version {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let is_table = self.output == AnswerFormat::Table;
        if is_table {
            ui::line(format!("{:<14}mortise {OWN}", "client"))?;
        }
        if self.client {
            if !is_table {
                ui::line(format!("{:#}", json!({ "client": OWN })))?;
            }
            return Ok(Exit::Done);
        }
        let session = self.connect.session().await?;
        let server = server_status::fetch(&session).await?.version;
        match is_table {
            true => ui::line(format!("{:<14}mortise {server} at {}", "server", session.url()))?,
            false => ui::line(format!("{:#}", json!({ "client": OWN, "server": server })))?,
        }
        if let Some(skew) = skew(OWN, &server) {
            self.connect.ui().warn(&skew);
        }
        Ok(Exit::Done)
    }
}

/// Describes the difference of two versions; `None` if they are the same.
fn skew(client: &str, server: &str) -> Option<String> {
    let parts = |version: &str| -> Vec<u64> {
        let plain = version.split(['-', '+']).next().unwrap_or_default();
        plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let older = "the server may not know every call of this program";
    let newer = "this program may not know all that the server has";
    match parts(client).cmp(&parts(server)) {
        _ if client == server => None,
        std::cmp::Ordering::Greater => Some(format!("the server is older: {server}, not {client}; {older}")),
        std::cmp::Ordering::Less => Some(format!("the server is newer: {server}, not {client}; {newer}")),
        std::cmp::Ordering::Equal => Some(format!("the server has another build: {server}, not {client}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_by_their_numbers() {
        assert_eq!(skew("0.1.0", "0.1.0"), None);
        for (client, server, word) in
            [("0.10.0", "0.9.1", "older"), ("1.2.0", "1.10.0", "newer"), ("1.0.0", "1.0.0-rc1", "another build")]
        {
            assert!(skew(client, server).unwrap().contains(word), "{client} {server}");
        }
    }
}
