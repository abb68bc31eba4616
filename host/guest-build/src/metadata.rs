//! What cargo knows about the workspace: its root, its target directory, its packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    Error, environment,
    toolchain::{ask, display},
};

/// Which package is meant.
#[derive(Debug, Clone)]
pub(crate) enum PackageSelector {
    /// By name, in the workspace of the current package.
    Named(String),
    /// The one whose manifest is in this directory.
    At(PathBuf),
}

/// A package and its surroundings.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    pub(crate) root: PathBuf,
    /// Where cargo builds for this workspace unless told otherwise.
    pub(crate) target_directory: PathBuf,
}

impl Package {
    /// Asks cargo; needs no network, and none of the dependencies.
    pub(crate) fn find(dir: &Path, which: &PackageSelector) -> Result<Self, Error> {
        let mut command = Command::new(environment::program("CARGO", "cargo"));
        command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(dir);
        let target_dir = std::env::var_os("CARGO_TARGET_DIR");
        environment::scrub(&mut command);
        if let Some(target_dir) = target_dir {
            // Here, and here only, the outer setting is wanted: it says where the workspace's artifacts go.
            command.env("CARGO_TARGET_DIR", target_dir);
        }
        let answer = ask(&mut command)?;
        let bad = |fault: &str| Error::Answer { program: display(&command), fault: fault.to_owned() };

        let answer: Value = serde_json::from_str(&answer).map_err(|fault| bad(&fault.to_string()))?;
        let root = path(&answer, "workspace_root").ok_or_else(|| bad("no workspace_root"))?;
        let target_directory = path(&answer, "target_directory").ok_or_else(|| bad("no target_directory"))?;
        let here = fs::canonicalize(dir.join("Cargo.toml")).ok();
        let packages = answer.get("packages").and_then(Value::as_array).ok_or_else(|| bad("no packages"))?;
        let found = packages.iter().find_map(|package| {
            let name = package.get("name")?.as_str()?.to_owned();
            let manifest = path(package, "manifest_path")?;
            let matches = match which {
                PackageSelector::Named(wanted) => *wanted == name,
                PackageSelector::At(_) => here.is_some() && fs::canonicalize(&manifest).ok() == here,
            };
            matches.then_some((name, manifest))
        });
        let Some((name, manifest)) = found else {
            let package = match which {
                PackageSelector::Named(name) => name.clone(),
                PackageSelector::At(dir) => dir.display().to_string(),
            };
            return Err(Error::NoPackage { package, root });
        };
        Ok(Self { name, manifest, root, target_directory })
    }

    /// Whether the workspace says itself what the profile `guest` is.
    pub(crate) fn has_guest_profile(&self) -> bool {
        fs::read_to_string(self.root.join("Cargo.toml"))
            .is_ok_and(|text| text.lines().any(|line| line.trim() == "[profile.guest]"))
    }
}

fn path(value: &Value, key: &str) -> Option<PathBuf> {
    Some(value.get(key)?.as_str()?.into())
}
