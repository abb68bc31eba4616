//! The work of a user at a registry: pull, push, search.

use std::{path::PathBuf, time::Duration};

use crate::{
    api::{self, Listing, RawManifest},
    artifact::{self, About, Artifact, MAX_CONFIG, MAX_SIGNATURE, MAX_SIGNATURE_ENTRIES, MAX_SIGNATURES},
    credentials::CredentialSource,
    digest::Digest,
    error::RegistryError,
    manifest::{Descriptor, MANIFEST, MINISIGN, Manifest, VERSION},
    reference::{Place, Reference, Repository},
    session::Session,
    transport::Transport,
    wasm,
};

/// Beginning of a signature in minisign's format.
const SIGNATURE_START: &[u8] = b"untrusted comment:";

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether plain http may go to other machines than this one.
    pub plain_http: bool,
    /// File of authorities (PEM) to trust instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Source of credentials.
    pub credentials: CredentialSource,
    /// Longest time of one operation, such as a pull with its signatures.
    pub timeout: Duration,
    /// Largest component, bytes.
    pub component_bytes: usize,
}

/// A client of one registry.
#[derive(Debug)]
pub struct Registry {
    session: Session,
    options: Options,
}

/// A manifest of a component, without the component.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The reference with the digest of the manifest.
    pub reference: Reference,
    /// The version in the manifest's annotations.
    pub version: Option<String>,
    /// Digest of the component.
    pub component: Digest,
    raw: RawManifest,
    manifest: Manifest,
    layer: Descriptor,
}

/// A component from a registry.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// The reference with the digest of the manifest.
    pub reference: Reference,
    /// The version in the manifest's annotations.
    pub version: Option<String>,
    /// The artifact; its layer is the component.
    pub artifact: Artifact,
    /// Signatures in minisign's format that refer to it, the newest last, as the registry lists them.
    pub signatures: Vec<Artifact>,
}

impl Pulled {
    /// The component.
    #[must_use]
    pub fn component(&self) -> &[u8] {
        &self.artifact.layer
    }

    /// The contents of the signatures' files.
    pub fn signatures(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.signatures.iter().map(|signature| signature.layer.as_slice())
    }
}

impl Registry {
    /// Prepares a client; connects to nothing.
    ///
    /// # Errors
    /// A malformed host.
    pub fn new(host: &str, options: Options) -> Result<Self, RegistryError> {
        let transport = Transport::new(options.plain_http, options.authorities.clone());
        let session = Session::new(host, transport, options.credentials.clone())?;
        Ok(Self { session, options })
    }

    /// Reads the manifest of a component. The whole lasts [`Options::timeout`] at most, as every call here.
    ///
    /// # Errors
    /// [`RegistryError`]; [`RegistryError::NotComponent`] for other artifacts.
    pub async fn resolve(&self, reference: &Reference) -> Result<Resolved, RegistryError> {
        self.within(self.read_manifest(reference)).await
    }

    /// Reads a component and the signatures that refer to it.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn pull(&self, reference: &Reference) -> Result<Pulled, RegistryError> {
        self.within(async {
            let resolved = self.read_manifest(reference).await?;
            self.read_component(resolved).await
        })
        .await
    }

    /// Reads the component of a manifest, and its signatures.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn pull_resolved(&self, resolved: Resolved) -> Result<Pulled, RegistryError> {
        self.within(self.read_component(resolved)).await
    }

    /// Puts a component under a tag, and its signature beside it. Returns the reference with the manifest's digest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn push(
        &self,
        reference: &Reference,
        component: Vec<u8>,
        about: &About<'_>,
        signature: Option<Vec<u8>>,
    ) -> Result<Reference, RegistryError> {
        let artifact = Artifact::of_component(component, about)?;
        let subject = artifact.descriptor();
        let signature =
            signature.map(|signature| Artifact::of_signature(subject, about.file, signature)).transpose()?;
        self.push_artifacts(reference, &artifact, signature.as_slice()).await
    }

    /// Puts an artifact under a tag, and its signatures beside it. Returns the reference with the manifest's digest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn push_artifacts(
        &self,
        reference: &Reference,
        artifact: &Artifact,
        signatures: &[Artifact],
    ) -> Result<Reference, RegistryError> {
        let name = &reference.repository.name;
        let digest = artifact.descriptor().digest;
        self.within(async {
            for blob in [&artifact.config, &artifact.layer] {
                api::put_blob(&self.session, name, blob).await?;
            }
            // The signatures come first, so that no reader sees the tag without them. A registry may want the subject
            // before its referrers, so the manifest is there by its digest.
            let by_digest = digest.to_string();
            api::put_manifest(&self.session, name, &by_digest, MANIFEST, artifact.manifest.clone()).await?;
            for signature in signatures {
                for blob in [&signature.config, &signature.layer] {
                    api::put_blob(&self.session, name, blob).await?;
                }
                let entry = Descriptor { artifact_type: Some(MINISIGN.to_owned()), ..signature.descriptor() };
                api::put_referrer(&self.session, name, &digest, entry, signature.manifest.clone()).await?;
            }
            api::put_manifest(&self.session, name, reference.tag(), MANIFEST, artifact.manifest.clone()).await
        })
        .await?;
        let tag = Some(reference.tag().to_owned());
        Ok(Reference { repository: reference.repository.clone(), tag, digest: Some(digest) })
    }

    /// Lists the tags of a repository.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn tags(&self, repository: &Repository) -> Result<Listing, RegistryError> {
        self.within(api::tags(&self.session, &repository.name)).await
    }

    /// Lists the repositories whose names begin with a prefix. Many public registries refuse this.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn catalog(&self, place: &Place) -> Result<Listing, RegistryError> {
        self.within(api::catalog(&self.session, place)).await
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, RegistryError>>) -> Result<T, RegistryError> {
        let limit = self.options.timeout;
        let late = |_| RegistryError::TooLate { host: self.session.host.clone(), limit };
        tokio::time::timeout(limit, work).await.map_err(late)?
    }

    async fn read_manifest(&self, reference: &Reference) -> Result<Resolved, RegistryError> {
        let raw = api::manifest(&self.session, &reference.repository.name, &reference.target()).await?;
        let refused = |fault| RegistryError::NotComponent { reference: reference.to_string(), fault };
        artifact::refuse_list(&raw.media_type).map_err(refused)?;
        let manifest: Manifest = serde_json::from_slice(&raw.bytes).map_err(|error| match raw.media_type.as_str() {
            MANIFEST => refused(api::clean(&format!("its manifest is malformed: {error}"))),
            other => refused(format!("it is of the type {:?}", other.chars().take(100).collect::<String>())),
        })?;
        let layer = artifact::layer(&manifest).map_err(refused)?.clone();
        Ok(Resolved {
            reference: reference.pinned(raw.digest.clone()),
            version: manifest.annotations.get(VERSION).cloned(),
            component: layer.digest.clone(),
            raw,
            manifest,
            layer,
        })
    }

    async fn read_component(&self, resolved: Resolved) -> Result<Pulled, RegistryError> {
        let Resolved { reference, version, raw, manifest, layer, .. } = resolved;
        let name = &reference.repository.name;
        let component = api::blob(&self.session, name, &layer, self.options.component_bytes).await?;
        let refused =
            |fault: &str| RegistryError::NotComponent { reference: reference.to_string(), fault: fault.to_owned() };
        wasm::check(&component).map_err(refused)?;
        let config = api::blob(&self.session, name, &manifest.config, MAX_CONFIG).await?;
        let signatures = self.read_signatures(&reference.repository, &raw.digest).await?;
        let artifact = Artifact { manifest: raw.bytes, config, layer: component };
        Ok(Pulled { reference, version, artifact, signatures })
    }

    /// Reads the newest signatures that refer to a manifest. Those that are malformed count as absent: anyone who may
    /// push could block a component with one. Who pushes enough of the right form still can, and can move the tag, too.
    async fn read_signatures(&self, repository: &Repository, digest: &Digest) -> Result<Vec<Artifact>, RegistryError> {
        let name = &repository.name;
        let listed = api::referrers(&self.session, name, digest).await?;
        let is_signature = |entry: &&Descriptor| entry.artifact_type.as_deref() == Some(MINISIGN);
        let mut found = Vec::new();
        for entry in listed.iter().filter(is_signature).rev().take(MAX_SIGNATURE_ENTRIES) {
            if found.len() >= MAX_SIGNATURES {
                break;
            }
            match self.read_signature(name, digest, entry).await {
                Ok(signature) if signature.layer.starts_with(SIGNATURE_START) => found.push(signature),
                Ok(_) => {}
                Err(error) if error.may_pass() => return Err(error),
                Err(_) => {}
            }
        }
        found.reverse();
        Ok(found)
    }

    async fn read_signature(&self, name: &str, of: &Digest, entry: &Descriptor) -> Result<Artifact, RegistryError> {
        let what = format!("{}/{name}@{}", self.session.host, entry.digest);
        let raw = api::manifest(&self.session, name, &entry.digest.to_string()).await?;
        let manifest: Manifest = api::parse(&raw.bytes, &what)?;
        let fault = |fault: &str| RegistryError::Malformed { what: what.clone(), fault: fault.to_owned() };
        if manifest.subject.as_ref().map(|subject| &subject.digest) != Some(of) {
            return Err(fault("its subject is another manifest"));
        }
        let [layer] = manifest.layers.as_slice() else { return Err(fault("it has not exactly one layer")) };
        let signature = api::blob(&self.session, name, layer, MAX_SIGNATURE).await?;
        let config = api::blob(&self.session, name, &manifest.config, MAX_CONFIG).await?;
        Ok(Artifact { manifest: raw.bytes, config, layer: signature })
    }
}
