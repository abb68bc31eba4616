//! Manifests and indexes of the OCI image specification, as far as components need them. Unknown fields are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;

/// Media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an index, which lists manifests.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of the config of a WebAssembly artifact.
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of a component.
pub const WASM_LAYER: &str = "application/wasm";
/// Media type of an empty config, whose content is [`EMPTY`].
pub const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";
/// Content of an empty config.
pub const EMPTY: &[u8] = b"{}";
/// Type of the artifact that carries a component's signature in minisign's format, and media type of its layer.
pub const MINISIGN: &str = "application/vnd.mortise.minisign.v1";
/// Annotation with the name of a layer's file. `oras pull` writes the layer under it.
pub const TITLE: &str = "org.opencontainers.image.title";
/// Annotation with the version.
pub const VERSION: &str = "org.opencontainers.image.version";

/// A pointer to content: its type, digest and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type of the content.
    #[serde(default)]
    pub media_type: String,
    /// Digest of the content.
    pub digest: Digest,
    /// Size of the content, bytes.
    pub size: u64,
    /// Type of an artifact, in the descriptors of an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Notes, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// Describes content.
    #[must_use]
    pub fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content),
            size: content.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Adds an annotation.
    #[must_use]
    pub fn note(mut self, key: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }
}

/// The manifest of one artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// Its own media type.
    #[serde(default)]
    pub media_type: String,
    /// Type of the artifact, if it is not that of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The config.
    pub config: Descriptor,
    /// The layers.
    #[serde(default, deserialize_with = "or_empty")]
    pub layers: Vec<Descriptor>,
    /// The manifest that this one refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Notes, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// Makes a manifest with a config and one layer.
    #[must_use]
    pub fn new(config: Descriptor, layer: Descriptor) -> Self {
        Self {
            schema_version: 2,
            media_type: MANIFEST.to_owned(),
            artifact_type: None,
            config,
            layers: vec![layer],
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Type of the artifact: its own field, or the type of its config.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.artifact_type.as_deref().unwrap_or(&self.config.media_type)
    }
}

/// A list of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// Its own media type.
    #[serde(default)]
    pub media_type: String,
    /// The manifests.
    #[serde(default, deserialize_with = "or_empty")]
    pub manifests: Vec<Descriptor>,
    /// Notes, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Reads a list; programs in Go write an empty one as null.
fn or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Descriptor>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Default for Index {
    fn default() -> Self {
        Self { schema_version: 2, media_type: INDEX.to_owned(), manifests: Vec::new(), annotations: BTreeMap::new() }
    }
}

/// The config of a WebAssembly artifact. Its dates are fixed, so that equal components make equal manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WasmConfig {
    pub(crate) created: String,
    pub(crate) architecture: String,
    pub(crate) os: String,
    pub(crate) layer_digests: Vec<Digest>,
    pub(crate) component: WasmInterface,
}

/// Names of the imports and exports of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WasmInterface {
    pub(crate) exports: Vec<String>,
    pub(crate) imports: Vec<String>,
    pub(crate) target: Option<String>,
}
