//! A set of components with their signatures in one file, for a network without a way out: an OCI image layout in a
//! tar archive. `oras` reads it (`oras cp -r --from-oci-layout-path SET.tar HOST/NAME:TAG …`), and manifests keep their digests.
//!
//! # Cost and limits
//! A set is read into memory: at most [`MAX_COMPONENTS`] components and [`MAX_BYTES`], twice. Every file in it is compared
//! with its digest. Links, devices and files outside the layout are ignored; nothing is unpacked to a disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
};

use tar::{Archive, Builder, EntryType, Header};

use crate::{
    artifact::{self, Artifact, MAX_CONFIG, MAX_SIGNATURE, MAX_SIGNATURES},
    digest::Digest,
    manifest::{Descriptor, Index, MINISIGN, Manifest},
    reference::{Reference, SCHEME, is_tag},
    wasm,
};

/// Most components of a set.
pub const MAX_COMPONENTS: usize = 64;

/// Most bytes of a set.
pub const MAX_BYTES: u64 = 1 << 30;

/// Most files of a set: manifest, config and layer of each component, and of each signature.
const MAX_FILES: usize = MAX_COMPONENTS * 3 * (1 + MAX_SIGNATURES) + 2;

/// Most bytes of the list of the set.
const MAX_INDEX: usize = 4 << 20;

/// Annotation with the name of a manifest.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Files of the layout.
const LAYOUT: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
const BLOBS: &str = "blobs/sha256/";

/// Content of the file that marks a layout.
const LAYOUT_TEXT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// A component of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its reference at the time of the export, with the digest of its manifest.
    pub reference: Reference,
    /// The artifact; its layer is the component.
    pub artifact: Artifact,
    /// Its signatures.
    pub signatures: Vec<Artifact>,
}

/// Fault of a set.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The archive cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A set that is too large.
    #[error("it has more than {limit} {what}; make several sets")]
    TooLarge {
        /// The thing.
        what: &'static str,
        /// Most of it.
        limit: u64,
    },
    /// Another kind of archive.
    #[error("it is not a set of plugins: {0}; `mortise plugin export` makes one")]
    NotSet(String),
    /// A file whose content does not fit its name.
    #[error("its file {BLOBS}{name} was changed: the content has the digest {actual}; make the set again")]
    WrongDigest {
        /// Digest in the name.
        name: String,
        /// Digest of the content.
        actual: Digest,
    },
    /// A component that is not whole.
    #[error("{reference} in it is not whole: {fault}; make the set again")]
    Member {
        /// The component.
        reference: String,
        /// The fault.
        fault: String,
    },
}

/// Writes a set. Equal sets make equal files.
///
/// # Errors
/// [`LayoutError`].
pub fn write(members: &[Member], to: impl Write) -> Result<(), LayoutError> {
    if members.len() > MAX_COMPONENTS {
        return Err(LayoutError::TooLarge { what: "components", limit: MAX_COMPONENTS as u64 });
    }
    let mut index = Index::default();
    let mut archive = Builder::new(to);
    put(&mut archive, LAYOUT, LAYOUT_TEXT)?;
    let mut written = BTreeSet::new();
    for member in members {
        let name = member.reference.to_string();
        let name = name.trim_start_matches(SCHEME).split('@').next().unwrap_or_default();
        index.manifests.push(member.artifact.descriptor().note(REF_NAME, name));
        for signature in &member.signatures {
            index.manifests.push(Descriptor { artifact_type: Some(MINISIGN.to_owned()), ..signature.descriptor() });
        }
        for Artifact { manifest, config, layer } in std::iter::once(&member.artifact).chain(&member.signatures) {
            for blob in [manifest, config, layer] {
                let digest = Digest::of(blob);
                if written.insert(digest.clone()) {
                    put(&mut archive, &format!("{BLOBS}{}", digest.hex()), blob)?;
                }
            }
        }
    }
    let text = serde_json::to_vec(&index).map_err(io::Error::other)?;
    put(&mut archive, INDEX_FILE, &text)?;
    archive.into_inner()?.flush()?;
    Ok(())
}

fn put(archive: &mut Builder<impl Write>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(EntryType::Regular);
    archive.append_data(&mut header, name, content)
}

/// Reads a set. `called` is the name of plugins that the set of another program names by a tag alone, or not at all.
///
/// # Errors
/// [`LayoutError`]. A set with one fault is refused whole.
pub fn read(from: impl Read, called: Option<&Reference>) -> Result<Vec<Member>, LayoutError> {
    let mut files: BTreeMap<Digest, Vec<u8>> = BTreeMap::new();
    let (mut index, mut is_layout, mut bytes) = (None, false, 0_u64);
    // One byte more than allowed shows that there are more.
    let mut archive = Archive::new(from.take(MAX_BYTES + 1));
    for (number, entry) in archive.entries()?.enumerate() {
        let mut entry = entry.map_err(|error| match number {
            0 => LayoutError::NotSet(format!("it is not a tar archive ({error})")),
            _ => LayoutError::Io(error),
        })?;
        bytes = bytes.saturating_add(entry.size());
        if bytes > MAX_BYTES {
            return Err(LayoutError::TooLarge { what: "bytes", limit: MAX_BYTES });
        }
        if number >= MAX_FILES * 2 || files.len() > MAX_FILES {
            return Err(LayoutError::TooLarge { what: "files", limit: MAX_FILES as u64 });
        }
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        let mut content = Vec::new();
        match path.as_str() {
            LAYOUT => is_layout = true,
            INDEX_FILE => {
                (&mut entry).take(MAX_INDEX as u64 + 1).read_to_end(&mut content)?;
                index = Some(content);
            }
            path => {
                let Some(name) = path.strip_prefix(BLOBS) else { continue };
                entry.read_to_end(&mut content)?;
                let actual = Digest::of(&content);
                if actual.hex() != name {
                    return Err(LayoutError::WrongDigest {
                        name: crate::api::clean(name).chars().take(64).collect(),
                        actual,
                    });
                }
                files.insert(actual, content);
            }
        }
    }
    let not_set = |fault: &str| LayoutError::NotSet(fault.to_owned());
    if !is_layout {
        return Err(not_set("it has no file oci-layout"));
    }
    let index = index.ok_or_else(|| not_set("it has no file index.json"))?;
    let index: Index = serde_json::from_slice(&index)
        .map_err(|e| LayoutError::NotSet(crate::api::clean(&format!("index.json: {e}"))))?;
    members(&index, &files, called)
}

/// Returns the reference of an entry without its digest; `None` for a signature, and for what else has no name.
fn named(index: &Index, entry: &Descriptor, called: Option<&Reference>) -> Result<Option<Reference>, LayoutError> {
    let unnamed = |what: &str| {
        let what = crate::api::clean(what);
        LayoutError::NotSet(format!("index.json names {what}; give the name by --name oci://HOST/NAME[:TAG]"))
    };
    let Some(name) = entry.annotations.get(REF_NAME) else {
        // Programs leave the name out where a layout has one image.
        let is_alone =
            index.manifests.iter().filter(|other| other.artifact_type.as_deref() != Some(MINISIGN)).count() == 1;
        let is_signature = entry.artifact_type.as_deref() == Some(MINISIGN);
        return match called {
            _ if is_signature || !is_alone => Ok(None),
            Some(called) => Ok(Some(called.clone())),
            None => Err(unnamed("no plugin, though it has one")),
        };
    };
    match (format!("{SCHEME}{name}").parse::<Reference>(), called) {
        (Ok(reference), _) => Ok(Some(reference)),
        (Err(_), Some(called)) if is_tag(name) => Ok(Some(Reference { tag: Some(name.clone()), ..called.clone() })),
        (Err(_), None) if is_tag(name) => Err(unnamed(&format!("a plugin by its tag alone, {name:?}"))),
        (Err(error), _) => Err(LayoutError::NotSet(error.to_string())),
    }
}

/// Puts the components of a set together from its files.
fn members(
    index: &Index,
    files: &BTreeMap<Digest, Vec<u8>>,
    called: Option<&Reference>,
) -> Result<Vec<Member>, LayoutError> {
    let mut found = Vec::new();
    let mut bytes = 0_u64;
    for entry in &index.manifests {
        let Some(reference) = named(index, entry, called)? else { continue };
        if found.len() >= MAX_COMPONENTS {
            return Err(LayoutError::TooLarge { what: "components", limit: MAX_COMPONENTS as u64 });
        }
        let reference = reference.pinned(entry.digest.clone());
        let fault = |fault: String| LayoutError::Member { reference: reference.to_string(), fault };
        let manifest = parse_manifest(&entry.digest, files).map_err(fault)?;
        artifact::layer(&manifest).map_err(fault)?;
        let artifact = gather(&entry.digest, &manifest, files).map_err(fault)?;
        // Several names of one component have a copy each.
        bytes = bytes.saturating_add(artifact.layer.len() as u64);
        if bytes > MAX_BYTES {
            return Err(LayoutError::TooLarge { what: "bytes", limit: MAX_BYTES });
        }
        wasm::check(&artifact.layer).map_err(|text| fault(text.to_owned()))?;
        let mut signatures = Vec::new();
        for other in index.manifests.iter().filter(|other| other.artifact_type.as_deref() == Some(MINISIGN)) {
            let manifest = parse_manifest(&other.digest, files).map_err(fault)?;
            let is_its = manifest.subject.as_ref().is_some_and(|subject| subject.digest == entry.digest);
            if is_its && signatures.len() < MAX_SIGNATURES {
                let signature = gather(&other.digest, &manifest, files).map_err(fault)?;
                if signature.layer.len() > MAX_SIGNATURE {
                    return Err(fault(format!("a signature takes more than {MAX_SIGNATURE} bytes")));
                }
                signatures.push(signature);
            }
        }
        found.push(Member { reference, artifact, signatures });
    }
    if found.is_empty() {
        return Err(LayoutError::NotSet("index.json names no component".to_owned()));
    }
    Ok(found)
}

/// Reads a manifest. The error is the fault.
fn parse_manifest(digest: &Digest, files: &BTreeMap<Digest, Vec<u8>>) -> Result<Manifest, String> {
    let bytes = files.get(digest).ok_or_else(|| format!("{digest} is missing"))?;
    serde_json::from_slice(bytes).map_err(|error| crate::api::clean(&format!("{digest}: {error}")))
}

/// Copies the files of an artifact. The error is the fault.
fn gather(digest: &Digest, manifest: &Manifest, files: &BTreeMap<Digest, Vec<u8>>) -> Result<Artifact, String> {
    let find = |digest: &Digest| files.get(digest).cloned().ok_or_else(|| format!("{digest} is missing"));
    let [layer] = manifest.layers.as_slice() else { return Err(format!("{digest} has not exactly one layer")) };
    let config = find(&manifest.config.digest)?;
    if config.len() > MAX_CONFIG {
        return Err(format!("its config takes more than {MAX_CONFIG} bytes"));
    }
    Ok(Artifact { manifest: find(digest)?, config, layer: find(&layer.digest)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::About;

    fn member(name: &str, more: u8, signed: bool) -> Member {
        let component = [&b"\0asm\x0d\0\x01\0"[..], &[0, 2, 1, more]].concat();
        let artifact = Artifact::of_component(component, &About { file: "a.wasm", version: None }).unwrap();
        let reference: Reference = format!("oci://h:5000/{name}:1.0.0").parse().unwrap();
        let signature = || Artifact::of_signature(artifact.descriptor(), "a.wasm", b"signature".to_vec()).unwrap();
        let signatures = if signed { vec![signature()] } else { Vec::new() };
        Member { reference: reference.pinned(artifact.descriptor().digest), artifact, signatures }
    }

    fn written(members: &[Member]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(members, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_set_comes_back_whole_and_equal_sets_are_equal_files() {
        let set = [member("acme/a", b'x', true), member("b", b'y', false)];
        let bytes = written(&set);
        assert_eq!(read(bytes.as_slice(), None).unwrap(), set);
        assert_eq!(bytes, written(&set));
    }

    #[test]
    fn a_changed_file_and_a_missing_one_refuse_the_whole_set() {
        let bytes = written(&[member("acme/a", b'x', true)]);
        let at = bytes.windows(9).position(|window| window == b"signature").unwrap();
        let mut changed = bytes.clone();
        changed[at] = b'S';
        assert!(matches!(read(changed.as_slice(), None).unwrap_err(), LayoutError::WrongDigest { .. }));
        // The blob under another name.
        let mut archive = Builder::new(Vec::new());
        for entry in Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if content != b"signature" {
                put(&mut archive, path.to_str().unwrap(), &content).unwrap();
            }
        }
        let fault = read(archive.into_inner().unwrap().as_slice(), None).unwrap_err();
        assert!(fault.to_string().contains("is missing"), "{fault}");
        assert!(read(&bytes[..bytes.len() / 2], None).is_err());
    }

    #[test]
    fn other_archives_are_no_sets() {
        let mut archive = Builder::new(Vec::new());
        put(&mut archive, "readme", b"x").unwrap();
        let fault = read(archive.into_inner().unwrap().as_slice(), None).unwrap_err();
        assert!(fault.to_string().starts_with("it is not a set of plugins: it has no file oci-layout"), "{fault}");
        let mut archive = Builder::new(Vec::new());
        put(&mut archive, LAYOUT, LAYOUT_TEXT).unwrap();
        put(&mut archive, INDEX_FILE, b"{\"schemaVersion\": 2, \"manifests\": []}").unwrap();
        let fault = read(archive.into_inner().unwrap().as_slice(), None).unwrap_err();
        assert!(fault.to_string().contains("names no component"), "{fault}");
    }
    /// A set whose list was changed as other programs write it.
    fn listed(members: &[Member], change: impl Fn(&mut Descriptor)) -> Vec<u8> {
        let bytes = written(members);
        let mut archive = Builder::new(Vec::new());
        for entry in Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if path.to_str() == Some(INDEX_FILE) {
                let mut index: Index = serde_json::from_slice(&content).unwrap();
                index.manifests.iter_mut().for_each(&change);
                content = serde_json::to_vec(&index).unwrap();
            }
            put(&mut archive, path.to_str().unwrap(), &content).unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[test]
    fn a_set_with_tags_alone_or_without_names_is_read_under_a_given_name() {
        let set = [member("acme/a", b'x', true)];
        let called: Reference = "oci://ghcr.io/acme/a:2.0.0".parse().unwrap();
        let tagged = listed(&set, |entry| {
            if let Some(name) = entry.annotations.get_mut(REF_NAME) {
                "1.0.0".clone_into(name);
            }
        });
        let found = read(tagged.as_slice(), Some(&called)).unwrap();
        assert!(found[0].reference.to_string().starts_with("oci://ghcr.io/acme/a:1.0.0@sha256:"), "{found:?}");
        assert_eq!((&found[0].artifact, &found[0].signatures), (&set[0].artifact, &set[0].signatures));
        let fault = read(tagged.as_slice(), None).unwrap_err().to_string();
        assert!(fault.contains("by its tag alone, \"1.0.0\"; give the name by --name"), "{fault}");

        let bare = listed(&set, |entry| entry.annotations.clear());
        let found = read(bare.as_slice(), Some(&called)).unwrap();
        assert!(found[0].reference.to_string().starts_with("oci://ghcr.io/acme/a:2.0.0@sha256:"), "{found:?}");
        assert_eq!(found[0].signatures, set[0].signatures);
        let fault = read(bare.as_slice(), None).unwrap_err().to_string();
        assert!(fault.contains("names no plugin, though it has one; give the name by --name"), "{fault}");

        let odd = listed(&set, |entry| {
            if let Some(name) = entry.annotations.get_mut(REF_NAME) {
                "no name".clone_into(name);
            }
        });
        assert!(read(odd.as_slice(), Some(&called)).is_err());
        let two = [member("acme/a", b'x', false), member("acme/b", b'y', false)];
        let bare = listed(&two, |entry| entry.annotations.clear());
        assert!(read(bare.as_slice(), Some(&called)).is_err(), "one name for two");
        // A whole name counts more than the given one.
        assert_eq!(read(written(&set).as_slice(), Some(&called)).unwrap(), set);
    }
}
