//! For tests: where the components are, and components made of bytes.

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
        #[allow(clippy::panic, reason = "for tests: none can go on without its guests")]
        Err(fault) => panic!("the test guests do not build: {fault}"),
    })
}

/// Compiles every guest and answers the directory that holds `<name>.wasm` for each, and nothing else. The artifacts
/// are shared by all test binaries of the workspace; once per process, cargo looks whether any is stale.
///
/// # Panics
/// When the guests do not compile.
#[must_use]
pub fn build_all() -> &'static Path {
    &built().dir
}

/// One guest's component.
///
/// # Panics
/// When the guests do not compile, or when there is no such guest.
#[must_use]
pub fn component(name: &str) -> PathBuf {
    match built().component(name) {
        Some(path) => path.to_owned(),
        #[allow(clippy::panic, reason = "for tests: a slip of the pen")]
        None => panic!("there is no test guest {name:?}; see tests/guests/README.md"),
    }
}

/// The component of a guest that is built for wasm32-wasip2, with all of the standard library in it. Each is built when
/// it is asked for.
///
/// # Panics
/// When it does not compile, or there is no such guest.
#[must_use]
pub fn wasi_component(name: &str) -> PathBuf {
    let build = Build::manifest_dir(env!("CARGO_MANIFEST_DIR")).target(Target::WasiP2).example(name);
    // Not swept: others may want another guest meanwhile.
    let out = built().dir.with_file_name("wasi-guests");
    match build.out_dir(out).run() {
        #[allow(clippy::panic, reason = "for tests: a slip of the pen")]
        Ok(built) => built.component(name).unwrap_or_else(|| panic!("there is no test guest {name:?}")).to_owned(),
        #[allow(clippy::panic, reason = "for tests: none can go on without its guests")]
        Err(fault) => panic!("the test guest {name} does not build for wasm32-wasip2: {fault}"),
    }
}

/// One guest's component with files and line numbers (DWARF) in it, compiled anew if need be.
///
/// # Panics
/// When the guest does not compile, or when there is none of that name.
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
