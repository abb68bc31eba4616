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
//! - [`Build::run`] compiles for `wasm32-unknown-unknown` in the profile `guest`, wraps each module into a component,
//!   validates it, and puts it in place by a rename, so that a reader sees the old file or the new one.
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
mod toolchain;

pub use build::{Build, Built, Component};
pub use error::Error;

/// What guests are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";
