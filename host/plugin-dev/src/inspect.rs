//! `mortise plugin inspect FILE`: what a component is, and whether this host takes it.
//!
//! The operator's `plugin inspect NAME` is about what a server has; a file is told from a name by being one: it ends in
//! `.wasm`, has a slash in it or a dot before it, or is there.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mortise_cli::{CommandFuture, Exit, ui};
use mortise_plugin_host::Manifest;
use mortise_service::registry::builtin::RESERVED_GROUPS;

use crate::{fault, offline::Offline, report::ComponentReport};

/// A component's file.
#[derive(Debug)]
pub struct Inspect {
    /// The component.
    pub file: PathBuf,
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
    // A folder may well have the name of the plugin that is made in it.
    path || Path::new(argument).is_file()
}

impl Inspect {
    /// Says what it is; fails if this host would refuse it.
    ///
    /// # Errors
    /// The file cannot be read; the loader's fault with its remedy; a type in a group of the host.
    pub fn run(self) -> CommandFuture {
        Box::pin(async move {
            let offline = Offline::new(&self.file)?;
            let about = ComponentReport::read(&offline).await?;
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
                    ui::line(format!(
                        "  verdict     this host (contract {}) accepts it",
                        mortise_plugin_host::CONTRACT_VERSION
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
                Some(fault) => Err(fault::load(&self.file, fault)),
            }
        })
    }
}

/// What a server has against types that only its registry refuses.
fn reserved(manifest: &Manifest) -> Option<String> {
    let gvk = manifest.types.iter().map(|one| &one.gvk).find(|gvk| RESERVED_GROUPS.contains(&gvk.group.as_str()))?;
    Some(format!("type {gvk}: group {:?} belongs to the host; choose another", gvk.group))
}
