//! `mortise plugin inspect NAME`: everything that a server knows about a plugin.

use mortise_resource::{
    data::{InspectRequest, InspectResponse},
    types::gvk,
};

use super::summary::PluginSummary;
use crate::{
    Cell, CommandFuture, Connect, Exit, Style, Table, Ui,
    commands::server_status::{health, std_duration},
    output::json,
    output::ui,
};

/// Arguments of `plugin inspect`, for a plugin of a server.
#[derive(Debug)]
pub struct Inspect {
    /// The plugin.
    pub name: String,
    /// JSON output, for programs.
    pub json: bool,
    /// Connection to the server.
    pub connect: Connect,
}

impl Inspect {
    /// Asks the server, and prints the answer.
    ///
    /// # Errors
    /// Those of [`Session::call`](crate::Session::call).
    pub fn run(self) -> CommandFuture {
        Box::pin(async move {
            let session = self.connect.session().await?;
            let request = InspectRequest { name: self.name.clone() };
            let thing = format!("plugin {}", self.name);
            let answer = session.call(thing, session.plugins().inspect(request)).await?;
            ui::print(match self.json {
                true => json::message("mortise.v1.InspectResponse", &answer)?,
                false => render(&answer, &self.connect.ui()),
            })?;
            Ok(Exit::Done)
        })
    }
}

fn render(answer: &InspectResponse, ui: &Ui) -> String {
    let resource = answer.plugin.clone().unwrap_or_default();
    let seen = PluginSummary::from(&resource);
    let plugin = &seen.plugin;
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("{name:<14}{value}\n"));
        }
    };
    line("name", &seen.name);
    line("version", &plugin.version);
    line("stage", &answer.stage);
    line("health", &seen.health);
    line("message", &seen.message);
    line("source", &plugin.source);
    line("digest", &plugin.digest);
    line("trusted", &plugin.trust);
    line("size", &indicatif::HumanBytes(plugin.size).to_string());
    line("contract", &plugin.contract_version);
    if !plugin.previous_digest.is_empty() {
        line("before", &format!("version {}, {}", plugin.previous_version, plugin.previous_digest));
    }
    if plugin.disabled {
        line("disabled", &format!("yes; `mortise plugin enable {}` enables it", seen.name));
    }
    if plugin.rolled_back {
        line("rolled back", &format!("yes; not loaded until it changes: {}", plugin.held_digest));
    }
    if let Some(limits) = &plugin.limits {
        let memory = indicatif::HumanBytes(limits.memory_bytes);
        let (fuel, ms, at_once) = (limits.fuel, limits.deadline_ms, limits.concurrency);
        line("limits", &format!("{memory} of memory, {fuel} fuel, {ms} ms, {at_once} requests at once"));
    }
    match &plugin.requests {
        None => {
            line("grants", &plugin.grants.join(", "));
            if !plugin.grants.is_empty() {
                line("", "it requests nothing by name, so it has all of them");
            }
        }
        Some(asked) => {
            for request in &asked.requests {
                let state = if request.granted { "granted" } else { "not granted" };
                line("requests", &format!("{} ({state}): {}", request.grant, request.reason));
            }
            for grant in &plugin.grants {
                let effect =
                    if asked.unrequested.contains(grant) { " (no effect: it does not request this)" } else { "" };
                line("granted", &format!("{grant}{effect}"));
            }
        }
    }
    if answer.draining > 0 {
        line("draining", &format!("{} replaced versions still have calls", answer.draining));
    }
    if let Some(failure) = &answer.last_failure {
        line("last failure", &format!("{} while {}: {}", failure.reason, failure.stage, failure.message));
        line("", &failure.digest);
    }
    if !plugin.types.is_empty() {
        let mut table = Table::new(["type", "schema", "message", "upgrading"]);
        for t in &plugin.types {
            table.row(vec![
                t.r#type.as_ref().map(gvk).unwrap_or_default().into(),
                t.schema_version.to_string().into(),
                t.message.as_str().into(),
                if t.upgrading { "yes" } else { "no" }.into(),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }
    if !answer.hooks.is_empty() {
        let mut table = Table::new(["hook", "state", "faults", "tried again in", "last fault"]);
        for hook in &answer.hooks {
            let wait = hook.retry_in.as_ref().map(|wait| format!("{:.1?}", std_duration(Some(wait))));
            table.row(vec![
                hook.name.as_str().into(),
                health(&hook.state),
                hook.faults.to_string().into(),
                wait.unwrap_or_else(|| "-".to_owned()).into(),
                Cell::styled(Style::Dim, hook.last_fault.as_str()),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(ui));
    }
    out
}
