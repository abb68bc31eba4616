//! `mortise export`: resources as text that `mortise import` and `mortise apply` read, a resource at a time.
//!
//! What belongs to one server only (uids, versions, generations, statuses) is left out, and so are resources of the
//! host's own types, but for partitions and namespaces. What is marked for deletion is left out, since it cannot be
//! written. Resources of deleted owners come without their owner.
//!
//! A store that is damaged cannot read some resources: of a type that has one, those before it are written, the other
//! types whole, and the failure at the end lists what is left out.

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use mortise_durable_fs::AtomicFile;
use mortise_resource::{
    data::TypeInfo,
    meta,
    pb::{self, watch_event::Event},
    types::gvk,
};
use mortise_text::{Indent, to_json, to_yaml};

use crate::{CliError, Connect, Exit, Progress, Session, Unit, output::ui, resources::catalog::Catalog};

pub(super) const EXAMPLES: &str = "mortise export > all.jsonl\n\
                                   mortise export demo.v2.Artist demo.v2.Album -o yaml -f music.yaml";

/// The group of partitions and namespaces, which must be there before what is in them.
pub(super) const TENANCY: &str = "tenancy";

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Types: group.version.Kind, a kind or a short name [default: all of plugins, and partitions and namespaces]
    #[arg(value_name = "TYPE")]
    types: Vec<String>,
    /// How they are written
    #[arg(short, long, value_name = "FORMAT", default_value = "jsonl")]
    output: ExportFormat,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: Connect,
}

/// How resources are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// JSON, each resource on a line.
    Jsonl,
    /// YAML, with --- between resources.
    Yaml,
}

impl Export {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let catalog = Catalog::fetch(&session).await?;
        let chosen = self.choose(&catalog)?;
        if self.file.as_os_str() == "-" {
            // Not locked: between two lines somebody else may have something to say.
            let out = &mut BufWriter::new(io::stdout());
            return self.write(&session, &chosen, &catalog, out).await?.exit();
        }
        let name = self.file.display().to_string();
        if !self.force && self.file.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{name} is there already")).remedy("--force replaces it"));
        }
        let mut part = AtomicFile::beside(&self.file).map_err(CliError::fs)?;
        let written = self.write(&session, &chosen, &catalog, &mut BufWriter::new(part.file())).await?;
        let placed = if self.force { part.replace_durably() } else { part.create_durably() };
        placed.map_err(|e| CliError::failed(format!("cannot write {name}")).caused_by(e.source))?;
        ui::line(format!("{name}: {} resources", written.count))?;
        written.exit()
    }

    /// The types to export: partitions and namespaces first.
    fn choose(&self, catalog: &Catalog) -> Result<Vec<pb::Type>, CliError> {
        let of = |info: &TypeInfo| info.r#type.clone();
        let mut chosen: Vec<pb::Type> = Vec::new();
        if self.types.is_empty() {
            let whole = catalog.infos().iter().filter(|info| {
                !info.plugin.is_empty() || of(info).is_some_and(|t| t.group == TENANCY && t.kind != "Tombstone")
            });
            chosen.extend(whole.filter_map(of));
        }
        for wanted in &self.types {
            chosen.push(catalog.find_type(wanted)?);
        }
        // Partitions before namespaces before everything else.
        chosen.sort_by_key(|t| (t.group != TENANCY, if t.kind == "Partition" { 0 } else { 1 }));
        Ok(chosen)
    }

    async fn write(
        &self,
        session: &Session,
        types: &[pb::Type],
        catalog: &Catalog,
        out: &mut dyn Write,
    ) -> Result<Written, CliError> {
        let progress = Progress::begin("exporting", None, Unit::Items);
        let (mut count, mut going, mut unreadable) = (0_u64, 0_u64, Vec::new());
        for wanted in types {
            let name = gvk(wanted);
            // A watch gives its snapshot a resource at a time, where a list is one message.
            let request =
                pb::WatchListRequest { r#type: Some(wanted.clone()), tenancy: None, name_prefix: String::new() };
            let mut stream = session.call(&name, session.resources().watch_list(request)).await?;
            loop {
                let event = match session.next(&name, &mut stream).await {
                    Ok(event) => event,
                    // What the store cannot read is the server's fault, and of this type only.
                    Err(error) if error.code == Some(tonic::Code::Internal) => {
                        unreadable.push(error);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                let Some(Event::Upsert(upsert)) = event.and_then(|event| event.event) else { break };
                let Some(resource) = upsert.resource.map(portable).filter(|r| !is_given(r)) else { continue };
                if meta::is_marked(&resource.metadata) {
                    going += 1;
                    continue;
                }
                let text = match self.output {
                    ExportFormat::Jsonl => to_json(&resource, catalog, Indent::Compact) + "\n",
                    ExportFormat::Yaml if count > 0 => format!("---\n{}", to_yaml(&resource, catalog)),
                    ExportFormat::Yaml => to_yaml(&resource, catalog),
                };
                catalog.fault()?;
                out.write_all(text.as_bytes())?;
                count += 1;
                progress.advance(1);
            }
        }
        out.flush()?;
        drop(progress);
        if going > 0 {
            self.connect.ui().note(&format!("left out: {going} being deleted"));
        }
        Ok(Written { count, unreadable })
    }
}

/// What was exported, and what was not.
struct Written {
    count: u64,
    /// Why not everything of some types.
    unreadable: Vec<CliError>,
}

impl Written {
    /// A failure that lists what was not.
    fn exit(self) -> Result<Exit, CliError> {
        if self.unreadable.is_empty() {
            return Ok(Exit::Done);
        }
        let mut error = CliError::failed("not everything can be read");
        for unreadable in &self.unreadable {
            error = error.detail(unreadable.to_string());
        }
        Err(error.remedy(
            "with the server stopped, mortise restore --salvage DATA_DIR --data-dir EMPTY saves what can be read",
        ))
    }
}

/// What every server has anyway.
fn is_given(resource: &pb::Resource) -> bool {
    let id = resource.id.as_ref();
    id.is_some_and(|id| id.name == "default" && id.r#type.as_ref().is_some_and(|t| t.group == TENANCY))
}

/// Without what another server would not know.
fn portable(mut resource: pb::Resource) -> pb::Resource {
    for id in [&mut resource.id, &mut resource.owner].into_iter().flatten() {
        id.uid.clear();
    }
    resource.version.clear();
    resource.generation.clear();
    resource.status.clear();
    resource
}
