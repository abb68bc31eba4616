//! `mortise provider docs`: pages about the types and functions of a server.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_provider::{
    docs::{FOLDERS, MARK, pages},
    schema::{FunctionSet, ProviderSchema, Snapshot},
};

use super::{
    export::put,
    source::{SOURCE, Source, source},
};
use crate::{CliError, Connect, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise provider docs --out docs
mortise provider docs --out website/docs --source example.org/platform/mortise";

/// Bytes of a file's start in which the mark of this command's pages stands.
const HEAD_BYTES: u64 = 256;

/// Arguments of `provider docs`.
#[derive(Debug, Args)]
pub(super) struct Docs {
    /// The directory of the pages. Pages of earlier runs are replaced or removed, and other files stay
    #[arg(long, value_name = "DIR", default_value = "docs")]
    out: PathBuf,
    /// The provider's address, as in required_providers
    #[arg(long, value_name = "HOST/NAMESPACE/TYPE", default_value = SOURCE, value_parser = source)]
    source: Source,
    #[command(flatten)]
    connect: Connect,
}

impl Docs {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let Snapshot { types, functions } = super::types::snapshot(&self.connect).await?;
        let name = &self.source.name;
        let schema = ProviderSchema::of(&types, &name.replace('-', "_"));
        let functions = FunctionSet::of(&functions);
        let pages = pages(&schema, &functions, name, &self.source.to_string());
        let stale = check(&self.out, &pages)?;
        for (path, text) in &pages {
            let path = self.out.join(path);
            let dir = path.parent().unwrap_or(&self.out);
            fs::create_dir_all(dir).map_err(|e| CliError::file("cannot make", dir, e))?;
            put(text.as_bytes(), 0o644, &path)?;
        }
        for path in stale {
            mortise_durable_fs::remove(&path).map_err(CliError::fs)?;
        }
        let ui = self.connect.ui();
        for why in schema.left_out.iter().map(ToString::to_string).chain(functions.left_out) {
            ui.warn(&format!("left out: {why}"));
        }
        ui::print(format!("{} pages in {}\n", pages.len(), self.out.display()))?;
        Ok(Exit::Done)
    }
}

/// Checks that no page replaces a file of another origin; returns the pages of earlier runs that have no successor.
fn check(out: &Path, pages: &BTreeMap<String, String>) -> Result<Vec<PathBuf>, CliError> {
    for path in pages.keys().map(|path| out.join(path)) {
        if is_ours(&path)? == Some(false) {
            return Err(CliError::usage(format!("{} was not made by this command", path.display()))
                .remedy("move it away, or give --out another directory"));
        }
    }
    let mut stale = Vec::new();
    for folder in FOLDERS {
        let dir = out.join(folder);
        let entries = match fs::read_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|e| CliError::file("cannot read the directory", &dir, e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| CliError::file("cannot read the directory", &dir, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_page = name.ends_with(".md") && !pages.contains_key(&format!("{folder}/{name}"));
            if is_page && is_ours(&entry.path())? == Some(true) {
                stale.push(entry.path());
            }
        }
    }
    Ok(stale)
}

/// Whether this command made a file; `None` if it does not exist.
fn is_ours(path: &Path) -> Result<Option<bool>, CliError> {
    let unread = |e: io::Error| CliError::file("cannot read", path, e);
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unread)?,
    };
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(unread)?;
    Ok(Some(String::from_utf8_lossy(&head).lines().any(|line| line == MARK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_earlier_runs_go_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path();
        fs::create_dir(out.join("resources")).unwrap();
        let ours = format!("---\n{MARK}\n---\n");
        for (name, text) in [("gone.md", ours.as_str()), ("kept.md", &ours), ("hand.md", "# Hand\n"), ("x.txt", &ours)]
        {
            fs::write(out.join("resources").join(name), text).unwrap();
        }
        let pages = BTreeMap::from([("resources/kept.md".to_owned(), ours.clone())]);
        assert_eq!(check(out, &pages).unwrap(), [out.join("resources/gone.md")]);
        let pages = BTreeMap::from([("resources/hand.md".to_owned(), ours)]);
        let refused = check(out, &pages).unwrap_err();
        assert!(refused.message.ends_with("hand.md was not made by this command"), "{refused:?}");
    }
}
