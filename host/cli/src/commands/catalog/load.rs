//! `mortise catalog load`: services and workloads of a compose file, a hosts file or Consul's catalog.
//!
//! The command writes what the file contains now: a second run with the same file changes nothing, and a resource that
//! left the file stays until it is deleted, unless `--follow` is given. Entries that cannot be loaded are listed with
//! their lines; the rest is loaded. `-o yaml` asks no server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Read as _,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use mortise_text::Source;
use serde_json::Value;

use super::{
    compose::{self, ComposeError},
    consul, hosts, items,
    plan::{LoadPlan, Remark},
};
use crate::{CliError, Connect, Exit, Session, Tenancy, Ui, env, output::ui, resources::catalog::Catalog};

pub(super) const EXAMPLES: &str = "\
mortise catalog load compose.yaml
mortise catalog load /etc/hosts --namespace lan --dry-run
curl -s localhost:8500/v1/catalog/service/web | mortise catalog load - --format consul
mortise catalog load compose.yaml --profile debug -o yaml > services.yaml
mortise catalog load compose.yaml --follow --yes";

/// Largest file, bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Remarks printed one by one; the rest are only counted.
const MAX_TOLD: usize = 50;

/// Format of the source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SourceFormat {
    /// A docker-compose file.
    Compose,
    /// Lines of an address and names, as in /etc/hosts.
    Hosts,
    /// Answers of Consul's /v1/catalog/service/NAME or /v1/health/service/NAME, as JSON.
    Consul,
}

impl fmt::Display for SourceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compose => "a compose file",
            Self::Hosts => "a hosts file",
            Self::Consul => "an export of Consul's catalog",
        })
    }
}

/// Format in which resources are printed instead of written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Printed {
    /// YAML, as `mortise apply -f` reads it.
    Yaml,
}

/// Arguments of `catalog load`.
#[derive(Debug, Args)]
pub(super) struct Load {
    /// The file, or - for standard input
    #[arg(value_name = "FILE|-")]
    pub(super) file: PathBuf,
    /// Format of the file [default: guessed from its name and content]
    #[arg(long, value_name = "FORMAT")]
    format: Option<SourceFormat>,
    /// IP address at which the published ports of a compose file are reached
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Loads the services of a compose file with this profile, too; * for all; can be given several times
    #[arg(long, value_name = "NAME")]
    profile: Vec<String>,
    /// Shows what would change and writes nothing; the server fills in defaults and validates
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Prints the resources instead of writing them; no server is needed
    #[arg(short, long, value_name = "FORMAT", conflicts_with_all = ["dry_run", "follow"])]
    output: Option<Printed>,
    /// Writes nothing if anything would be left out
    #[arg(long)]
    strict: bool,
    /// Keeps the resources as the file is until Ctrl-C, and deletes those that leave it; shows each plan and asks first
    #[arg(long)]
    follow: bool,
    /// Name of the source, by which --follow knows its resources [default: made from the machine and the path]
    #[arg(long, value_name = "NAME", requires = "follow")]
    pub(super) source: Option<String>,
    /// Does not ask before the changes of --follow
    #[arg(short, long, requires = "follow")]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// Content of a source, and the files that it was read from.
pub(super) struct Loaded {
    pub(super) plan: LoadPlan,
    pub(super) files: Vec<PathBuf>,
}

impl Load {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        if self.follow {
            if self.file == Path::new("-") {
                return Err(CliError::usage("standard input cannot be followed").remedy("name a file"));
            }
            return self.run_follow(&ui).await;
        }
        let Loaded { plan, .. } = self.load()?;
        print_remarks(&plan, &ui);
        self.check(&plan)?;
        if let Some(Printed::Yaml) = self.output {
            let target = self.connect.resolve(&env::process)?;
            let units = self.tenancy.units_in((target.partition.as_deref(), target.namespace.as_deref()));
            items::print(&items::items(plan, &units, &BTreeMap::new()))?;
            return Ok(Exit::Done);
        }
        let (session, catalog) = self.connect_to_catalog().await?;
        let items = items::items(plan, &self.tenancy.units(&session), &BTreeMap::new());
        let counts = if self.dry_run {
            items::print_plans(&items::plan_all(items, &session, &catalog).await, &catalog, &ui)?
        } else {
            items::write_all(items, &session, &catalog, &ui).await?
        };
        ui::line(counts.sentence(self.dry_run))?;
        Ok(if counts.has_failed() { Exit::Failed } else { Exit::Done })
    }

    /// Connects to a server that has the types of the catalog.
    pub(super) async fn connect_to_catalog(&self) -> Result<(Session, Catalog), CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        catalog.find_type("catalog.v1.Workload").map_err(|error| {
            error.remedy("the plugin `catalog` is not switched on: put it into plugins.bundled of the configuration")
        })?;
        Ok((session, catalog))
    }

    /// Reads the source.
    pub(super) fn load(&self) -> Result<Loaded, CliError> {
        let text = read(&self.file)?;
        let format = match self.format {
            Some(format) => format,
            None => guess(&self.file, &text).ok_or_else(|| {
                CliError::usage(format!("{}: cannot guess the format", self.file.display()))
                    .remedy("give --format compose, --format hosts or --format consul")
            })?,
        };
        let name = self.file.to_string_lossy();
        let source = Source { name: &name, text: &text };
        let wrong = |error: CliError| error.remedy("give --format if the file has another format");
        let not = || CliError::usage(format!("{} is not {format}", self.file.display()));
        let mut files = vec![self.file.clone()];
        let plan = match format {
            SourceFormat::Hosts => hosts::read(source),
            SourceFormat::Consul => consul::read(source).map_err(|error| wrong(not().caused_by(error)))?,
            SourceFormat::Compose => {
                let env = |name: &str| std::env::var(name).ok();
                let options = compose::Options { address: self.address, profiles: &self.profile, env: &env };
                let (plan, more) = compose::read(source, &options).map_err(|error| match error {
                    ComposeError::Yaml(_) | ComposeError::NoServices => wrong(not().caused_by(error)),
                    _ => CliError::usage(format!("cannot load {}", self.file.display())).caused_by(error),
                })?;
                files.extend(more);
                plan
            }
        };
        Ok(Loaded { plan, files })
    }

    /// Fails if `--strict` forbids a source, or if it is empty.
    pub(super) fn check(&self, plan: &LoadPlan) -> Result<(), CliError> {
        if self.strict && !plan.skipped.is_empty() {
            return Err(CliError::usage(format!("{} items cannot be loaded; nothing was done", plan.skipped.len()))
                .remedy("without --strict the rest is loaded"));
        }
        if plan.workloads.is_empty() && plan.services.is_empty() {
            return Err(CliError::failed(format!("{}: there is nothing to load", self.file.display())));
        }
        Ok(())
    }
}

/// Prints the remarks about a source, and the grants that its checks need.
pub(super) fn print_remarks(plan: &LoadPlan, ui: &Ui) {
    for Remark { place, text } in plan.notes.iter().take(MAX_TOLD) {
        ui.note(&format!("note: {place}: {text}"));
    }
    for Remark { place, text } in plan.skipped.iter().take(MAX_TOLD) {
        ui.warn(&format!("{place}: left out: {text}"));
    }
    for (list, name) in [(&plan.notes, "notes"), (&plan.skipped, "entries that were left out")] {
        if let Some(more) = list.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
            ui.warn(&format!("and {more} more {name}"));
        }
    }
    let grants = plan.grants();
    if grants.is_empty() {
        return;
    }
    let setting = |(name, hosts): (&&str, &BTreeSet<String>)| {
        format!("{name} = {:?}", hosts.iter().take(MAX_TOLD).collect::<Vec<_>>())
    };
    let settings: Vec<String> = grants.iter().map(setting).collect();
    ui.note(&format!(
        "note: the checks need these grants in [plugin.catalog.grants], or their workloads are unhealthy: {}",
        settings.join(", ")
    ));
}

/// Reads the file or standard input, at most `MAX_BYTES`.
fn read(file: &Path) -> Result<String, CliError> {
    let unreadable = |error| CliError::file("cannot read", file, error);
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::usage(format!("{} is larger than {MAX_BYTES} bytes", file.display()))
            .remedy("split it into several files"));
    }
    String::from_utf8(bytes).map_err(|error| CliError::usage(format!("{}: not text", file.display())).caused_by(error))
}

/// Guesses the format of a file: by its name, then by its first line with content.
fn guess(file: &Path, text: &str) -> Option<SourceFormat> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name == "hosts" {
        return Some(SourceFormat::Hosts);
    }
    if text.trim_start().starts_with(['{', '[']) {
        let holds = |value: &Value| value.get("services").is_some_and(Value::is_object);
        let value: Value = serde_json::from_str(text).ok()?;
        return Some(if holds(&value) { SourceFormat::Compose } else { SourceFormat::Consul });
    }
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    if lines.clone().any(|line| line.starts_with("services:")) {
        return Some(SourceFormat::Compose);
    }
    let first = lines.find(|line| !line.trim().is_empty())?;
    first.split_whitespace().next()?.parse::<IpAddr>().is_ok().then_some(SourceFormat::Hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_looks_like() {
        let guess = |name: &str, text: &str| guess(Path::new(name), text);
        assert_eq!(guess("/etc/hosts", ""), Some(SourceFormat::Hosts));
        assert_eq!(guess("-", "# mine\n10.0.0.1 web\n"), Some(SourceFormat::Hosts));
        assert_eq!(guess("c.yml", "version: '3'\nservices:\n  web:\n"), Some(SourceFormat::Compose));
        assert_eq!(guess("c.json", r#"{"services": {}}"#), Some(SourceFormat::Compose));
        assert_eq!(guess("dump", r#" [{"ServiceName": "web"}]"#), Some(SourceFormat::Consul));
        assert_eq!(guess("notes", "hello"), None);
        assert_eq!(guess("bad.json", "{"), None);
    }
}
