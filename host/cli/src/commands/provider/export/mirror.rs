//! The files of a mirror beside its packages: `index.json` and `VERSION.json` for the protocol of network mirrors, and
//! an entry for lock files. An export adds to those of earlier exports.

use std::{
    collections::BTreeMap,
    fs::{File, Permissions},
    io::{self, Read, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use mortise_durable_fs::AtomicFile;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::package::{Places, Unplaced};
use crate::CliError;

/// Most bytes of a present file that an export adds to.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Versions of a provider: `index.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Versions {
    versions: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
}

/// Packages of a version, by platform: `VERSION.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Archives {
    pub(super) archives: BTreeMap<String, Archive>,
}

/// A package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Archive {
    /// Hashes of folder and zip.
    pub(super) hashes: Vec<String>,
    /// Path of the zip, from that of the list.
    pub(super) url: String,
}

/// The lists of a mirror.
pub(super) struct Lists {
    versions: Versions,
    /// Packages of the version.
    pub(super) packages: Archives,
}

impl Lists {
    /// Reads the present lists, and adds a version.
    ///
    /// # Errors
    /// A present list cannot be read, or holds something else.
    pub(super) fn open(places: &Places) -> Result<Self, CliError> {
        let mut versions: Versions = read(&places.dir.join("index.json"))?.unwrap_or_default();
        versions.versions.entry(places.version.clone()).or_default();
        let packages = read(&places.dir.join(format!("{}.json", places.version)))?.unwrap_or_default();
        Ok(Self { versions, packages })
    }

    /// Adds packages of the version.
    pub(super) fn add(&mut self, packages: &[Unplaced]) {
        for package in packages {
            let hashes = vec![package.folder_hash.clone(), package.archive_hash.clone()];
            self.packages.archives.insert(package.platform.clone(), Archive { hashes, url: package.archive.clone() });
        }
    }

    /// Writes the lists, that of versions last: it makes the version visible.
    pub(super) fn place(&self, places: &Places, source: &str) -> Result<(), CliError> {
        let Places { dir, version, .. } = places;
        put(self.lock_entry(source, version).as_bytes(), 0o644, &dir.join(format!("{version}.lock.hcl")))?;
        put(json(&self.packages).as_bytes(), 0o644, &dir.join(format!("{version}.json")))?;
        put(json(&self.versions).as_bytes(), 0o644, &dir.join("index.json"))
    }

    /// The entry of `.terraform.lock.hcl` that accepts each package of the version.
    fn lock_entry(&self, source: &str, version: &str) -> String {
        let mut hashes: Vec<_> = self.packages.archives.values().flat_map(|archive| &archive.hashes).collect();
        hashes.sort();
        let hashes: String = hashes.iter().map(|hash| format!("    \"{hash}\",\n")).collect();
        format!("provider \"{source}\" {{\n  version = \"{version}\"\n  hashes = [\n{hashes}  ]\n}}\n")
    }
}

/// Reads a list that an export adds to; `None` if the file does not exist.
///
/// # Errors
/// The file cannot be read, is too large, or holds something else.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, CliError> {
    let unread = |e: io::Error| CliError::file("cannot read", path, e);
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unread)?,
    };
    let mut text = Vec::new();
    file.take(MAX_LIST_BYTES + 1).read_to_end(&mut text).map_err(unread)?;
    let wrong = || CliError::usage(format!("{} cannot be added to", path.display()));
    let remedy = "remove it, or export to another directory";
    if text.len() as u64 > MAX_LIST_BYTES {
        return Err(wrong().detail("it has more than 16 MiB").remedy(remedy));
    }
    serde_json::from_slice(&text).map(Some).map_err(|e| wrong().caused_by(e).remedy(remedy))
}

/// Returns JSON with a line for each value.
fn json(value: &impl Serialize) -> String {
    // Texts in maps always have a form in JSON.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Replaces a file durably; an interrupted write leaves nothing behind.
pub(in crate::commands::provider) fn put(mut content: impl Read, mode: u32, to: &Path) -> Result<(), CliError> {
    let mut file = AtomicFile::new_beside(to).map_err(CliError::fs)?;
    let written = io::copy(&mut content, &mut file)
        .and_then(|_| file.flush())
        .and_then(|()| file.file().set_permissions(Permissions::from_mode(mode)));
    written.map_err(|e| CliError::file("cannot write", to, e))?;
    file.replace_durably().map_err(CliError::fs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_other_versions_and_platforms_and_a_lock_entry_has_every_hash() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { dir: dir.path().into(), name: "mortise".into(), version: "1.2.3".into() };
        std::fs::write(dir.path().join("index.json"), r#"{"versions":{"1.0.0":{}}}"#).unwrap();
        let archive = r#"{"archives":{"linux_arm64":{"hashes":["zh:2","h1:3"],"url":"x.zip"}}}"#;
        std::fs::write(dir.path().join("1.2.3.json"), archive).unwrap();
        let mut lists = Lists::open(&places).unwrap();
        let more = Archive { hashes: vec!["h1:1".into()], url: "y.zip".into() };
        lists.packages.archives.insert("linux_amd64".into(), more);
        lists.place(&places, "a.b/c/d").unwrap();
        let written = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(written("index.json"), "{\n  \"versions\": {\n    \"1.0.0\": {},\n    \"1.2.3\": {}\n  }\n}\n");
        let expected = "provider \"a.b/c/d\" {\n  version = \"1.2.3\"\n  hashes = [\n    \"h1:1\",\n    \"h1:3\",\n    \"zh:2\",\n  ]\n}\n";
        assert_eq!(written("1.2.3.lock.hcl"), expected);
        let again = Lists::open(&places).unwrap();
        assert_eq!(again.packages.archives.len(), 2);
    }

    #[test]
    fn a_list_that_holds_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { dir: dir.path().into(), name: "mortise".into(), version: "1.2.3".into() };
        std::fs::write(dir.path().join("index.json"), r#"{"versions":[]}"#).unwrap();
        let refused = Lists::open(&places).err().unwrap();
        assert!(refused.message.contains("index.json cannot be added to: "), "{refused:?}");
    }
}
