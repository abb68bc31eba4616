//! The parts of the archive that the server has: its answers, as JSON and text.
//!
//! # Limits
//! [`MAX_PART_BYTES`] of each part, [`MAX_LOG_LINES`] lines of each plugin's log, and [`MAX_PLUGINS`] plugins.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use mortise_resource::{
    data::{
        InspectRequest, ListControllersRequest, ListMembersRequest, ListTypesResponse, LogsRequest, MetricsRequest,
        RegionStatusRequest, ServerStatusResponse, SettingsRequest,
    },
    name,
};
use serde_json::json;

use crate::{
    CliError, Color, Exit, Session, Ui,
    commands::{
        plugin::{PluginSummary, log_line},
        server_status,
        version::OWN,
    },
    output::json,
    resources::catalog::Catalog,
};

/// Most bytes of one part; more are cut off, and the list says so.
pub(super) const MAX_PART_BYTES: usize = 16 << 20;

/// Most lines of a plugin's log.
const MAX_LOG_LINES: u32 = 1_000;

/// Most plugins with parts of their own.
const MAX_PLUGINS: usize = 200;

/// The end of a part that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Nothing,
    Beginning,
    End,
}

/// A file of the archive.
pub(super) struct Part {
    /// Path within the archive.
    pub(super) name: String,
    /// Content, in one sentence.
    pub(super) about: &'static str,
    /// Content, or the reason for its absence.
    pub(super) content: Result<Vec<u8>, CliError>,
    pub(super) cut: Cut,
}

/// Parts of one server, in the order in which they were collected.
pub(super) struct Parts {
    session: Session,
    all: Vec<Part>,
}

impl Parts {
    pub(super) fn new(session: Session) -> Self {
        Self { session, all: Vec::new() }
    }

    pub(super) fn url(&self) -> String {
        self.session.url()
    }

    pub(super) fn into_list(self) -> Vec<Part> {
        self.all
    }

    pub(super) fn add(&mut self, name: impl Into<String>, about: &'static str, mut content: Result<Vec<u8>, CliError>) {
        let mut cut = Cut::Nothing;
        if let Ok(content) = &mut content
            && content.len() > MAX_PART_BYTES
        {
            content.truncate(MAX_PART_BYTES);
            cut = Cut::End;
        }
        self.all.push(Part { name: name.into(), about, content, cut });
    }

    pub(super) fn missing(&mut self, name: &str, about: &'static str, reason: &str) {
        self.add(name, about, Err(CliError::failed(reason)));
    }

    fn text(&mut self, name: impl Into<String>, about: &'static str, text: Result<String, CliError>) {
        self.add(name, about, text.map(String::into_bytes));
    }

    /// Figures of the server, and at the first time its release; returns them, too. `None` without the right to them.
    ///
    /// # Errors
    /// The server is lost, or does not answer in time: no other part can be had.
    pub(super) async fn status(&mut self, name: &str) -> Result<Option<ServerStatusResponse>, CliError> {
        let status = match server_status::fetch(&self.session).await {
            Err(fault) if matches!(fault.exit, Exit::Unreachable | Exit::TimedOut) => return Err(fault),
            status => status,
        };
        let text = match &status {
            Ok(status) => json::message("mortise.v1.ServerStatusResponse", status),
            Err(fault) => Err(fault.clone()),
        };
        self.text(name, "figures and warnings, as in `mortise status`", text);
        let Ok(status) = status else { return Ok(None) };
        if !self.all.iter().any(|part| part.name == "version.json") {
            let url = self.session.url();
            let about = json!({"client": OWN, "server": status.version, "mode": status.mode, "address": url});
            self.text("version.json", "the releases of the command and of the server", Ok(format!("{about:#}\n")));
        }
        Ok(Some(status))
    }

    pub(super) async fn metrics(&mut self, name: &str) {
        let answer = self.session.call("metrics", self.session.server().metrics(MetricsRequest {})).await;
        self.text(name, "metrics, in Prometheus's text format", answer.map(|answer| answer.text));
    }

    pub(super) async fn settings(&mut self) {
        let answer = self.session.call("settings", self.session.server().settings(SettingsRequest {})).await;
        let about = "the settings with the origin of each; plugins' own without their values";
        self.text("settings.toml", about, answer.map(|answer| answer.text));
    }

    /// Members, controllers, regions and types.
    pub(super) async fn services(&mut self) {
        let session = self.session.clone();
        let members = session.call("members", session.server().list_members(ListMembersRequest {})).await;
        let members = members.and_then(|all| json::message("mortise.v1.ListMembersResponse", &all));
        self.text("members.json", "the servers that share the store", members);
        let request = ListControllersRequest { plugin: String::new() };
        let controllers = session.call("controllers", session.controllers().list(request)).await;
        let controllers = controllers.and_then(|all| json::message("mortise.v1.ListControllersResponse", &all));
        self.text("controllers.json", "queues and failures of controllers, with names of resources", controllers);
        let regions = session.call("regions", session.regions().status(RegionStatusRequest {})).await;
        let regions = regions.and_then(|all| json::message("mortise.v1.RegionStatusResponse", &all));
        self.text("regions.json", "the state of replicas from other regions", regions);
        let types = Catalog::fetch(&session).await.and_then(|types| {
            json::message("mortise.v1.ListTypesResponse", &ListTypesResponse { types: types.infos().to_vec() })
        });
        self.text("types.json", "the types of the server", types);
    }

    /// The state and the log of each plugin.
    pub(super) async fn plugins(&mut self) {
        let session = self.session.clone();
        let names = PluginSummary::all(&session).await;
        let mut names: Vec<_> = match names {
            Ok(plugins) => plugins.into_iter().map(|plugin| plugin.name).collect(),
            Err(fault) => return self.text("plugins/", "the plugins", Err(fault)),
        };
        // A name is a path in the archive.
        names.retain(|name| name::is_valid(name));
        if let Some(more) = names.len().checked_sub(MAX_PLUGINS).filter(|more| *more > 0) {
            let reason = format!("{more} plugins are over the limit of {MAX_PLUGINS}");
            self.missing("plugins/", "further plugins", &reason);
        }
        for name in names.into_iter().take(MAX_PLUGINS) {
            let thing = format!("plugin {name}");
            let request = InspectRequest { name: name.clone() };
            let state = session.call(&thing, session.plugins().inspect(request)).await;
            let state = state.and_then(|state| json::message("mortise.v1.InspectResponse", &state));
            self.text(format!("plugins/{name}.json"), "a plugin: state, limits, grants, faults", state);
            let log = log_of(&session, &name).await;
            self.text(format!("plugins/{name}.log"), "the last lines of a plugin's log", log);
        }
    }

    /// The end of a file of the log.
    pub(super) fn log(&mut self, path: &Path) {
        let end = end_of(path).map_err(|e| CliError::file("cannot read", path, e));
        let cut = if end.as_ref().is_ok_and(|(_, is_cut)| *is_cut) { Cut::Beginning } else { Cut::Nothing };
        let content = end.map(|(bytes, _)| bytes);
        self.all.push(Part { name: "server.log".to_owned(), about: "the end of the server's log", content, cut });
    }
}

/// Reads the last [`MAX_PART_BYTES`] of a file; true if there are more.
fn end_of(path: &Path) -> std::io::Result<(Vec<u8>, bool)> {
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(MAX_PART_BYTES as u64);
    file.seek(SeekFrom::Start(skipped))?;
    let mut end = Vec::new();
    file.take(MAX_PART_BYTES as u64).read_to_end(&mut end)?;
    Ok((end, skipped > 0))
}

async fn log_of(session: &Session, name: &str) -> Result<String, CliError> {
    let request = LogsRequest { name: name.to_owned(), last: MAX_LOG_LINES, follow: false, level: 0 };
    let thing = format!("plugin {name}");
    let mut lines = session.call(&thing, session.plugins().logs(request)).await?;
    let (mut text, ui) = (String::new(), Ui::new(Color::Never));
    while let Some(line) = session.next(&thing, &mut lines).await? {
        text.push_str(&log_line(&line, &ui));
        text.push('\n');
        if text.len() > MAX_PART_BYTES {
            break;
        }
    }
    Ok(text)
}
