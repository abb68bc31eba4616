//! `mortise plugin remove`, `rollback`, `reset`, `enable` and `disable`: commands that take only a plugin's name.

use clap::Args;
use mortise_resource::{data, pb};

use super::summary::PluginSummary;
use crate::{CliError, Connect, Exit, output::ui, resources::ids::placed_title};

pub(super) const REMOVE: &str = "mortise plugin remove demo";
pub(super) const ROLLBACK: &str = "mortise plugin rollback demo";
pub(super) const RESET: &str = "mortise plugin reset demo";
pub(super) const ENABLE: &str = "mortise plugin enable demo";
pub(super) const DISABLE: &str = "mortise plugin disable demo";

/// Arguments of such a command.
#[derive(Debug, Args)]
pub struct NamedCommand {
    /// The plugin
    #[arg(value_name = "NAME", value_parser = super::rollout::plugin_name)]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl NamedCommand {
    fn thing(&self) -> String {
        format!("plugin {}", self.name)
    }

    pub(super) async fn remove(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = data::RemoveRequest { name: self.name.clone() };
        let left = session.call(self.thing(), session.plugins().remove(request)).await?;
        let mut text = match left.plugin {
            None => "removed; nothing of its types is stored".to_owned(),
            Some(_) => "removed; stored resources of its types can be read and deleted, not written".to_owned(),
        };
        for held in &left.held {
            let title = held.id.as_ref().map(placed_title).unwrap_or_default();
            text.push_str(&format!("\n  held by finalizers: {title}: {}", held.finalizers.join(" ")));
        }
        if left.held_incomplete {
            text.push_str("\n  held by finalizers: perhaps more; not everything was looked at");
        }
        if !left.held.is_empty() {
            text.push_str("\n  when they are deleted, `mortise apply` with fewer `metadata.finalizers` lets them go");
        }
        self.done(text)
    }

    pub(super) async fn rollback(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = data::RollbackRequest { name: self.name.clone() };
        let plugin = session.call(self.thing(), session.plugins().rollback(request)).await?.plugin;
        let plugin = summary(plugin);
        let until = "this holds until its file changes or it is installed again";
        self.done(format!("rolled back, {} serves; {until}", plugin.what()))
    }

    pub(super) async fn reset(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = data::ResetRequest { name: self.name.clone() };
        session.call(self.thing(), session.plugins().reset(request)).await?;
        self.done("its hooks are out of quarantine, and called again".to_owned())
    }

    pub(super) async fn enable(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = data::EnableRequest { name: self.name.clone() };
        let plugin = session.call(self.thing(), session.plugins().enable(request)).await?.plugin;
        let plugin = summary(plugin);
        self.done(format!("enabled, {} serves", plugin.what()))
    }

    pub(super) async fn disable(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = data::DisableRequest { name: self.name.clone() };
        session.call(self.thing(), session.plugins().disable(request)).await?;
        let left = "stored resources of its types can be read and deleted, not written";
        self.done(format!("disabled; {left}; `mortise plugin enable {}` enables it", self.name))
    }

    fn done(&self, what: String) -> Result<Exit, CliError> {
        ui::line(format!("{}: {what}", self.thing()))?;
        Ok(Exit::Done)
    }
}

fn summary(plugin: Option<pb::Resource>) -> PluginSummary {
    PluginSummary::from(&plugin.unwrap_or_default())
}
