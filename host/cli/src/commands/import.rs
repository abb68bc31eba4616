//! `mortise import`: writes resources from text, in any number, a few at a time.
//!
//! Like `apply`, but made for many: nothing is read or compared first, and a file is never in memory as a whole.
//! Versions, uids and generations in the text are dropped: the server assigns its own. A resource with an owner waits
//! until everything else is written, and then for its owner; so does a resource with a reference to a missing one.
//! Partitions and namespaces are written before what comes after them.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    sync::Arc,
};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use mortise_resource::{pb, resource_meta::strip_server_part, types::describe};
use mortise_text::{Document, ReadError, Reader};
use tokio::sync::mpsc;

use super::export::TENANCY;
use crate::{
    CliError, Connect, Exit, Progress, Session, Tenancy, Ui, Unit, output::ui, resources::catalog::Catalog,
    resources::ids::refers_to_nothing,
};

pub(super) const EXAMPLES: &str =
    "mortise import all.jsonl\nmortise export --context old | mortise import - --context new";

/// Most writes in flight at once, so that the server's writers share its syncs.
const IN_FLIGHT: usize = 64;

/// Failures printed one by one; the rest are only counted.
const MAX_TOLD: usize = 50;

/// The server's message about an owner that does not exist (yet).
const NO_OWNER: &str = "resource.owner does not exist";

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Files of `mortise export`, or others in JSON, JSON lines or YAML; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Continues after a refused resource, and fails at the end
    #[arg(long)]
    keep_going: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// A resource to write, and its place in the text.
struct PlacedResource {
    resource: pb::Resource,
    place: String,
}

/// State of an import.
struct Importer<'r> {
    session: &'r Session,
    keep_going: bool,
    ui: Ui,
    progress: Progress,
    written: u64,
    failed: u64,
    /// Resources with a missing owner or reference, each with the server's error.
    orphans: Vec<(PlacedResource, CliError)>,
}

impl Import {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let catalog = Arc::new(Catalog::fetch(&session).await?);
        let mut run = Importer {
            session: &session,
            keep_going: self.keep_going,
            ui: self.connect.ui(),
            progress: Progress::begin("importing", None, Unit::Items),
            written: 0,
            failed: 0,
            orphans: Vec::new(),
        };
        let mut owned = Vec::new();
        let ended = self.write_files(&catalog, &mut run, &mut owned).await;
        let ended = match ended {
            Ok(()) => run.write_owned(owned).await,
            Err(error) => Err(error),
        };
        let Importer { written, failed, progress, .. } = run;
        drop(progress);
        ended.map_err(|mut error| {
            // `Usage` means that nothing was written.
            if error.exit == Exit::Usage && written > 0 {
                error.exit = Exit::Failed;
            }
            let error = error.detail(format!("{} written before that", resources(written)));
            match error.remedy {
                Some(_) => error,
                None => error.remedy("fix it and import again, which is harmless; or give --keep-going"),
            }
        })?;
        ui::line(format!("{} written, {failed} refused", resources(written)))?;
        Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
    }

    /// Writes the resources without an owner, file by file.
    async fn write_files(
        &self,
        catalog: &Arc<Catalog>,
        run: &mut Importer<'_>,
        owned: &mut Vec<PlacedResource>,
    ) -> Result<(), CliError> {
        for file in &self.files {
            let name = file.display().to_string();
            let documents = if name == "-" {
                documents(BufReader::new(io::stdin()), name, catalog.clone())
            } else {
                let opened = File::open(file).map_err(|e| CliError::file("cannot read", file, e))?;
                documents(BufReader::new(opened), name, catalog.clone())
            };
            self.write(documents, catalog, run, owned).await?;
        }
        Ok(())
    }

    /// Writes resources without an owner as they come; sets the others aside.
    async fn write(
        &self,
        mut documents: mpsc::Receiver<Result<Document, ReadError>>,
        catalog: &Catalog,
        run: &mut Importer<'_>,
        owned: &mut Vec<PlacedResource>,
    ) -> Result<(), CliError> {
        let units = self.tenancy.units(run.session);
        let unit = |unit: &str| if unit.is_empty() { "default".to_owned() } else { unit.to_owned() };
        let (partition, namespace) = (unit(&units.partition), unit(&units.namespace));
        let mut waiting = Vec::with_capacity(IN_FLIGHT);
        let mut of_tenancy = false;
        while let Some(document) = documents.recv().await {
            let mut document: Document = match document {
                Ok(document) => {
                    // A lookup of a type may have failed while the document was read.
                    catalog.fault()?;
                    document
                }
                Err(ReadError::Diagnostics(diagnostics)) => {
                    run.refused(CliError::because(Exit::Usage, diagnostics))?;
                    continue;
                }
                Err(error) => return Err(CliError::because(Exit::Usage, error)),
            };
            document.place_in(&partition, &namespace, catalog);
            let item = PlacedResource { place: document.place.to_string(), resource: new(document.resource) };
            if item.resource.owner.is_some() {
                owned.push(item);
                continue;
            }
            // A resource that may depend on the last ones waits for them.
            let now = item.resource.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|t| t.group == TENANCY);
            if waiting.len() >= 16 * IN_FLIGHT || now || of_tenancy {
                run.write_all(std::mem::take(&mut waiting)).await?;
            }
            of_tenancy = now;
            waiting.push(item);
        }
        run.write_all(waiting).await
    }
}

/// Reads the resources of a text on a separate thread, since standard input may block.
fn documents(
    text: impl BufRead + Send + 'static,
    name: String,
    catalog: Arc<Catalog>,
) -> mpsc::Receiver<Result<Document, ReadError>> {
    let (documents, coming) = mpsc::channel(4 * IN_FLIGHT);
    tokio::task::spawn_blocking(move || {
        for document in Reader::new(text, &name, None, &*catalog) {
            if documents.blocking_send(document).is_err() {
                return;
            }
        }
    });
    coming
}

/// Removes the values that only the original server knows.
fn new(mut resource: pb::Resource) -> pb::Resource {
    for id in [&mut resource.id, &mut resource.owner].into_iter().flatten() {
        id.uid.clear();
    }
    resource.version.clear();
    resource.generation.clear();
    strip_server_part(&mut resource);
    resource
}

fn resources(count: u64) -> String {
    format!("{count} resource{}", if count == 1 { "" } else { "s" })
}

impl Importer<'_> {
    /// Writes owned resources in rounds: each round writes those with an owner that exists by now.
    async fn write_owned(&mut self, mut owned: Vec<PlacedResource>) -> Result<(), CliError> {
        owned.extend(std::mem::take(&mut self.orphans).into_iter().map(|(item, _)| item));
        while !owned.is_empty() {
            let before = owned.len();
            self.write_all(std::mem::take(&mut owned)).await?;
            let orphans = std::mem::take(&mut self.orphans);
            if orphans.len() == before {
                for (item, error) in orphans {
                    let owner = || CliError::failed(format!("{}: {NO_OWNER}", item.place));
                    self.refused(if refers_to_nothing(&error) { error } else { owner() })?;
                }
                return Ok(());
            }
            owned = orphans.into_iter().map(|(item, _)| item).collect();
        }
        Ok(())
    }

    /// Writes several at a time. After a fatal error the writes in flight are awaited, so that the counts are right.
    async fn write_all(&mut self, items: Vec<PlacedResource>) -> Result<(), CliError> {
        let session = self.session;
        let write = |item: PlacedResource| async move {
            let thing = item.resource.id.as_ref().map(describe).unwrap_or_default();
            let request = pb::WriteRequest { resource: Some(item.resource.clone()) };
            let call = async { session.resources().write(request).await };
            let answer = session.call(format!("{}: {thing}", item.place), call).await;
            (item, answer)
        };
        let mut items = items.into_iter();
        let mut flying: FuturesUnordered<_> = items.by_ref().take(IN_FLIGHT).map(write).collect();
        let mut ended = Ok(());
        while let Some((item, answer)) = flying.next().await {
            match answer {
                Ok(_) => {
                    self.written += 1;
                    self.progress.advance(1);
                }
                Err(error) if error.message.contains(NO_OWNER) || refers_to_nothing(&error) => {
                    self.orphans.push((item, error));
                }
                Err(error) => ended = ended.and(self.refused(error)),
            }
            if ended.is_ok() {
                flying.extend(items.next().map(write));
            }
        }
        ended
    }

    /// Prints a failure and counts it, or returns it as fatal. An unreachable server is always fatal.
    fn refused(&mut self, error: CliError) -> Result<(), CliError> {
        if !self.keep_going || error.exit == Exit::Unreachable {
            return Err(error);
        }
        self.failed += 1;
        if self.failed <= MAX_TOLD as u64 {
            self.progress.suspend(|| self.ui.note(&format!("mortise: {error}")));
        }
        Ok(())
    }
}
