//! Record of the folders whose packages a target directory has compiled.
//!
//! Cargo names the artifacts of a local package by its name and its place in the workspace, and takes sources that are
//! older than an artifact for compiled. In a target directory of several workspaces a package would so get the artifact
//! of another one. Here the artifacts of another folder are removed before a build.
//!
//! # Cost
//! A file of a line for each package. After a change of the folder two calls of cargo, half a second.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::Error;

/// Name of the record in a target directory.
const RECORD: &str = ".guest-build.origins.json";

/// Folders by the packages' names.
pub(crate) type Origins = BTreeMap<String, PathBuf>;

/// Removes what other folders' packages of these names have left in the target directory, by `clean`, and records these
/// folders.
///
/// # Errors
/// The record cannot be read or written; those of `clean`.
pub(crate) fn claim(
    target_dir: &Path,
    local: &Origins,
    clean: impl FnOnce(&[&str]) -> Result<(), Error>,
) -> Result<(), Error> {
    let path = target_dir.join(RECORD);
    let mut known: Origins = match fs::read(&path) {
        // Cargo's own rules hold for what is not recorded, such as a damaged record.
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Origins::new(),
        Err(fault) => return Err(Error::file("read", &path)(fault)),
    };
    let is_of_another = |(name, folder): &(&String, &PathBuf)| known.get(*name).is_some_and(|before| before != *folder);
    let others = local.iter().filter(is_of_another).map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    if !others.is_empty() {
        clean(&others)?;
    }
    if local.iter().all(|(name, folder)| known.get(name) == Some(folder)) {
        return Ok(());
    }
    known.extend(local.iter().map(|(name, folder)| (name.clone(), folder.clone())));
    let text = serde_json::to_vec(&known).map_err(|fault| Error::file("write", &path)(fault.into()))?;
    fs::write(&path, text).map_err(Error::file("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(target_dir: &Path, local: &[(&str, &str)]) -> Vec<String> {
        let local = local.iter().map(|&(name, folder)| (name.to_owned(), folder.into())).collect();
        let mut names = Vec::new();
        claim(target_dir, &local, |others| {
            names.extend(others.iter().map(|&name| name.to_owned()));
            Ok(())
        })
        .unwrap();
        names
    }

    #[test]
    fn artifacts_of_another_folder_are_removed_once() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(cleaned(dir.path(), &[("a", "/one/a"), ("sdk", "/one/sdk")]), [""; 0], "nothing is compiled");
        assert_eq!(cleaned(dir.path(), &[("a", "/one/a"), ("sdk", "/one/sdk")]), [""; 0]);
        assert_eq!(cleaned(dir.path(), &[("b", "/two/b"), ("sdk", "/two/sdk")]), ["sdk"]);
        assert_eq!(cleaned(dir.path(), &[("b", "/two/b"), ("sdk", "/two/sdk")]), [""; 0]);
        assert_eq!(cleaned(dir.path(), &[("a", "/two/a")]), ["a"]);
        assert_eq!(cleaned(dir.path(), &[("b", "/two/b")]), [""; 0], "it is still there");
    }

    #[test]
    fn a_failed_removal_is_repeated() {
        let dir = tempfile::tempdir().unwrap();
        cleaned(dir.path(), &[("a", "/one/a")]);
        let local = Origins::from([("a".to_owned(), "/two/a".into())]);
        let failed = claim(dir.path(), &local, |_| Err(Error::NoLibrary { package: "a".into() }));
        assert!(failed.is_err());
        assert_eq!(cleaned(dir.path(), &[("a", "/two/a")]), ["a"]);
    }

    #[test]
    fn a_damaged_record_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(RECORD), "{").unwrap();
        assert_eq!(cleaned(dir.path(), &[("a", "/one/a")]), [""; 0]);
        assert_eq!(cleaned(dir.path(), &[("a", "/two/a")]), ["a"]);
    }
}
