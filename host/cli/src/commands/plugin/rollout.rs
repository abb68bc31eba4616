//! `mortise rollout`: the versions of a plugin, in kubectl's words.

use std::time::Duration;

use clap::{Args, Subcommand};
use mortise_resource::{
    backoff::{Backoff, Waits},
    pb::{self, condition::State},
    types,
};
use tokio::time::Instant;

use super::{
    commands::NamedCommand,
    summary::{PluginSummary, short},
};
use crate::{
    CliError, Connect, Exit, Session, Table,
    commands::after,
    output::ui,
    resources::{ids, show::ago},
};

pub(crate) const EXAMPLES: &str = "\
mortise rollout status demo
mortise rollout history demo
mortise rollout undo demo";

/// First and longest pause between two reads of a plugin that is being loaded.
const MIN_READ_PAUSE: Duration = Duration::from_millis(20);
const MAX_READ_PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `rollout`.
#[derive(Debug, Args)]
pub struct Rollout {
    #[command(subcommand)]
    command: RolloutCommand,
}

/// Subcommands of `rollout`.
#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Waits until the load of a plugin's file has ended, and shows the result
    #[command(after_help = after("mortise rollout status demo --timeout 1m"))]
    Status(NamedPlugin),
    /// Shows the serving component and the previous one
    #[command(after_help = after("mortise rollout history demo"))]
    History(NamedPlugin),
    /// Returns to the previous component, as `mortise plugin rollback`
    #[command(after_help = after("mortise rollout undo demo"))]
    Undo(NamedCommand),
}

/// Arguments of such a command.
#[derive(Debug, Args)]
struct NamedPlugin {
    /// The plugin
    #[arg(value_name = "NAME", value_parser = plugin_name)]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

/// Takes `plugin/NAME` as `NAME`.
pub(super) fn plugin_name(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.strip_prefix("plugin/").unwrap_or(text).to_owned())
}

impl Rollout {
    pub(crate) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            RolloutCommand::Status(plugin) => plugin.status().await,
            RolloutCommand::History(plugin) => plugin.history().await,
            RolloutCommand::Undo(command) => command.rollback().await,
        }
    }
}

impl NamedPlugin {
    async fn read(&self, session: &Session) -> Result<pb::Resource, CliError> {
        let id = pb::Id {
            name: self.name.clone(),
            r#type: Some(types::plugin().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            uid: String::new(),
        };
        ids::read(session, &id).await
    }

    async fn status(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let deadline = Instant::now() + session.timeout();
        let mut waits = Waits::new(Backoff::new(MIN_READ_PAUSE, MAX_READ_PAUSE));
        loop {
            let resource = self.read(&session).await?;
            let seen = PluginSummary::from(&resource);
            let conditions = resource.status.values().flat_map(|status| &status.conditions);
            let loaded = conditions.filter(|condition| condition.r#type == "Loaded").map(pb::Condition::state).next();
            match loaded {
                Some(State::True) => {
                    ui::line(format!("plugin {}: {} serves", self.name, seen.what()))?;
                    return Ok(Exit::Done);
                }
                Some(State::False) => {
                    let why = if seen.message.is_empty() { String::new() } else { format!(": {}", seen.message) };
                    return Err(CliError::failed(format!("plugin {}: {}{why}", self.name, seen.stage))
                        .remedy(format!("`mortise plugin inspect {}` shows more", self.name)));
                }
                Some(State::Unknown) | None => {}
            }
            let pause = waits.next_wait();
            if Instant::now() + pause > deadline {
                let within = format!("timed out waiting for the load of plugin {}: {}", self.name, seen.stage);
                return Err(CliError::new(Exit::TimedOut, within).remedy("--timeout DURATION waits longer"));
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn history(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let plugin = PluginSummary::from(&self.read(&session).await?).plugin;
        let mut table = Table::new(["state", "version", "digest", "loaded"]);
        let since = plugin.loaded_at.and_then(|time| std::time::SystemTime::try_from(time).ok());
        let loaded = since.map(|since| format!("{} ago", ago(since))).unwrap_or_default();
        let row = |state: &str, version: &str, digest: &str, loaded: &str| {
            vec![state.into(), version.into(), short(digest).into(), loaded.into()]
        };
        if !plugin.previous_digest.is_empty() {
            table.row(row("previous", &plugin.previous_version, &plugin.previous_digest, ""));
        }
        if !plugin.digest.is_empty() {
            table.row(row("current", &plugin.version, &plugin.digest, &loaded));
        }
        if !plugin.held_digest.is_empty() {
            table.row(row("held back", "", &plugin.held_digest, ""));
        }
        ui::print(table.render(&self.connect.ui()))?;
        Ok(Exit::Done)
    }
}
