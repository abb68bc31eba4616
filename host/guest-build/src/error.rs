//! What can go wrong, each with what to do about it.

use std::{io, path::PathBuf, process::ExitStatus};

/// An error of another crate, or a text.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why rustup added no target.
#[derive(Debug, thiserror::Error)]
#[error("rustup cannot be run: {0}")]
pub(crate) struct RustupMissing(#[source] pub(crate) io::Error);

/// Why no component came out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program could not be started.
    #[error("cannot run `{program}`: {source}")]
    Run {
        /// As it was called.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program that only answers questions failed.
    #[error("`{program}` failed ({status}):\n{stderr}")]
    Ask {
        /// As it was called.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said.
        stderr: String,
    },
    /// A program answered something else than it should.
    #[error("`{program}` gave an answer that cannot be understood: {source}")]
    Answer {
        /// As it was called.
        program: String,
        /// What is wrong with the answer.
        source: BoxError,
    },
    /// The wasm target is missing and could not be added.
    #[error(
        "the Rust target {target} is not installed, and adding it failed: {source}\n\
         With rustup: `rustup target add {target}` (needs the network once). Without rustup: install the distribution's \
         package of that target's standard library."
    )]
    Target {
        /// Its name.
        target: &'static str,
        /// The end of rustup's words, or why it could not be started.
        source: BoxError,
    },
    /// The workspace has no such package.
    #[error("there is no package `{package}` in the workspace at {}", root.display())]
    NoPackage {
        /// What was asked for.
        package: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// The package has nothing that becomes a component.
    #[error(
        "package `{package}` builds no cdylib; a plugin's Cargo.toml needs `[lib]` with `crate-type = [\"cdylib\"]`"
    )]
    NoLibrary {
        /// The package.
        package: String,
    },
    /// cargo refused the source.
    #[error("compiling `{package}` for WebAssembly failed ({status}){}{stderr}", if stderr.is_empty() { "" } else { ":\n" })]
    Compile {
        /// The package.
        package: String,
        /// How cargo ended.
        status: ExitStatus,
        /// The end of what it said; empty when it said so to the user.
        stderr: String,
    },
    /// The module cannot become a component.
    #[error("`{name}` compiled, but is no component: {source:#}")]
    Component {
        /// The component.
        name: String,
        /// What wit-component found.
        source: BoxError,
    },
    /// A file could not be read or written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was being done, such as `write`.
        verb: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The build script of a guest asked for guests.
    #[error("a guest's build script cannot build guests in the same target directory, {}", target_dir.display())]
    Nested {
        /// The directory that is in use.
        target_dir: PathBuf,
    },
    /// A path that has to go into a build script's output or a compiler flag is not Unicode.
    #[error("the path {} is not Unicode", path.display())]
    NotUnicode {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { verb, path, source }
    }
}

/// The last lines of a program's standard error: what it failed on, without everything that went well before.
pub(crate) fn tail(stderr: &[u8]) -> String {
    const LINES: usize = 60;
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().collect::<Vec<_>>();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}
