//! `mortise plugin sdk upgrade`: brings the SDK in a plugin's folder to that of this binary.
//!
//! A plugin in Rust has the SDK's sources in `vendor/mortise`. One in another language has the contract in `contract`; its
//! small SDK module and the programs beside it carry the plugin's own names, and are the author's. Each folder is replaced whole: the new one is
//! complete before the old one makes room for it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use mortise_cli::{CliError, Exit, commands::after, ui};

use crate::{fault, languages, new::VENDOR, sdk};

pub(crate) const EXAMPLES: &str = "\
mortise plugin sdk upgrade
mortise plugin sdk upgrade --path ./guest-book --dry-run";

/// Folder of the contract in a plugin of another language than Rust.
const CONTRACT: &str = "contract";

/// Arguments of `plugin sdk`.
#[derive(Debug, Args)]
pub struct Sdk {
    #[command(subcommand)]
    command: Command,
}

/// Commands for the SDK in a plugin's folder.
#[derive(Debug, Subcommand)]
enum Command {
    /// Replaces the SDK in a plugin's folder by that of this binary
    #[command(after_help = after(EXAMPLES))]
    Upgrade(Upgrade),
}

/// Arguments of `plugin sdk upgrade`.
#[derive(Debug, Args)]
struct Upgrade {
    /// The plugin's folder [default: the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Lists the files that would change, and changes none
    #[arg(long)]
    dry_run: bool,
}

/// Content of the files of a folder, by their paths within it.
type Files = BTreeMap<String, Vec<u8>>;

impl Sdk {
    /// Replaces the SDK.
    ///
    /// # Errors
    /// A folder without an SDK of its own; a fault of the file system.
    pub fn run(self) -> Result<Exit, CliError> {
        let Command::Upgrade(upgrade) = self.command;
        ui::print(upgrade.text()?)?;
        Ok(Exit::Done)
    }
}

impl Upgrade {
    fn text(&self) -> Result<String, CliError> {
        let dir = self.path.clone().unwrap_or_else(|| PathBuf::from("."));
        let (folder, wanted) = match (dir.join(VENDOR).join(sdk::CRATE).is_dir(), dir.join(CONTRACT).is_dir()) {
            (true, _) => (VENDOR, vendored()),
            (false, true) => (CONTRACT, contract(&dir.join(CONTRACT))?),
            (false, false) => {
                return Err(fault::usage(
                    format!("{} has no SDK of its own: neither {VENDOR} nor {CONTRACT} is there", dir.display()),
                    "name the folder of a plugin that `mortise plugin new` made (--path); one made with --sdk follows its \
                     checkout",
                ));
            }
        };
        let place = dir.join(folder);
        let found = read(&place)?;
        let changes = changes(&found, &wanted);
        if changes.is_empty() {
            return Ok(format!("{} is that of this binary ({}) already\n", place.display(), env!("CARGO_PKG_VERSION")));
        }
        let listed: String = changes.iter().map(|(path, change)| format!("  {change} {folder}/{path}\n")).collect();
        if self.dry_run {
            return Ok(format!("would change: {}; nothing was changed\n{listed}", changes.len()));
        }
        replace(&place, &wanted)?;
        let next = match folder {
            VENDOR => "next: mortise plugin build && mortise plugin test (the build may change Cargo.lock)",
            _ => "next: mortise plugin build && mortise plugin test (the SDK's module and the programs are yours)",
        };
        Ok(format!("changed in {}: {}\n{listed}{next}\n", place.display(), changes.len()))
    }
}

/// The SDK's sources for Rust.
fn vendored() -> Files {
    sdk::FILES.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect()
}

/// The contract of other languages, with the files of the folder that are the plugin's own.
fn contract(place: &Path) -> Result<Files, CliError> {
    let own = read(place)?.into_iter().filter(|(path, _)| !languages::is_of_contract(path));
    Ok(own.chain(languages::definitions()).collect())
}

/// Reads all files below a folder, whose size an author bounds.
fn read(place: &Path) -> Result<Files, CliError> {
    fn walk(dir: &Path, prefix: &str, files: &mut Files) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.file_type()?.is_dir() {
                true => walk(&entry.path(), &format!("{path}/"), files)?,
                false => drop(files.insert(path, fs::read(entry.path())?)),
            }
        }
        Ok(())
    }
    let mut files = Files::new();
    walk(place, "", &mut files).map_err(fault::file("read", place))?;
    Ok(files)
}

/// Returns the paths that differ, each with its change.
fn changes(found: &Files, wanted: &Files) -> BTreeMap<String, &'static str> {
    let gone = found.keys().filter(|path| !wanted.contains_key(*path)).map(|path| (path.clone(), "removed"));
    let others = wanted.iter().filter_map(|(path, content)| match found.get(path) {
        None => Some((path.clone(), "added  ")),
        Some(old) if old != content => Some((path.clone(), "changed")),
        Some(_) => None,
    });
    gone.chain(others).collect()
}

/// Replaces a folder by one with these files. Their modes are those of the former files.
fn replace(place: &Path, files: &Files) -> Result<(), CliError> {
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = tempfile::Builder::new().prefix(".mortise-sdk-").tempdir_in(parent);
    let unfinished = unfinished.map_err(fault::file("write to", parent))?;
    let (made, former) = (unfinished.path().join("new"), unfinished.path().join("former"));
    for (path, content) in files {
        let to = made.join(path);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(fault::file("create", folder))?;
        }
        fs::write(&to, content).map_err(fault::file("write", &to))?;
        if let Ok(before) = fs::metadata(place.join(path)) {
            fs::set_permissions(&to, before.permissions()).map_err(fault::file("change", &to))?;
        }
    }
    fs::rename(place, &former).map_err(fault::file("replace", place))?;
    fs::rename(&made, place).map_err(|fault| {
        // Back to where it was; the first fault counts.
        let _ = fs::rename(&former, place);
        fault::file("replace", place)(fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new::made_plugin;

    fn upgrade(dir: &Path, dry_run: bool) -> Result<String, CliError> {
        Upgrade { path: Some(dir.to_owned()), dry_run }.text()
    }

    #[test]
    fn the_sdk_of_a_plugin_in_rust_becomes_that_of_the_binary() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = dir.path().join("guest-book");
        made_plugin(&plugin, None);
        assert!(upgrade(&plugin, false).unwrap().contains("already"));
        let vendor = plugin.join(VENDOR);
        let file = vendor.join(sdk::CRATE).join("src/lib.rs");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, "old").unwrap();
        fs::write(vendor.join("gone.rs"), "of an earlier release").unwrap();
        fs::remove_file(vendor.join(sdk::CRATE).join("src/status.rs")).unwrap();
        let own = plugin.join("src/lib.rs");
        fs::write(&own, "mine").unwrap();
        let shown = upgrade(&plugin, true).unwrap();
        assert!(shown.starts_with("would change: 3;"), "{shown}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        let shown = upgrade(&plugin, false).unwrap();
        for line in [
            "changed vendor/mortise/plugins/sdk/src/lib.rs",
            "removed vendor/mortise/gone.rs",
            "added   vendor/mortise/plugins/sdk/src/status.rs",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
        assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
        assert_eq!(read(&vendor).unwrap(), vendored());
        assert_eq!(fs::read_dir(plugin.join("vendor")).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn the_contract_of_another_language_does_so_and_keeps_the_authors_files() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = dir.path().join("guest-book");
        made_plugin(&plugin, Some(languages::Language::Go));
        assert!(upgrade(&plugin, false).unwrap().contains("already"));
        let wit = plugin.join("contract/wit/world.wit");
        let before = fs::read_to_string(&wit).unwrap();
        fs::write(&wit, "old").unwrap();
        fs::write(plugin.join("contract/layout"), "mine").unwrap();
        let shown = upgrade(&plugin, false).unwrap();
        assert!(shown.lines().next().is_some_and(|line| line.ends_with(": 1")), "{shown}");
        assert_eq!(fs::read_to_string(&wit).unwrap(), before);
        assert_eq!(fs::read_to_string(plugin.join("contract/layout")).unwrap(), "mine");
        assert!(plugin.join("contract/tools").is_file());
    }

    #[test]
    fn a_folder_without_an_sdk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = upgrade(dir.path(), false).unwrap_err();
        assert!(refused.message.contains("has no SDK of its own"), "{refused}");
    }
}
