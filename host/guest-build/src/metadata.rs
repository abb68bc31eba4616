//! Cargo's metadata of the workspace: its root, its target directory, its packages.
//!
//! A few fields of `cargo metadata`: docs/decisions/0034-a-few-fields-of-cargo-metadata-are-read-here.md.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use crate::{
    Error, environment,
    origins::Origins,
    toolchain::{ask, display},
};

/// Choice of a package.
#[derive(Debug, Clone)]
pub(crate) enum PackageSelector {
    /// The package of this name, in the workspace of the current package.
    Named(String),
    /// The package whose manifest is in this directory.
    At(PathBuf),
}

/// A package and its surroundings.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    pub(crate) root: PathBuf,
    /// Default target directory of the workspace.
    pub(crate) target_directory: PathBuf,
    /// Folders of the workspace's packages, and of those that they depend on by path.
    pub(crate) local: Origins,
}

/// Output of `cargo metadata`, format version 1, as far as it is used.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<ListedPackage>,
}

#[derive(Deserialize)]
struct ListedPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Folder, if it is a dependency by path.
    path: Option<PathBuf>,
}

impl Package {
    /// Asks cargo for a package; needs no network and no dependencies.
    pub(crate) fn find(dir: &Path, selector: &PackageSelector) -> Result<Self, Error> {
        let mut command = Command::new(environment::program("CARGO", "cargo"));
        command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(dir);
        let target_dir = std::env::var_os("CARGO_TARGET_DIR");
        environment::remove_outer_environment(&mut command);
        if let Some(target_dir) = target_dir {
            // Here alone the outer setting is wanted: it says where the workspace's artifacts go.
            command.env("CARGO_TARGET_DIR", target_dir);
        }
        let answer = ask(&mut command)?;
        let wrong = |error: serde_json::Error| Error::Answer { program: display(&command), source: error.into() };
        let Metadata { workspace_root: root, target_directory, packages } =
            serde_json::from_str(&answer).map_err(wrong)?;
        let folder = |package: &ListedPackage| package.manifest_path.parent().map(Path::to_owned).unwrap_or_default();
        let mut local: Origins = packages.iter().map(|package| (package.name.clone(), folder(package))).collect();
        let dependencies = packages.iter().flat_map(|package| &package.dependencies);
        local.extend(dependencies.filter_map(|used| Some((used.name.clone(), used.path.clone()?))));
        let here = fs::canonicalize(dir.join("Cargo.toml")).ok();
        let found = packages.into_iter().find(|package| match selector {
            PackageSelector::Named(wanted) => *wanted == package.name,
            PackageSelector::At(_) => here.is_some() && fs::canonicalize(&package.manifest_path).ok() == here,
        });
        let Some(ListedPackage { name, manifest_path: manifest, .. }) = found else {
            let package = match selector {
                PackageSelector::Named(name) => name.clone(),
                PackageSelector::At(dir) => dir.display().to_string(),
            };
            return Err(Error::NoPackage { package, root });
        };
        Ok(Self { name, manifest, root, target_directory, local })
    }

    /// Whether the workspace defines the profile `guest` itself.
    pub(crate) fn has_guest_profile(&self) -> bool {
        fs::read_to_string(self.root.join("Cargo.toml"))
            .is_ok_and(|text| text.lines().any(|line| line.trim() == "[profile.guest]"))
    }
}
