//! `mortise catalog load`: services and workloads of a compose file, a hosts file or Consul's catalog.
//!
//! The command writes what the file contains now: a second run with the same file changes nothing, and a resource that
//! left the file stays until it is deleted. Entries that cannot be loaded are listed with their place; the rest is
//! loaded.

use std::{
    fmt,
    io::Read as _,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use futures::{StreamExt as _, stream};
use mortise_resource::{pb, types::Gvk};
use prost::Message;
use serde_json::Value;

use super::{
    compose, consul, hosts,
    plan::{LoadPlan, Skipped},
};
use crate::{
    CliError, Connect, Exit, Session, Tenancy, Ui,
    apply::plan::{self as change, Plan},
    apply::report,
    commands::apply::{Counts, Outcome, write},
    connect::throttle::Throttle,
    error::diagnostic_line,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{id_of, placed_title},
        show,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise catalog load compose.yaml
mortise catalog load /etc/hosts --namespace lan --dry-run
curl -s localhost:8500/v1/catalog/service/web | mortise catalog load - --format consul
mortise catalog load compose.yaml -o yaml > services.yaml";

/// Largest file, bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Skipped entries printed one by one; the rest are only counted.
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
    file: PathBuf,
    /// Format of the file [default: guessed from its name and content]
    #[arg(long, value_name = "FORMAT")]
    format: Option<SourceFormat>,
    /// IP address at which the published ports of a compose file are reached
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Shows what would change and writes nothing; the server fills in defaults and validates
    #[arg(long)]
    dry_run: bool,
    /// Prints the resources instead of writing them
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "dry_run")]
    output: Option<Printed>,
    /// Writes nothing if anything would be left out
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// A resource of the file, and its place in the file.
struct Item {
    place: String,
    resource: pb::Resource,
}

impl Load {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let text = read(&self.file)?;
        let format = match self.format {
            Some(format) => format,
            None => guess(&self.file, &text).ok_or_else(|| {
                CliError::usage(format!("{}: cannot guess the format", self.file.display()))
                    .remedy("give --format compose, --format hosts or --format consul")
            })?,
        };
        let wrong = |error: CliError| error.remedy("give --format if the file has another format");
        let what = || format!("{} is not {format}", self.file.display());
        let plan = match format {
            SourceFormat::Hosts => hosts::read(&text),
            SourceFormat::Compose => {
                compose::read(&text, self.address).map_err(|error| wrong(CliError::usage(what()).caused_by(error)))?
            }
            SourceFormat::Consul => {
                consul::read(&text).map_err(|error| wrong(CliError::usage(what()).caused_by(error)))?
            }
        };
        self.tell_skipped(&plan.skipped, &ui);
        if self.strict && !plan.skipped.is_empty() {
            return Err(CliError::usage(format!("{} items cannot be loaded; nothing was done", plan.skipped.len()))
                .remedy("without --strict the rest is loaded"));
        }
        if plan.workloads.is_empty() {
            return Err(CliError::failed(format!("{}: there is nothing to load", self.file.display())));
        }
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        catalog.find_type("catalog.v1.Workload").map_err(|error| {
            error.remedy("the plugin `catalog` is not switched on: put it into plugins.bundled of the configuration")
        })?;
        let items = self.items(plan, &session);
        match self.output {
            Some(Printed::Yaml) => {
                for item in &items {
                    ui::print(format!("---\n{}", show::yaml(&item.resource, &catalog)?))?;
                }
                Ok(Exit::Done)
            }
            None => self.write(items, &session, &catalog, &ui).await,
        }
    }

    /// Resources to write; workloads come first, so that a service finds them.
    fn items(&self, plan: LoadPlan, session: &Session) -> Vec<Item> {
        let units = self.tenancy.units(session);
        let or_default = |unit: String| if unit.is_empty() { "default".to_owned() } else { unit };
        let tenancy = pb::Tenancy { partition: or_default(units.partition), namespace: or_default(units.namespace) };
        let resource = |kind: &str, name: String, data: Vec<u8>| pb::Resource {
            id: Some(pb::Id {
                name,
                r#type: Some(Gvk::new("catalog", "v1", kind).to_pb()),
                tenancy: Some(tenancy.clone()),
                uid: String::new(),
            }),
            data: Some(prost_types::Any { type_url: format!("type.googleapis.com/catalog.v1.{kind}"), value: data }),
            ..pb::Resource::default()
        };
        let mut items = Vec::new();
        for (name, found) in plan.workloads {
            let workload = resource("Workload", name, found.data.encode_to_vec());
            items.push(Item { place: found.place, resource: pb::Resource { metadata: found.metadata, ..workload } });
        }
        for (name, found) in plan.services {
            let data = found.data().encode_to_vec();
            items.push(Item { place: found.place, resource: resource("Service", name, data) });
        }
        items
    }

    /// Writes or plans all items; continues after a refusal.
    async fn write(&self, items: Vec<Item>, session: &Session, catalog: &Catalog, ui: &Ui) -> Result<Exit, CliError> {
        let throttle = Throttle::default();
        let mut counts = Counts::default();
        let mut coming = stream::iter(items)
            .map(|item| {
                let throttle = &throttle;
                async move {
                    let wanted = item.resource.clone();
                    let done = throttle.call(async || {
                        if self.dry_run {
                            let planned = change::dry_run(session, catalog, &wanted, |_: &pb::Id| false).await;
                            planned.map(|plan| Outcome::Planned(Box::new(plan)))
                        } else {
                            write(session, catalog, wanted.clone()).await
                        }
                    });
                    let done = done.await;
                    (item, done)
                }
            })
            .buffered(Throttle::MOST);
        while let Some((item, done)) = coming.next().await {
            let name = placed_title(&id_of(&item.resource));
            match done {
                Ok(Outcome::Done(change, _, warnings)) => {
                    counts.count(change);
                    for warning in warnings {
                        ui.warn(&format!("{}: {}", self.place(&item.place), diagnostic_line(&warning)));
                    }
                    ui::line(format!("{name} {}", change.word()))?;
                }
                Ok(Outcome::Planned(plan)) => {
                    counts.count(plan.change);
                    print_plan(&name, &plan, catalog, ui)?;
                }
                Ok(Outcome::Orphan) => {}
                Ok(Outcome::Failed(error)) | Err(error) if error.exit == Exit::Unreachable => return Err(error),
                Ok(Outcome::Failed(error)) | Err(error) => {
                    counts.fail();
                    ui.note(&format!("mortise: {}: {error}", self.place(&item.place)));
                }
            }
        }
        ui::line(counts.sentence(self.dry_run))?;
        Ok(if counts.has_failed() { Exit::Failed } else { Exit::Done })
    }

    fn tell_skipped(&self, skipped: &[Skipped], ui: &Ui) {
        for item in skipped.iter().take(MAX_TOLD) {
            ui.warn(&format!("{}: left out: {}", self.place(&item.place), item.reason));
        }
        if let Some(more) = skipped.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
            ui.warn(&format!("and {more} more were left out"));
        }
    }

    fn place(&self, place: &str) -> String {
        format!("{}: {place}", mortise_text::file_name(&self.file.to_string_lossy()))
    }
}

fn print_plan(name: &str, plan: &Plan, catalog: &Catalog, ui: &Ui) -> Result<(), CliError> {
    ui::print(report::coloured(&plan.diff(catalog)?, ui))?;
    ui::line(format!("{name} {} (dry run)", plan.change.word()))
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
