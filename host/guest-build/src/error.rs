//! Errors of a build, each with the next step.

use std::{io, path::PathBuf, process::ExitStatus};

/// An error of another crate, or a text.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// rustup could not be started.
#[derive(Debug, thiserror::Error)]
#[error("rustup cannot be run: {0}")]
pub(crate) struct RustupMissing(#[source] pub(crate) io::Error);

/// Reason that no component was built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program could not be started.
    #[error("cannot run `{program}`: {source}")]
    Run {
        /// Command line.
        program: String,
        /// Cause.
        source: io::Error,
    },
    /// A query of a program failed.
    #[error("`{program}` failed ({status}):\n{stderr}")]
    Ask {
        /// Command line.
        program: String,
        /// Exit status.
        status: ExitStatus,
        /// End of its standard error.
        stderr: String,
    },
    /// A program gave an unexpected answer.
    #[error("cannot read the answer of `{program}`: {source}")]
    Answer {
        /// Command line.
        program: String,
        /// Fault of the answer.
        source: BoxError,
    },
    /// The wasm target is missing and could not be added.
    #[error(
        "the Rust target {target} is not installed, and adding it failed: {source}\n\
         With rustup: `rustup target add {target}` (needs the network once). Without rustup: install the distribution's \
         package of that target's standard library."
    )]
    Target {
        /// Name of the target.
        target: &'static str,
        /// End of rustup's standard error, or the reason that it could not be started.
        source: BoxError,
    },
    /// The workspace has no such package.
    #[error("the package `{package}` is not in the workspace at {}", root.display())]
    NoPackage {
        /// Requested package.
        package: String,
        /// Root of the workspace.
        root: PathBuf,
    },
    /// The package has no library that becomes a component.
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
        /// Exit status of cargo.
        status: ExitStatus,
        /// End of its standard error; empty if that went to the user.
        stderr: String,
    },
    /// The module cannot become a component.
    #[error("`{name}` compiled, but cannot become a component: {source:#}")]
    Component {
        /// The component.
        name: String,
        /// Fault that wit-component found.
        source: BoxError,
    },
    /// A file could not be read or written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// Failed action, such as `write`.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The build script of a guest tried to build guests.
    #[error("a guest's build script must use another target directory than {}", target_dir.display())]
    Nested {
        /// The directory that is in use.
        target_dir: PathBuf,
    },
    /// A path for a build script's output or a compiler flag is not Unicode.
    #[error("the path {} is not Unicode; use another directory", path.display())]
    NotUnicode {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// Makes the error for a file operation, for `map_err`.
    pub(crate) fn file(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { verb, path, source }
    }
}

/// Last lines of a program's standard error, which hold the failure.
pub(crate) fn last_lines(stderr: &[u8]) -> String {
    const MAX_STDERR_LINES: usize = 60;
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().collect::<Vec<_>>();
    lines.get(lines.len().saturating_sub(MAX_STDERR_LINES)..).unwrap_or_default().join("\n")
}
