//! `mortise plugin push`.

use std::path::PathBuf;

use clap::Args;
use mortise_keys::signature::{read_signature, signature_path};
use mortise_registry::{About, Artifact, Digest, Reference, RegistryError, version};

use super::Way;
use crate::{CliError, Exit, output::ui};

pub(in super::super) const EXAMPLES: &str = "mortise plugin push target/plugins/demo.wasm oci://ghcr.io/acme/demo:1.2.0\n\
                                             mortise plugin push demo.wasm oci://localhost:5000/demo:nightly --force";

/// Beginning of a signature.
const MINISIGN: &[u8] = b"untrusted comment:";

/// Arguments of `plugin push`.
#[derive(Debug, Args)]
pub struct Push {
    /// The component; its signature, FILE.minisig, is pushed along if it exists
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its place: oci://HOST/NAME[:TAG]
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    /// The version to note in the registry [default: the tag, if it is a version]
    #[arg(long, value_name = "VERSION")]
    as_version: Option<String>,
    /// Replaces the plugin of this tag
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    way: Way,
}

impl Push {
    pub(in super::super) async fn run(self) -> Result<Exit, CliError> {
        let Self { file, reference, as_version, force, way } = self;
        if reference.digest.is_some() {
            let error = CliError::usage(format!("{reference} has a digest, which follows from the content"));
            return Err(error.remedy("push to a tag: oci://HOST/NAME:TAG"));
        }
        if let Some(version) = as_version.as_deref().filter(|text| version(text).is_none()) {
            return Err(CliError::usage(format!("{version:?} is not a version")).remedy("write 1.2.3"));
        }
        let component = std::fs::read(&file).map_err(|e| CliError::file("cannot read", &file, e))?;
        let signature = read_signature(&file)
            .map_err(|e| CliError::usage(format!("reading the signature of {}", file.display())).caused_by(e))?;
        if signature.as_ref().is_some_and(|text| !text.starts_with(MINISIGN)) {
            let what = format!("{} is not a signature of minisign", signature_path(&file).display());
            return Err(CliError::usage(what).remedy("`mortise plugin sign` makes one; or take the file away"));
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let tag = reference.tag.as_deref().filter(|tag| version(tag).is_some());
        let about = About { file: &name, version: as_version.as_deref().or(tag) };
        let artifact = Artifact::of_component(component, &about)?;
        let subject = artifact.descriptor();
        let is_signed = signature.is_some();
        let signature = signature.map(|text| Artifact::of_signature(subject.clone(), &name, text)).transpose()?;
        let registry = way.registry(&reference.repository.host)?;
        // Others may rely on the tag of a version; `latest`, which counts without a tag, is meant to move.
        if !force && reference.tag.is_some() {
            let there = registry.resolve(&reference).await;
            refuse_other(&reference, &subject.digest, there.map(|there| there.reference.digest))?;
        }
        let pushed = registry.push_artifacts(&reference, &artifact, signature.as_slice()).await?;
        let signed = if is_signed { "with its signature" } else { "without a signature" };
        ui::line(format!("{pushed}: pushed {signed}"))?;
        Ok(Exit::Done)
    }
}

/// Fails if the tag has another manifest: other content, or another name or version of its file. Signatures belong to a
/// manifest, so a tag that moves loses them.
fn refuse_other(
    reference: &Reference,
    digest: &Digest,
    there: Result<Option<Digest>, RegistryError>,
) -> Result<(), CliError> {
    match there {
        Ok(there) if there.as_ref() == Some(digest) => Ok(()),
        Err(RegistryError::NotFound { .. }) => Ok(()),
        Ok(_) | Err(RegistryError::NotComponent { .. }) => {
            let what =
                format!("{reference} is there already, with other content, or with another file name or version");
            Err(CliError::failed(what).remedy("push a new version, or replace this one with --force"))
        }
        Err(error) => Err(error.into()),
    }
}
