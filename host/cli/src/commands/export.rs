//! `mortise export`: resources as text that `mortise import` and `mortise apply` read, one resource at a time.
//!
//! Data that belongs to one server only (uids, versions, generations, statuses) is left out, and so are resources of
//! the host's own types, except partitions and namespaces. Resources marked for deletion are left out, since they
//! cannot be written. Resources of deleted owners come without their owner.
//!
//! Resources that cannot be read, in a damaged store or because a plugin cannot upgrade them, are left out, up to
//! [`MAX_UNREADABLE`] of a type; the failure at the end lists them.

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

/// Group of partitions and namespaces, which must exist before their content.
pub(super) const TENANCY: &str = "tenancy";

/// Most unreadable resources of a type that are skipped; after that, the rest of the type is left out.
const MAX_UNREADABLE: usize = 1_000;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Types: group.version.Kind, a kind or a short name [default: all of plugins, and partitions and namespaces]
    #[arg(value_name = "TYPE")]
    types: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "jsonl")]
    output: ExportFormat,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Replaces an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Format of the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// JSON, each resource on a line.
    Jsonl,
    /// YAML, with --- between resources.
    Yaml,
}

impl Export {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let chosen = self.choose(&catalog)?;
        if self.file.as_os_str() == "-" {
            // Not locked: other code may print between two lines.
            let out = &mut BufWriter::new(io::stdout());
            return self.write(&session, &chosen, &catalog, out).await?.exit();
        }
        let name = self.file.display().to_string();
        if !self.force && self.file.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{name} exists already")).remedy("--force replaces it"));
        }
        let mut part = AtomicFile::new_beside(&self.file).map_err(CliError::fs)?;
        let written = self.write(&session, &chosen, &catalog, &mut BufWriter::new(part.file())).await?;
        let placed = if self.force { part.replace_durably() } else { part.create_durably() };
        placed.map_err(|e| CliError::failed(format!("cannot write {name}")).caused_by(e.source))?;
        ui::line(format!("{name}: {} resources", written.count))?;
        written.exit()
    }

    /// The types to export: partitions and namespaces first.
    fn choose(&self, catalog: &Catalog) -> Result<Vec<pb::Type>, CliError> {
        let type_of = |info: &TypeInfo| info.r#type.clone();
        let mut chosen: Vec<pb::Type> = Vec::new();
        if self.types.is_empty() {
            let whole = catalog.infos().iter().filter(|info| {
                !info.plugin.is_empty() || type_of(info).is_some_and(|t| t.group == TENANCY && t.kind != "Tombstone")
            });
            chosen.extend(whole.filter_map(type_of));
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
        let written = Written::default();
        let mut writing = Writing { session, catalog, output: self.output, out, progress: &progress, written };
        for wanted in types {
            writing.write_type(wanted).await?;
        }
        let Writing { written, out, .. } = writing;
        out.flush()?;
        drop(progress);
        if written.going > 0 {
            self.connect.ui().note(&format!("left out: {} being deleted", written.going));
        }
        Ok(written)
    }
}

/// An export in progress.
struct Writing<'a> {
    session: &'a Session,
    catalog: &'a Catalog,
    output: ExportFormat,
    out: &'a mut dyn Write,
    progress: &'a Progress,
    written: Written,
}

impl Writing<'_> {
    /// Writes the readable resources of a type.
    async fn write_type(&mut self, wanted: &pb::Type) -> Result<(), CliError> {
        let mut after = None;
        for _ in 0..=MAX_UNREADABLE {
            let Some(error) = self.write_after(after, wanted).await? else { break };
            after = error.resource.as_deref().cloned();
            self.written.unreadable.push(error);
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Writes the resources of a type behind `after`; returns the error that ended it early.
    async fn write_after(&mut self, after: Option<pb::Id>, wanted: &pb::Type) -> Result<Option<CliError>, CliError> {
        let name = gvk(wanted);
        // A watch sends its snapshot one resource at a time; a list is one message.
        let request =
            pb::WatchListRequest { r#type: Some(wanted.clone()), tenancy: None, name_prefix: String::new(), after };
        let mut stream = self.session.call(&name, self.session.resources().watch_list(request)).await?;
        loop {
            let event = match self.session.next(&name, &mut stream).await {
                Ok(event) => event,
                // An unreadable resource is the fault of the server or a plugin, and ends this type only.
                Err(error) if error.code == Some(tonic::Code::Internal) || error.resource.is_some() => {
                    return Ok(Some(error));
                }
                Err(error) => return Err(error),
            };
            let Some(Event::Upsert(upsert)) = event.and_then(|event| event.event) else { return Ok(None) };
            let Some(resource) = upsert.resource.map(portable).filter(|r| !is_given(r)) else { continue };
            if meta::is_marked(&resource.metadata) {
                self.written.going += 1;
                continue;
            }
            let text = match self.output {
                ExportFormat::Jsonl => to_json(&resource, self.catalog, Indent::Compact) + "\n",
                ExportFormat::Yaml if self.written.count > 0 => format!("---\n{}", to_yaml(&resource, self.catalog)),
                ExportFormat::Yaml => to_yaml(&resource, self.catalog),
            };
            self.catalog.fault()?;
            self.out.write_all(text.as_bytes())?;
            self.written.count += 1;
            self.progress.advance(1);
        }
    }
}

/// Result of an export.
#[derive(Default)]
struct Written {
    count: u64,
    /// Resources left out because they are being deleted.
    going: u64,
    /// Errors of resources and types that could not be read.
    unreadable: Vec<CliError>,
}

impl Written {
    /// Returns a failure that lists what could not be read, if anything.
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

/// Whether every server has the resource from the start.
fn is_given(resource: &pb::Resource) -> bool {
    let id = resource.id.as_ref();
    id.is_some_and(|id| id.name == "default" && id.r#type.as_ref().is_some_and(|t| t.group == TENANCY))
}

/// Removes what another server would not know.
fn portable(mut resource: pb::Resource) -> pb::Resource {
    for id in [&mut resource.id, &mut resource.owner].into_iter().flatten() {
        id.uid.clear();
    }
    resource.version.clear();
    resource.generation.clear();
    resource.status.clear();
    resource
}
