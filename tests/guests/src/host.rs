//! Components of the guests, and components made of bytes, for tests.

mod bad;
mod template;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use mortise_guest_build::{Build, BuildOutput, Target};

pub use bad::{bad_manifests, change_files, good_manifest};
pub use template::{importing, manifest_only, manifest_only_for};

fn built() -> &'static BuildOutput {
    static BUILT: OnceLock<BuildOutput> = OnceLock::new();
    BUILT.get_or_init(|| match Build::manifest_dir(env!("CARGO_MANIFEST_DIR")).examples().run() {
        Ok(built) => built,
        #[allow(clippy::panic, reason = "for tests: they need their guests")]
        Err(fault) => panic!("the test guests do not build: {fault}"),
    })
}

/// Compiles every guest and returns the directory with exactly one `<name>.wasm` for each. All test binaries of the
/// workspace share the artifacts; once per process, cargo rebuilds stale ones.
///
/// # Panics
/// If the guests do not compile.
#[must_use]
pub fn build_all() -> &'static Path {
    &built().dir
}

/// Returns the path of a guest's component.
///
/// # Panics
/// If the guests do not compile, or the guest does not exist.
#[must_use]
pub fn component(name: &str) -> PathBuf {
    match built().component(name) {
        Some(path) => path.to_owned(),
        #[allow(clippy::panic, reason = "for tests: a misspelt name")]
        None => panic!("there is no test guest {name:?}; see tests/guests/README.md"),
    }
}

/// Returns a guest's component for wasm32-wasip2, with the whole standard library. Each is built on request.
///
/// # Panics
/// If it does not compile, or the guest does not exist.
#[must_use]
pub fn wasi_component(name: &str) -> PathBuf {
    let build = Build::manifest_dir(env!("CARGO_MANIFEST_DIR")).target(Target::WasiP2).example(name);
    // Nothing is removed here: other processes may use another guest meanwhile.
    let out = built().dir.with_file_name("wasi-guests");
    match build.out_dir(out).run() {
        #[allow(clippy::panic, reason = "for tests: a misspelt name")]
        Ok(built) => built.component(name).unwrap_or_else(|| panic!("there is no test guest {name:?}")).to_owned(),
        #[allow(clippy::panic, reason = "for tests: they need their guests")]
        Err(fault) => panic!("the test guest {name} does not build for wasm32-wasip2: {fault}"),
    }
}

/// Returns a guest's component with files and line numbers (DWARF), compiled again if necessary.
///
/// # Panics
/// If the guest does not compile, or does not exist.
#[must_use]
pub fn component_with_lines(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = build_all().with_file_name("with-lines");
    match Build::manifest_dir(here).example(name).lines().out_dir(&out).run() {
        Ok(built) => built.component(name).map_or_else(|| out.join(name), Path::to_owned),
        #[allow(clippy::panic, reason = "for tests: none can go on without its guest")]
        Err(fault) => panic!("{name} does not build with lines: {fault}"),
    }
}
