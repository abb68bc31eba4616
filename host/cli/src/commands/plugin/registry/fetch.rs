//! A component from a registry, with the signature that counts, and its files.

use std::path::{Path, PathBuf};

use clap::Args;
use mortise_keys::signature::{PublicKey, signature_path, verify};
use mortise_registry::{Artifact, Pulled, Reference};

use super::Way;
use crate::{CliError, commands::plugin::keys::write_new};

/// Keys of which one must have signed.
#[derive(Debug, Args)]
pub(in super::super) struct Keys {
    /// A public key, or its file: the plugin must be signed by it, or by another one that is given
    #[arg(long = "key", value_name = "PUBLIC_KEY")]
    keys: Vec<String>,
}

/// A signature that is passed on.
pub(super) struct Signature {
    pub(super) text: Vec<u8>,
    /// The key that made it, with its comment; `None` if no key was given to compare with.
    pub(super) signer: Option<String>,
    /// Number of signatures that the registry lists.
    pub(super) listed: usize,
}

impl Keys {
    /// Returns true if a key is given.
    pub(in super::super) fn is_given(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Reads the keys.
    pub(super) fn load(&self) -> Result<Vec<PublicKey>, CliError> {
        let load = |given: &String| {
            PublicKey::load(given).map_err(|e| CliError::usage(format!("cannot use the key {given:?}")).caused_by(e))
        };
        self.keys.iter().map(load).collect()
    }
}

/// Chooses a component's signature: the last of the list by one of the keys, or the last of all without keys.
///
/// # Errors
/// Keys are given, and no signature is by one of them.
pub(super) fn signature(
    reference: &Reference,
    component: &[u8],
    signatures: &[Artifact],
    keys: &[PublicKey],
) -> Result<Option<Signature>, CliError> {
    let listed = signatures.len();
    let mut last_first = signatures.iter().rev().map(|signature| &signature.layer);
    if keys.is_empty() {
        return Ok(last_first.next().cloned().map(|text| Signature { text, signer: None, listed }));
    }
    let mut faults = Vec::new();
    for text in last_first {
        match verify(component, text, keys) {
            Ok(who) => {
                let signer = Some(format!("{}: {}", who.key, who.comment));
                return Ok(Some(Signature { text: text.clone(), signer, listed }));
            }
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    let error = match faults.len() {
        0 => CliError::failed(format!("{reference} is not signed")),
        count => CliError::failed(format!("{reference} is not signed by a given key; signatures of others: {count}")),
    };
    let error = faults.into_iter().fold(error, CliError::detail);
    Err(error.remedy("do not use it, or give the key of its author: --key PUBLIC_KEY"))
}

/// A component on its way into files.
pub(in super::super) struct Fetch {
    pub(in super::super) reference: Reference,
    component: Vec<u8>,
    signature: Option<Signature>,
}

impl Fetch {
    /// Pulls a component and checks its signature.
    pub(in super::super) async fn pull(way: &Way, reference: &Reference, keys: &Keys) -> Result<Self, CliError> {
        let keys = keys.load()?;
        let pulled = way.registry(&reference.repository.host)?.pull(reference).await?;
        let Pulled { reference, artifact, signatures, .. } = pulled;
        Self::checked(reference, artifact, &signatures, &keys)
    }

    /// Takes a component whose signature one of the keys has made, or any if no key is given.
    pub(super) fn checked(
        reference: Reference,
        artifact: Artifact,
        signatures: &[Artifact],
        keys: &[PublicKey],
    ) -> Result<Self, CliError> {
        let signature = signature(&reference, &artifact.layer, signatures, keys)?;
        Ok(Self { reference, component: artifact.layer, signature })
    }

    /// Fails if a file is there that would be replaced.
    pub(super) fn refuse_existing(path: &Path) -> Result<(), CliError> {
        let signature = signature_path(path);
        let there = [path, signature.as_path()].into_iter().find(|path| path.symlink_metadata().is_ok());
        there.map_or(Ok(()), |there| {
            let error = CliError::usage(format!("{} exists already", there.display()));
            Err(error.remedy("choose another file with -o, or replace it with --force"))
        })
    }

    /// Writes the component, and its signature beside it. An older signature is removed first, since it would belong to
    /// another component.
    pub(in super::super) fn write(&self, path: &Path, replace: bool) -> Result<(), CliError> {
        let beside: PathBuf = signature_path(path);
        if replace && beside.symlink_metadata().is_ok() {
            mortise_durable_fs::remove(&beside).map_err(CliError::fs)?;
        }
        write_new(path, &self.component, 0o644, replace)?;
        match &self.signature {
            Some(signature) => write_new(&beside, &signature.text, 0o644, replace),
            None => Ok(()),
        }
    }

    /// `signed by the key …`, or what else is known of the signature.
    pub(super) fn signed(&self) -> String {
        match &self.signature {
            None => "without a signature".to_owned(),
            Some(Signature { signer: None, listed: ..=1, .. }) => {
                "with a signature that no key was compared with".to_owned()
            }
            Some(Signature { signer: None, listed, .. }) => {
                format!("with one of {listed} signatures, which no key was compared with; --key chooses that of a key")
            }
            Some(Signature { signer: Some(signer), .. }) => format!("signed by the key {signer}"),
        }
    }
}
