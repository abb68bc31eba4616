//! The component that a command works on: a file, or the result of building the crate in the current folder.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Exit};
use mortise_guest_build::{self as guest_build, Error, StopHandle};

use crate::{external::BuildCommand, fault};

/// Folder of components, below cargo's target directory.
const FOLDER: &str = "plugins";

/// Options for building a plugin's crate.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Build")]
pub(crate) struct Crate {
    /// The plugin's folder, with its Cargo.toml or mortise.toml [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// The target to compile for
    #[arg(long, value_name = "TARGET", default_value = "bare")]
    target: Target,
    /// Features of the crate, separated by commas
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    features: Vec<String>,
    /// Keeps files and line numbers for backtraces; the component is about ten times as large
    #[arg(long)]
    lines: bool,
    /// Fails if Cargo.lock would have to change
    #[arg(long)]
    locked: bool,
}

/// Target to compile for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Target {
    /// wasm32-unknown-unknown: no WASI; the smallest and quickest
    #[default]
    Bare,
    /// wasm32-wasip2: all of Rust's standard library compiles
    Wasip2,
}

/// A component, and the crate that it is built from when no file is given.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Source {
    /// The component; without one, the crate in --path is built first
    #[arg(value_name = "FILE.wasm")]
    file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) package: Crate,
}

impl Source {
    /// Returns the component's path, after a build if no file is given. The output of cargo goes to standard error.
    ///
    /// # Errors
    /// Those of [`Crate::build`].
    pub(crate) async fn component(&self) -> Result<PathBuf, CliError> {
        match &self.file {
            Some(file) => Ok(file.clone()),
            None => self.package.build().await,
        }
    }
}

impl Crate {
    /// The plugin's folder.
    pub(crate) fn dir(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("."))
    }

    /// Returns a path within the plugin's folder.
    pub(crate) fn within(&self, part: &str) -> PathBuf {
        self.path.as_ref().map_or_else(|| part.into(), |dir| dir.join(part))
    }

    /// Compiles the crate, or runs the command of `mortise.toml`, and returns the component's path. The output goes to standard error as it comes.
    /// Dropping the future ends cargo.
    ///
    /// # Errors
    /// A refusal of cargo or rustup, with the next step.
    pub(crate) async fn build(&self) -> Result<PathBuf, CliError> {
        let dir = self.dir();
        if let Some(command) = BuildCommand::read(dir)? {
            if self.target != Target::Bare || !self.features.is_empty() || self.lines || self.locked {
                return Err(fault::usage(
                    "--target, --features, --lines and --locked are for crates of Rust",
                    "leave them out: mortise.toml names the command that builds this plugin",
                ));
            }
            return command.run(dir).await;
        }
        if !dir.join("Cargo.toml").is_file() {
            return Err(fault::usage(
                format!("there is no Cargo.toml and no mortise.toml in {}", dir.display()),
                "`mortise plugin new NAME` makes a plugin; `cd` into one, or give its folder with --path DIR",
            ));
        }
        let target = match self.target {
            Target::Bare => guest_build::Target::Bare,
            Target::Wasip2 => guest_build::Target::WasiP2,
        };
        let mut build = guest_build::Build::manifest_dir(dir).target(target).features(&self.features);
        build = build.out_in_target(FOLDER).live();
        if self.lines {
            build = build.lines();
        }
        if !self.locked {
            build = build.unlocked();
        }
        let ending = StopOnDrop(StopHandle::new());
        let build = build.stopped_by(&ending.0);
        let built = tokio::task::spawn_blocking(move || build.run()).await;
        let built = built.map_err(|e| fault::failed("the build gave up", "try again").caused_by(e))?;
        let built = built.map_err(failed)?;
        let component = built.components.into_iter().next();
        component
            .map(|component| component.path)
            .ok_or_else(|| failed(Error::NoLibrary { package: dir.display().to_string() }))
    }
}

/// Ends a build when its result is no longer needed.
struct StopOnDrop(StopHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn failed(error: Error) -> CliError {
    let next = match &error {
        Error::Run { .. } => "install Rust by https://rustup.rs, open a new shell, and try again".to_owned(),
        Error::Target { target, .. } => format!("`rustup target add {target}`, and try again"),
        Error::NoLibrary { .. } => {
            "add `[lib]` with `crate-type = [\"cdylib\", \"rlib\"]` to Cargo.toml, and run `mortise plugin build` again"
                .to_owned()
        }
        Error::NoPackage { .. } => "give the crate with --path DIR: a folder whose Cargo.toml has [package]".to_owned(),
        Error::Compile { .. } => "fix what cargo reports above, and run `mortise plugin build` again".to_owned(),
        Error::Ask { .. } | Error::Answer { .. } => "fix what cargo reports, and run `mortise plugin build` again".to_owned(),
        Error::Component { .. } => {
            "use the mortise-plugin crate for all that crosses to the host; `mortise plugin new` makes a crate that does"
                .to_owned()
        }
        Error::Nested { .. } => "let the crate's build.rs not build plugins".to_owned(),
        Error::NotUnicode { .. } => "move the crate to a path of plain letters".to_owned(),
        _ => "see with `ls -ld` who may write there, and with `df -h` whether there is room".to_owned(),
    };
    CliError::because(Exit::Failed, error).remedy(next)
}
