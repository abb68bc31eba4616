//! `mortise plugin export` and `mortise plugin import`: sets of plugins for networks without a way out.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_durable_fs::AtomicFile;
use mortise_registry::{
    Place, Pulled, Reference, Repository,
    layout::{self, LayoutError, MAX_BYTES, MAX_COMPONENTS, Member},
};

use super::{Fetch, Keys, Way, fetch};
use crate::{CliError, Exit, output::ui};

pub(in super::super) const EXPORT: &str =
    "mortise plugin export oci://ghcr.io/acme/demo:1.2.0 oci://ghcr.io/acme/dns:2.0.1 -o plugins.tar";

pub(in super::super) const IMPORT: &str = "mortise plugin import plugins.tar oci://registry.local:5000\n\
                                           mortise plugin import plugins.tar ./plugins --key acme.pub\n\
                                           mortise plugin import crane.tar ./plugins --name oci://ghcr.io/acme/demo:1.2.0";

/// Arguments of `plugin export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Plugins: oci://HOST/NAME[:TAG][@sha256:DIGEST]
    #[arg(value_name = "REFERENCE", required = true)]
    references: Vec<Reference>,
    /// The archive to write
    #[arg(short, long, value_name = "SET.tar")]
    output: PathBuf,
    /// Replaces an existing archive
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    way: Way,
}

impl Export {
    pub(in super::super) async fn run(self) -> Result<Exit, CliError> {
        let path = &self.output;
        if !self.force && path.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{} exists already", path.display())).remedy("--force replaces it"));
        }
        if self.references.len() > MAX_COMPONENTS {
            let error = CliError::usage(format!("{} plugins are too many for one set", self.references.len()));
            return Err(error.remedy(format!("a set has at most {MAX_COMPONENTS}; make several sets")));
        }
        let keys = self.keys.load()?;
        let mut members = Vec::new();
        let mut bytes = 0_u64;
        for reference in &self.references {
            let pulled = self.way.registry(&reference.repository.host)?.pull(reference).await?;
            fetch::signature(&pulled.reference, pulled.component(), &pulled.signatures, &keys)?;
            bytes = bytes.saturating_add(pulled.component().len() as u64);
            if bytes > MAX_BYTES {
                return Err(set_fault(path, LayoutError::TooLarge { what: "bytes", limit: MAX_BYTES }));
            }
            let Pulled { reference, artifact, signatures, .. } = pulled;
            members.push(Member { reference, artifact, signatures });
        }
        let mut file = AtomicFile::new_beside(path).map_err(CliError::fs)?;
        layout::write(&members, &mut file).map_err(|error| set_fault(path, error))?;
        if self.force { file.replace_durably() } else { file.create_durably() }.map_err(CliError::fs)?;
        for Member { reference, signatures, .. } in &members {
            ui::line(format!("{}: {reference}, signatures: {}", path.display(), signatures.len()))?;
        }
        Ok(Exit::Done)
    }
}

/// Arguments of `plugin import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The archive, from `mortise plugin export`, or an OCI layout of others in a tar archive
    #[arg(value_name = "SET.tar")]
    set: PathBuf,
    /// A registry for the plugins, oci://HOST[/PREFIX], or a folder for NAME.wasm and NAME.wasm.minisig
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Name of a plugin that an archive of other programs lists by its tag alone, or without a name: oci://HOST/NAME[:TAG]
    #[arg(long, value_name = "REFERENCE")]
    name: Option<Reference>,
    /// Replaces existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    way: Way,
}

impl Import {
    pub(in super::super) async fn run(self) -> Result<Exit, CliError> {
        let keys = self.keys.load()?;
        let file = File::open(&self.set).map_err(|e| CliError::file("cannot read", &self.set, e))?;
        let members = layout::read(file, self.name.as_ref()).map_err(|error| set_fault(&self.set, error))?;
        // A set with one plugin that is not signed as wanted changes nothing.
        for Member { reference, artifact, signatures } in &members {
            fetch::signature(reference, &artifact.layer, signatures, &keys)?;
        }
        if Reference::is_one(&self.destination) {
            let place = self.destination.parse::<Place>().map_err(|e| CliError::because(Exit::Usage, e))?;
            return self.push(&place, members).await;
        }
        let folder = Path::new(&self.destination);
        if !folder.is_dir() {
            let error = CliError::usage(format!("{} is not a folder", folder.display()));
            return Err(error.remedy("make it, or name a registry: oci://HOST"));
        }
        let path = |member: &Member| folder.join(format!("{}.wasm", member.reference.repository.short_name()));
        let names: BTreeSet<_> = members.iter().map(path).collect();
        if names.len() < members.len() {
            let error = CliError::usage(format!("{}: two of its plugins have one name", self.set.display()));
            return Err(error.remedy("make a set of each, and import them into folders of their own"));
        }
        if !self.force {
            members.iter().try_for_each(|member| Fetch::refuse_existing(&path(member)))?;
        }
        for member in members {
            let path = path(&member);
            let Member { reference, artifact, signatures } = member;
            let fetched = Fetch::checked(reference, artifact, &signatures, &keys)?;
            fetched.write(&path, self.force)?;
            ui::line(format!("{}: {}, {}", path.display(), fetched.reference, fetched.signed()))?;
        }
        Ok(Exit::Done)
    }

    /// Puts the plugins of a set under their names and tags into a registry. Manifests keep their digests.
    async fn push(&self, place: &Place, members: Vec<Member>) -> Result<Exit, CliError> {
        let registry = self.way.registry(&place.host)?;
        for Member { reference, artifact, signatures } in members {
            let name = match place.prefix.trim_end_matches('/') {
                "" => reference.repository.name,
                prefix => format!("{prefix}/{}", reference.repository.name),
            };
            let repository = Repository { host: place.host.clone(), name };
            let reference = Reference { repository, ..reference };
            let pushed = registry.push_artifacts(&reference, &artifact, &signatures).await?;
            ui::line(format!("{pushed}: pushed, signatures: {}", signatures.len()))?;
        }
        Ok(Exit::Done)
    }
}

fn set_fault(path: &Path, error: LayoutError) -> CliError {
    CliError::failed(path.display().to_string()).caused_by(error)
}
