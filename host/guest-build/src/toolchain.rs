//! The compiler: its location, and its support for WebAssembly.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, Target, environment,
    error::{RustupMissing, last_lines},
};

/// Facts about the compiler, asked once for each run.
pub(crate) struct Toolchain {
    /// Path of the standard library's sources, if the component `rust-src` is installed.
    pub(crate) sources: PathBuf,
    /// Path of these sources in a toolchain without them.
    pub(crate) virtual_sources: String,
}

impl Toolchain {
    /// Asks the compiler, and adds the wasm target if it is missing.
    pub(crate) fn find(dir: &Path, target: Target) -> Result<Self, Error> {
        let paths = rustc(dir, &["--print", "sysroot", "--print", "target-libdir", "--target", target.name()])?;
        let mut lines = paths.lines().map(PathBuf::from);
        let (Some(sysroot), Some(libraries)) = (lines.next(), lines.next()) else {
            return Err(Error::Answer { program: "rustc --print".into(), source: format!("{paths:?}").into() });
        };
        if !has_core(&libraries) {
            add_target(dir, target)?;
        }
        let version = rustc(dir, &["-vV"])?;
        let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
        Ok(Self { sources: sysroot.join("lib/rustlib/src/rust"), virtual_sources: format!("/rustc/{commit}") })
    }
}

/// Whether the standard library's lowest crate is installed.
fn has_core(libraries: &Path) -> bool {
    fs::read_dir(libraries)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-")))
}

/// Runs `rustup target add` for the toolchain in use: rustup takes it from `RUSTUP_TOOLCHAIN`, which its proxies set
/// for every process below them, or from the directory.
fn add_target(dir: &Path, target: Target) -> Result<(), Error> {
    let output = Command::new("rustup")
        .args(["target", "add", target.name()])
        .current_dir(dir)
        // Backtraces of rustup are of interest to its authors only.
        .env_remove("RUST_BACKTRACE")
        .output()
        .map_err(|error| Error::Target { target: target.name(), source: RustupMissing(error).into() })?;
    if output.status.success() {
        Ok(())
    } else {
        Err(Error::Target { target: target.name(), source: last_lines(&output.stderr).into() })
    }
}

fn rustc(dir: &Path, arguments: &[&str]) -> Result<String, Error> {
    let mut command = Command::new(environment::program("RUSTC", "rustc"));
    environment::remove_outer_environment(&mut command);
    ask(command.args(arguments).current_dir(dir))
}

/// Runs a program that answers a query on its standard output.
pub(crate) fn ask(command: &mut Command) -> Result<String, Error> {
    let program = display(command);
    let output = match command.output() {
        Ok(output) => output,
        Err(source) => return Err(Error::Run { program, source }),
    };
    if !output.status.success() {
        return Err(Error::Ask { program, status: output.status, stderr: last_lines(&output.stderr) });
    }
    String::from_utf8(output.stdout).map_err(|error| Error::Answer { program, source: error.into() })
}

/// Command line as one would type it, for messages.
pub(crate) fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
