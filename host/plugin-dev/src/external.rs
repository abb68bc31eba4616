//! Plugins that a command of their own builds: `mortise.toml` in the plugin's folder names it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use mortise_cli::CliError;
use serde::Deserialize;
use tokio::process::Command;

use crate::fault;

/// File that names the command.
const FILE: &str = "mortise.toml";

/// Largest such file, bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    build: BuildCommand,
}

/// The command, and the component that it makes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuildCommand {
    /// Program and arguments; the program is found on PATH, or below the plugin's folder if it begins with `./`.
    command: Vec<String>,
    /// The component, below the plugin's folder.
    component: PathBuf,
}

impl BuildCommand {
    /// Reads the command of a plugin's folder; `None` for a plugin without one.
    ///
    /// # Errors
    /// A file that cannot be read, or is not of this form.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, CliError> {
        let path = dir.join(FILE);
        match fs::metadata(&path) {
            Ok(found) if found.len() > MAX_FILE_BYTES => {
                let what = format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display());
                return Err(fault::usage(what, "name the command and the component in it, and nothing else"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault::file("read", &path)(error)),
        }
        let text = fs::read_to_string(&path).map_err(fault::file("read", &path))?;
        let read: Description = toml::from_str(&text).map_err(|error| {
            let next = "see the file that `mortise plugin new NAME --lang python` makes";
            fault::usage(format!("{}: {}", path.display(), error.message()), next)
        })?;
        let is_below = read.build.component.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if read.build.command.is_empty() || !is_below || read.build.component.as_os_str().is_empty() {
            let what = format!("{}: build.command or build.component is empty or leads elsewhere", path.display());
            return Err(fault::usage(what, "name a command, and a file below the plugin's folder"));
        }
        Ok(Some(read.build))
    }

    /// Runs the command in the plugin's folder, and returns the component's path. Its output goes to standard error as it
    /// comes. Dropping the future ends the program.
    ///
    /// # Errors
    /// A command that does not start or fails, or that makes no component.
    pub(crate) async fn run(&self, dir: &Path) -> Result<PathBuf, CliError> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(fault::usage("the command is empty", format!("name it in {FILE}")));
        };
        let component = dir.join(&self.component);
        if let Some(folder) = component.parent() {
            fs::create_dir_all(folder).map_err(fault::file("create", folder))?;
        }
        // What is left of an earlier build is not the result of this one.
        match fs::remove_file(&component) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(fault::file("remove", &component)(error));
            }
            _ => {}
        }
        let shown = self.command.join(" ");
        // A relative program is looked for in the folder of this process otherwise.
        let found = if program.starts_with("./") { fs::canonicalize(dir.join(program)) } else { Ok(program.into()) };
        let found = found.map_err(fault::file("find", &dir.join(program)))?;
        let mut command = Command::new(found);
        command.args(arguments).current_dir(dir).stdin(Stdio::null()).stdout(io::stderr()).kill_on_drop(true);
        let ended = command.status().await.map_err(|error| {
            let next = format!("see with `ls -l` whether it is a program, and what {FILE} names");
            fault::failed(format!("cannot run {shown:?} in {}", dir.display()), next).caused_by(error)
        })?;
        if !ended.success() {
            let next = "fix what it reports above, and run `mortise plugin build` again";
            return Err(fault::failed(format!("{shown:?} failed: {ended}"), next));
        }
        if !component.is_file() {
            let next = format!("let {shown:?} make it, or name in {FILE} what it makes");
            return Err(fault::failed(format!("{} was not made", component.display()), next));
        }
        Ok(component)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> (tempfile::TempDir, Result<Option<BuildCommand>, CliError>) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
        let read = BuildCommand::read(dir.path());
        (dir, read)
    }

    #[tokio::test]
    async fn the_command_makes_the_component_in_the_plugins_folder() {
        let text = "[build]\ncommand = [\"sh\", \"-c\", \"pwd > made/it.wasm\"]\ncomponent = \"made/it.wasm\"\n";
        let (dir, read) = described(text);
        let made = read.unwrap().unwrap().run(dir.path()).await.unwrap();
        let printed = fs::read_to_string(made).unwrap();
        assert_eq!(fs::canonicalize(printed.trim()).unwrap(), fs::canonicalize(dir.path()).unwrap());
    }

    #[tokio::test]
    async fn a_failure_and_a_component_that_is_missing_are_told() {
        for (script, says) in [("exit 3", "exit status: 3"), ("true", "was not made")] {
            let text = format!("[build]\ncommand = [\"sh\", \"-c\", \"{script}\"]\ncomponent = \"it.wasm\"\n");
            let (dir, read) = described(&text);
            // What an earlier build left does not count.
            fs::write(dir.path().join("it.wasm"), "old").unwrap();
            let failed = read.unwrap().unwrap().run(dir.path()).await.unwrap_err();
            assert!(failed.to_string().contains(says), "{failed}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_and_an_absent_one_is_none() {
        for wrong in [
            "",
            "[build]\ncommand = []\ncomponent = \"a.wasm\"\n",
            "[build]\ncommand = [\"a\"]\ncomponent = \"../a.wasm\"\n",
            "[build]\ncommand = [\"a\"]\ncomponent = \"a.wasm\"\ncomand = 1\n",
        ] {
            let (dir, read) = described(wrong);
            let refused = read.map(drop).unwrap_err();
            assert!(refused.message.contains(&*dir.path().join(FILE).to_string_lossy()), "{wrong}: {refused}");
        }
        assert!(BuildCommand::read(tempfile::tempdir().unwrap().path()).unwrap().is_none());
    }
}
