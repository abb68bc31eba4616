//! A version of the provider as an OCI image layout in the form that OpenTofu's `oci_mirror` reads: the version is the
//! tag of an image index, which has a manifest for each platform, and each manifest has the zip as its one layer.
//!
//! The layout has all packages that the mirror has of the version, and keeps other tags that the directory holds.

use std::{fs::File, io::Seek as _, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    mirror::{Archives, put, read},
    package::Places,
};
use crate::CliError;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const PROVIDER: &str = "application/vnd.opentofu.provider";
const PROVIDER_TARGET: &str = "application/vnd.opentofu.provider-target";
const ZIP: &str = "archive/zip";
/// Annotation that holds a tag.
const TAG: &str = "org.opencontainers.image.ref.name";
/// Annotation that holds the name of a layer's file.
const TITLE: &str = "org.opencontainers.image.title";

/// The file `index.json` of a layout.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layout {
    schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    manifests: Vec<Value>,
}

/// A reference to a blob.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Value>,
}

/// A layout that an export adds a version to.
pub(super) struct OciLayout<'a> {
    dir: &'a Path,
    present: Layout,
}

impl<'a> OciLayout<'a> {
    /// Reads the present layout of a directory, if the directory has one.
    ///
    /// # Errors
    /// The directory holds something else under the name of a layout's file.
    pub(super) fn open(dir: &'a Path) -> Result<Self, CliError> {
        let present = read(&dir.join("index.json"))?;
        let new = || Layout { schema_version: 2, media_type: Some(INDEX.to_owned()), manifests: Vec::new() };
        Ok(Self { dir, present: present.unwrap_or_else(new) })
    }

    /// Adds the packages of a version in a mirror; a version of this name is replaced. The file that names the versions
    /// is written last.
    pub(super) fn add(mut self, packages: &Archives, places: &Places) -> Result<(), CliError> {
        let blobs = self.dir.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).map_err(|e| CliError::file("cannot make", &blobs, e))?;
        let mut manifests = Vec::new();
        for (platform, archive) in &packages.archives {
            let zip = put_zip(&blobs, &places.dir.join(&archive.url))?;
            let manifest = json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "artifactType": PROVIDER_TARGET,
                "config": put_blob(&blobs, EMPTY, b"{}")?,
                "layers": [Descriptor { annotations: Some(json!({ (TITLE): archive.url })), ..zip }],
            });
            let (os, architecture) = platform.split_once('_').unwrap_or((platform, ""));
            let entry = put_blob(&blobs, MANIFEST, manifest.to_string().as_bytes())?;
            let platform = Some(json!({ "architecture": architecture, "os": os }));
            manifests.push(Descriptor { artifact_type: Some(PROVIDER_TARGET), platform, ..entry });
        }
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "artifactType": PROVIDER,
            "manifests": manifests,
        });
        let entry = put_blob(&blobs, INDEX, index.to_string().as_bytes())?;
        // A tag holds no `+`.
        let tag = places.version.replace('+', "_");
        let annotations = Some(json!({ (TAG): tag }));
        let tag_of = |present: &Value| Some(present.get("annotations")?.get(TAG)?.as_str()?.to_owned());
        self.present.manifests.retain(|present| tag_of(present).as_ref() != Some(&tag));
        self.present.manifests.push(json!(Descriptor { artifact_type: Some(PROVIDER), annotations, ..entry }));
        put(&br#"{"imageLayoutVersion":"1.0.0"}"#[..], 0o644, &self.dir.join("oci-layout"))?;
        // Texts and numbers always have a form in JSON.
        let text = serde_json::to_string(&self.present).unwrap_or_default();
        put(text.as_bytes(), 0o644, &self.dir.join("index.json"))
    }
}

/// Writes a blob.
fn put_blob(blobs: &Path, media_type: &'static str, content: &[u8]) -> Result<Descriptor, CliError> {
    let name = format!("{:x}", Sha256::digest(content));
    put(content, 0o644, &blobs.join(&name))?;
    Ok(Descriptor::new(media_type, &name, content.len() as u64))
}

/// Copies a zip.
fn put_zip(blobs: &Path, zip: &Path) -> Result<Descriptor, CliError> {
    let unread = |e: std::io::Error| CliError::file("cannot read", zip, e);
    let mut file = File::open(zip).map_err(unread)?;
    let mut hash = Sha256::new();
    let size = std::io::copy(&mut file, &mut hash).map_err(unread)?;
    file.rewind().map_err(unread)?;
    let name = format!("{:x}", hash.finalize());
    put(file, 0o644, &blobs.join(&name))?;
    Ok(Descriptor::new(ZIP, &name, size))
}

impl Descriptor {
    fn new(media_type: &'static str, name: &str, size: u64) -> Self {
        let digest = format!("sha256:{name}");
        Self { media_type, digest, size, artifact_type: None, platform: None, annotations: None }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use super::{super::mirror::Archive, *};

    fn content(dir: &Path, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = fs::read(dir.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(digest, format!("{:x}", Sha256::digest(&content)), "a blob's name is its digest");
        assert_eq!(descriptor["size"], content.len());
        content
    }

    fn parsed(dir: &Path, descriptor: &Value) -> Value {
        serde_json::from_slice(&content(dir, descriptor)).unwrap()
    }

    /// The rules are those of OpenTofu's page about `oci_mirror`.
    #[test]
    fn a_layout_has_a_tag_of_manifests_by_platform_and_keeps_other_tags() {
        let dir = tempfile::tempdir().unwrap();
        let (mirror, layout) = (dir.path().join("mirror"), dir.path().join("oci"));
        fs::create_dir(&mirror).unwrap();
        let archive = |name: &str| {
            fs::write(mirror.join(name), name).unwrap();
            Archive { hashes: Vec::new(), url: name.to_owned() }
        };
        let archives = BTreeMap::from([
            ("darwin_arm64".to_owned(), archive("mac.zip")),
            ("linux_amd64".to_owned(), archive("linux.zip")),
        ]);
        let packages = Archives { archives };
        let add = |version: &str| {
            let places = Places { dir: mirror.clone(), name: "mortise".into(), version: version.into() };
            OciLayout::open(&layout).unwrap().add(&packages, &places).unwrap();
            fs::read(layout.join("index.json")).unwrap()
        };
        let first = add("1.0.0");
        assert_eq!(add("1.0.0"), first, "the same packages give the same bytes");
        let all: Value = serde_json::from_slice(&add("1.1.0+x")).unwrap();
        let tags: Vec<_> =
            all["manifests"].as_array().unwrap().iter().map(|one| one["annotations"][TAG].clone()).collect();
        assert_eq!(json!(tags), json!(["1.0.0", "1.1.0_x"]));
        let version: Value = serde_json::from_slice(&fs::read(layout.join("oci-layout")).unwrap()).unwrap();
        assert_eq!(version["imageLayoutVersion"], "1.0.0");
        let index = parsed(&layout, &all["manifests"][0]);
        assert_eq!(index["mediaType"], INDEX);
        assert_eq!(index["artifactType"], PROVIDER);
        for (entry, (os, architecture, zip)) in index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .zip([("darwin", "arm64", "mac.zip"), ("linux", "amd64", "linux.zip")])
        {
            assert_eq!(entry["mediaType"], MANIFEST);
            assert_eq!(entry["artifactType"], PROVIDER_TARGET);
            assert_eq!(entry["platform"], json!({ "os": os, "architecture": architecture }));
            let manifest = parsed(&layout, entry);
            assert_eq!(manifest["mediaType"], MANIFEST);
            assert_eq!(manifest["artifactType"], PROVIDER_TARGET);
            assert_eq!(content(&layout, &manifest["config"]), b"{}");
            assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
            assert_eq!(manifest["layers"][0]["mediaType"], ZIP);
            assert_eq!(content(&layout, &manifest["layers"][0]), zip.as_bytes());
        }
    }

    #[test]
    fn a_directory_with_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("index.json"), r#"{"versions":{}}"#).unwrap();
        assert!(OciLayout::open(dir.path()).is_err(), "a mirror is refused");
    }
}
