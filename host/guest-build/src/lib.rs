//! Compiler of plugin crates to WebAssembly components: for build scripts that embed a bundled plugin, for tests that
//! need guests, and for `mortise plugin build`.
//!
//! ```no_run
//! // build.rs: compiles the package, and sets DEMO_WASM for `include_bytes!(env!("DEMO_WASM"))`.
//! mortise_guest_build::Build::package("mortise-plugin-demo").embed("DEMO_WASM")?;
//! # Ok::<(), mortise_guest_build::Error>(())
//! ```
//!
//! # Contract
//! - [`Build::run`] compiles in the profile `guest` for `wasm32-unknown-unknown`, or for `wasm32-wasip2` ([`Target`]),
//!   wraps each module into a component, validates it, and puts it in place by a rename, so that a reader sees the old
//!   file or the new one. A workspace without the profile gets this repository's.
//! - The output depends on the sources, `Cargo.lock` and the toolchain alone: the environment of an outer cargo, a
//!   wrapper or the user's flags is removed, and paths of this machine are mapped away.
//! - A missing wasm target is added with rustup; if that fails, the error names the command to type.
//!
//! # Cost
//! A build with everything up to date takes about a third of a second, in which cargo checks files. The first build
//! compiles the guest's dependencies, once for all packages that share a target directory. Another folder's copy of the
//! SDK is compiled again; so is everything in a build with lines, since these have the paths of their folder.
//!
//! # Limits
//! - The target directory must not be the one of an outer cargo, whose lock is held while a build script runs. The
//!   default, `<target>/guest`, has a lock of its own.
//! - One run at a time for each target directory, across processes; others wait.
//! - A guest's own build script cannot use this crate in the same target directory: it would wait for itself, and gets
//!   an error instead.

mod build;
mod cargo;
mod component;
mod depinfo;
mod environment;
mod error;
mod metadata;
mod origins;
mod stop;
mod toolchain;

pub use build::{Build, BuildOutput, Component};
pub use error::Error;
pub use stop::StopHandle;

/// Compilation target of guests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// `wasm32-unknown-unknown`: no WASI, the smallest and quickest components.
    #[default]
    Bare,
    /// `wasm32-wasip2`: all of Rust's standard library compiles. The host links WASI 0.2 without any access.
    WasiP2,
}

impl Target {
    /// Name of the target, as compilers know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "wasm32-unknown-unknown",
            Self::WasiP2 => "wasm32-wasip2",
        }
    }

    /// Suffix of the directory for components of this target.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Bare => "",
            Self::WasiP2 => "-wasip2",
        }
    }
}
