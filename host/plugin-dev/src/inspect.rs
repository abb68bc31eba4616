//! `mortise plugin inspect FILE`: the content of a component, and whether this host accepts it.
//!
//! The operator's `plugin inspect NAME` is about a plugin of a server. An argument is a file if it ends in `.wasm`, has
//! a slash in it or a dot before it, or is an existing file.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mortise_cli::{CommandFuture, Exit, ui};
use mortise_plugin_host::Manifest;
use mortise_service::registry::builtin::RESERVED_GROUPS;

use crate::{fault, offline::Offline, report::ComponentReport, server_settings::ReadServerSettings};

/// Arguments of `plugin inspect`, for a component's file.
#[derive(Debug)]
pub struct Inspect {
    /// The component.
    pub file: PathBuf,
    /// A server's configuration, whose limits, settings and grants the component gets.
    pub config: Option<PathBuf>,
    /// Output format.
    pub output: Format,
}

/// Output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text, for people
    #[default]
    Text,
    /// JSON, for programs
    Json,
}

/// Whether an argument of `plugin inspect` means a file, and not a plugin of a server.
#[must_use]
pub fn is_file(argument: &str) -> bool {
    let path = argument.ends_with(".wasm") || argument.contains('/') || argument.starts_with('.');
    // A folder may have the name of the plugin that is made in it.
    path || Path::new(argument).is_file()
}

impl Inspect {
    /// Prints a report; fails if this host, or the server with that configuration, would reject the component.
    ///
    /// # Errors
    /// A file cannot be read; a wrong setting; the loader's error with its remedy; a type in a group of the host.
    pub fn run(self, read: ReadServerSettings) -> CommandFuture {
        Box::pin(async move {
            let server = self.config.as_deref().map(read).transpose()?;
            let offline = Offline::with(&self.file, false, server.as_ref())?;
            let mut about = ComponentReport::read(&offline).await?;
            if let Some(server) = &server {
                about.load(&offline, &server.plugins).await;
            }
            let reserved = about.manifest().and_then(reserved);
            if self.output == Format::Json {
                let mut json = about.json();
                if let (Some(what), Some(all)) = (&reserved, json.as_object_mut()) {
                    all.insert("loads".into(), false.into());
                    all.insert("fault".into(), what.as_str().into());
                }
                ui::line(format!("{json:#}"))?;
            } else {
                ui::print(format!("{}\n{}", self.file.display(), about.text()))?;
                for (what, port) in about.unknown_interfaces() {
                    ui::print(format!(
                        "  unknown {what} {}\n    {}\n",
                        port.name,
                        port.remedy.as_deref().unwrap_or_default()
                    ))?;
                }
            }
            if let Some(what) = reserved {
                let next = "change it in the plugin's static table in src/lib.rs, and run `mortise plugin build` again";
                return Err(fault::failed(format!("{}: {what}", self.file.display()), next));
            }
            match about.fault() {
                None if self.output == Format::Text => {
                    let under = self.config.map(|path| format!(", and {} has what it needs", path.display()));
                    ui::line(format!(
                        "  verdict     this host (contract {}) accepts it{}",
                        mortise_plugin_host::CONTRACT_VERSION,
                        under.unwrap_or_default()
                    ))?;
                    if let Some(manifest) = about.manifest() {
                        ui::line(format!(
                            "next: mortise plugin install {} (a plugin called {})",
                            self.file.display(),
                            manifest.name
                        ))?;
                    }
                    Ok(Exit::Done)
                }
                None => Ok(Exit::Done),
                Some(_) => about.into_fault().map_or(Ok(Exit::Done), |fault| Err(fault::load(&self.file, fault))),
            }
        })
    }
}

/// Returns the fault of a type in a group of the host, which only a server's registry would reject.
fn reserved(manifest: &Manifest) -> Option<String> {
    let gvk = manifest.types.iter().map(|decl| &decl.gvk).find(|gvk| RESERVED_GROUPS.contains(&gvk.group.as_str()))?;
    Some(format!("type {gvk}: group {:?} belongs to the host; choose another", gvk.group))
}
