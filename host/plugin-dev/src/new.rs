//! `mortise plugin new`: a plugin that builds, passes its own tests and can be served at once.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_cli::{CliError, Exit, ui};

use crate::{
    fault,
    languages::{self, Language, NewFile},
    names::Names,
    sdk, template,
};

pub(crate) const EXAMPLES: &str = "\
mortise plugin new guest-book
mortise plugin new shop --type shop.v1.Order --with-reconciler
mortise plugin new lamps --lang python";

/// Folder of the SDK in a new plugin.
pub(crate) const VENDOR: &str = "vendor/mortise";

/// Mode of programs in a new plugin; the user's mask does not apply.
const PROGRAM_MODE: u32 = 0o755;

/// Arguments of `plugin new`.
#[derive(Debug, Args)]
pub struct New {
    /// The plugin's name: lower-case letters, digits and dashes.
    name: String,
    /// The plugin's type [default: one named after the plugin, in v1]
    #[arg(long = "type", value_name = "GROUP.VERSION.Kind")]
    type_name: Option<String>,
    /// The language.
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    lang: Language,
    /// Adds a reconciler, with its test; in languages other than Rust it is always there.
    #[arg(long)]
    with_reconciler: bool,
    /// The plugin's folder, which must be empty or new [default: NAME]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Uses the crate mortise-plugin of a checkout, instead of the one in this binary.
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

impl New {
    /// Writes the crate.
    ///
    /// # Errors
    /// An invalid name, a folder that is not empty, or a fault of the file system.
    pub fn run(self) -> Result<Exit, CliError> {
        ui::print(self.write()?)?;
        Ok(Exit::Done)
    }

    /// Writes the crate, and returns the text for the user.
    fn write(&self) -> Result<String, CliError> {
        let names = Names::new(&self.name, self.type_name.as_deref())?;
        let dir = self.path.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        let files = self.files(&names)?;
        refuse_to_overwrite(&dir, &self.name)?;
        // Nothing is left half done: the last step moves everything into place. An existing folder is not replaced,
        // since it may be a shell's current one.
        let is_there = dir.is_dir();
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = if is_there { dir.as_path() } else { parent };
        fs::create_dir_all(parent).map_err(fault::file("create", parent))?;
        let unfinished = tempfile::Builder::new().prefix(".mortise-new-").tempdir_in(parent);
        let unfinished = unfinished.map_err(fault::file("write to", parent))?;
        let made = unfinished.path().join("plugin");
        if self.lang == Language::Rust && self.sdk.is_none() {
            let vendor = made.join(VENDOR);
            sdk::write(&vendor).map_err(fault::file("write to", &vendor))?;
        }
        for NewFile { path, content, is_program } in files {
            let path = made.join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(fault::file("create", folder))?;
            }
            fs::write(&path, content).map_err(fault::file("write", &path))?;
            if is_program {
                let mode = fs::Permissions::from_mode(PROGRAM_MODE);
                fs::set_permissions(&path, mode).map_err(fault::file("change", &path))?;
            }
        }
        if is_there {
            move_in(&made, &dir)?;
        } else {
            fs::rename(&made, &dir).map_err(fault::file("create", &dir))?;
        }
        Ok(summary(&names, &dir))
    }
}

impl New {
    /// Returns the plugin's own files.
    fn files(&self, names: &Names) -> Result<Vec<NewFile>, CliError> {
        if self.lang != Language::Rust {
            if self.sdk.is_some() {
                return Err(fault::usage("--sdk is the crate of plugins in Rust", "leave --sdk or --lang out"));
            }
            return languages::files(names, self.lang);
        }
        let sdk_path = match &self.sdk {
            None => format!("{VENDOR}/{}", sdk::CRATE),
            Some(given) => checkout(given)?,
        };
        let files = template::files(names, self.with_reconciler, &sdk_path).into_iter();
        Ok(files.map(|(path, text)| NewFile { path, content: text.into_bytes(), is_program: false }).collect())
    }
}

/// Moves the content of one folder into another, Cargo.toml last, since it makes the folder a crate.
fn move_in(made: &Path, dir: &Path) -> Result<(), CliError> {
    let entries = fs::read_dir(made).map_err(fault::file("read", made))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort_by_key(|name| name == "Cargo.toml");
    for name in names {
        let to = dir.join(&name);
        fs::rename(made.join(&name), &to).map_err(fault::file("create", &to))?;
    }
    Ok(())
}

/// Returns the text for the user: the plugin, its folder and the next step.
fn summary(names: &Names, dir: &Path) -> String {
    let (type_name, shown) = (names.type_name(), dir.display().to_string());
    let plain = shown.chars().all(|c| c.is_alphanumeric() || "-_./".contains(c));
    let quoted = if plain { shown.clone() } else { format!("'{}'", shown.replace('\'', "'\\''")) };
    let cd = if shown == "." { String::new() } else { format!("cd {quoted} && ") };
    format!(
        "created plugin {} in {shown}, with the type {type_name}\nnext: {cd}mortise plugin build && mortise plugin test\n",
        names.plugin
    )
}

/// Returns the path of the SDK's crate in a checkout of Mortise, or of the crate itself, in a form for any Cargo.toml.
fn checkout(given: &Path) -> Result<String, CliError> {
    let candidates = [given.join(sdk::CRATE), given.to_owned()];
    let is_sdk = |dir: &&PathBuf| {
        fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|text| text.contains("name = \"mortise-plugin\""))
    };
    let found = candidates.iter().find(is_sdk).ok_or_else(|| {
        fault::usage(
            format!("{} is not a checkout of Mortise: it has no crate mortise-plugin", given.display()),
            "give the folder that has plugins/sdk in it, or leave --sdk out: this binary has the SDK's sources",
        )
    })?;
    let found = fs::canonicalize(found).map_err(fault::file("find", found))?;
    let text = found.to_str().map(str::to_owned);
    text.filter(|text| !text.contains(['"', '\\'])).ok_or_else(|| {
        fault::usage(
            format!("{} cannot be written into a Cargo.toml", found.display()),
            "move the checkout to a path of plain letters",
        )
    })
}

/// Rejects a folder with content; an empty one may be used.
fn refuse_to_overwrite(dir: &Path, name: &str) -> Result<(), CliError> {
    let next = || format!("`mortise plugin new {name} --path ANOTHER`, or move the content of {} away", dir.display());
    match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => {
            Err(fault::usage(format!("{} exists and is not empty; nothing was written", dir.display()), next()))
        }
        Ok(false) => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::NotADirectory => {
            Err(fault::usage(format!("{} exists and is not a folder; nothing was written", dir.display()), next()))
        }
        Err(fault) => Err(fault::file("read", dir)(fault)),
    }
}

/// Makes a plugin in Rust, or in another language, for tests.
#[cfg(test)]
pub(crate) fn made_plugin(path: &Path, lang: Option<Language>) {
    let (name, lang) = ("guest-book".to_owned(), lang.unwrap_or_default());
    let path = Some(path.to_owned());
    New { name, type_name: None, lang, with_reconciler: false, path, sdk: None }.write().unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(dir: &Path, with_reconciler: bool) -> New {
        New {
            name: "guest-book".into(),
            type_name: None,
            lang: Language::Rust,
            with_reconciler,
            path: Some(dir.to_owned()),
            sdk: None,
        }
    }

    #[test]
    fn a_plugin_is_written_whole_and_never_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/below/guest-book");
        let written = new(&path, true).write().unwrap();
        assert!(
            written.contains("with the type guest_book.v1.GuestBook") && written.contains("next: cd "),
            "{written}"
        );
        for file in [
            "Cargo.toml",
            "Cargo.lock",
            ".gitignore",
            "README.md",
            "build.rs",
            "proto/guest_book/v1/guest_book.proto",
            "src/lib.rs",
            "src/controller.rs",
            "tests/cases/hooks.yaml",
            "tests/cases/reconciler.yaml",
            "vendor/mortise/plugins/sdk/Cargo.toml",
        ] {
            assert!(path.join(file).is_file(), "{file}");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing unfinished is left");
        fs::write(path.join("src/lib.rs"), "mine").unwrap();
        let refused = new(&path, true).write().unwrap_err();
        assert!(refused.message.contains("not empty; nothing was written"), "{refused}");
        assert_eq!(fs::read_to_string(path.join("src/lib.rs")).unwrap(), "mine");
        let refused = new(&path.join("Cargo.toml"), false).write().unwrap_err();
        assert!(refused.message.contains("is not a folder"), "{refused}");
    }

    #[test]
    fn a_folder_that_is_there_stays_the_same_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a folder");
        fs::create_dir(&path).unwrap();
        let before = fs::metadata(&path).unwrap();
        let new = New {
            name: "guest-book".into(),
            type_name: None,
            lang: Language::Rust,
            with_reconciler: false,
            path: Some(path.clone()),
            sdk: None,
        };
        let written = new.write().unwrap();
        assert!(written.contains("next: cd '") && written.contains("a folder' && mortise plugin build"), "{written}");
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino());
        let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.collect::<Vec<_>>().iter().all(|name| !name.starts_with(".mortise-new")));
        assert!(path.join("Cargo.toml").exists() && path.join("src/lib.rs").exists());
    }

    #[test]
    fn an_empty_folder_may_be_taken_and_a_checkout_used() {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        New { sdk: Some(root.clone()), ..new(dir.path(), false) }.write().unwrap();
        let manifest = fs::read_to_string(dir.path().join("Cargo.toml")).unwrap();
        let sdk = fs::canonicalize(root.join("plugins/sdk")).unwrap();
        assert!(manifest.contains(&format!("path = \"{}\"", sdk.display())), "{manifest}");
        assert!(!dir.path().join("vendor").exists() && !dir.path().join("src/controller.rs").exists());
        let refused =
            New { sdk: Some(dir.path().to_owned()), ..new(&dir.path().join("x"), false) }.write().unwrap_err();
        assert!(refused.message.contains("is not a checkout of Mortise"), "{refused}");
    }

    #[test]
    fn a_plugin_in_another_language_has_programs_and_no_crate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest-book");
        let written = New { lang: Language::Go, ..new(&path, false) }.write().unwrap();
        assert!(written.contains("mortise plugin build && mortise plugin test"), "{written}");
        assert!(!path.join("Cargo.toml").exists() && path.join("app/plugin.go").exists());
        for program in ["build", "contract/tools", "contract/layout"] {
            assert_eq!(fs::metadata(path.join(program)).unwrap().permissions().mode() & 0o777, 0o755, "{program}");
        }
        let sdk = Some(dir.path().to_owned());
        let refused = New { lang: Language::C, sdk, ..new(&path, false) }.write().unwrap_err();
        assert!(refused.message.contains("--sdk is the crate of plugins in Rust"), "{refused}");
    }
}
