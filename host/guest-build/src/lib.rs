//! Compiles plugin crates to WebAssembly components: for build scripts that embed a bundled plugin, for tests that need
//! guests, and for `mortise plugin build`.
//!
//! ```no_run
//! // build.rs: compiles the package, and sets DEMO_WASM for `include_bytes!(env!("DEMO_WASM"))`.
//! mortise_guest_build::Build::package("mortise-plugin-demo").embed("DEMO_WASM")?;
//! # Ok::<(), mortise_guest_build::Error>(())
//! ```
//!
//! # Contract
//! - [`Build::run`] compiles in the profile `guest` for `wasm32-unknown-unknown`, or for `wasm32-wasip2` when told so
//!   ([`Target`]), wraps each module into a component, validates it, and puts it in place by a rename, so that a reader
//!   sees the old file or the new one.
//! - What comes out depends on the sources, `Cargo.lock` and the toolchain alone: the environment that an outer cargo,
//!   a wrapper or the user's flags would bring along is left behind, and paths of this machine are mapped away.
//! - The wasm target is added with rustup when it is missing; when that fails, the error says what to type.
//!
//! # Cost
//! Everything fresh: about a third of a second, which is cargo looking around. From nothing: what the guest's
//! dependencies take, once for all packages that share a target directory.
//!
//! # Limits
//! - The target directory must not be that of an outer cargo: that one holds its lock while a build script runs. The
//!   default, `<target>/guest`, has a lock of its own.
//! - One run at a time for each target directory, across processes; others wait.
//! - A guest's own build script cannot use this crate; it would wait for itself, and is told so.

mod build;
mod cargo;
mod component;
mod depinfo;
mod environment;
mod error;
mod metadata;
mod stop;
mod toolchain;

pub use build::{Build, BuildOutput, Component};
pub use error::Error;
pub use stop::StopHandle;

/// What guests are compiled for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// `wasm32-unknown-unknown`: no WASI, the smallest and quickest components.
    #[default]
    Bare,
    /// `wasm32-wasip2`: all of Rust's standard library compiles. The host links WASI 0.2 with nothing in it.
    WasiP2,
}

impl Target {
    /// Its name, as compilers know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "wasm32-unknown-unknown",
            Self::WasiP2 => "wasm32-wasip2",
        }
    }

    /// What components of this target have behind their directory's name.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Bare => "",
            Self::WasiP2 => "-wasip2",
        }
    }
}
