//! Environment variables of a guest's compilation.
//!
//! An outer cargo sets many variables for its own build: flags for the host, the clippy driver as a wrapper, the target
//! directory whose lock it holds, its jobserver. With any of them a guest would differ from one compiled by hand, be
//! linted instead of compiled, or wait for ever. Variables that say *where things are* (toolchain, registries, proxies)
//! stay.

use std::{env, ffi::OsString, process::Command};

/// Names that stay although their prefix is dropped.
const KEPT_VARIABLES: [&str; 2] = ["CARGO_HOME", "RUSTC"];

/// Prefixes that stay: sources of crates.
const KEPT_PREFIXES: [&str; 6] =
    ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_", "CARGO_SOURCE_", "CARGO_CREDENTIAL_"];

/// Names that are dropped: facts about the outer build for build scripts and tests, and the outer jobserver. Waiting
/// for its tokens while it waits for this build would be a deadlock, so the inner cargo makes its own.
const DROPPED_VARIABLES: [&str; 11] = [
    "CARGO",
    "DEBUG",
    "HOST",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "TARGET",
];

/// Prefixes that are dropped: everything that changes the output.
const DROPPED_PREFIXES: [&str; 7] = ["CARGO_", "CLIPPY_", "DEP_", "RUSTC_", "RUSTDOC", "RUSTFLAGS", "__CARGO_"];

/// Whether a variable is removed from the guest's compilation.
fn is_dropped(name: &str) -> bool {
    // A linker for the host: build scripts and procedural macros of the guest's dependencies need it.
    let linker = name.starts_with("CARGO_TARGET_") && name.ends_with("_LINKER");
    let kept = linker || KEPT_VARIABLES.contains(&name) || KEPT_PREFIXES.iter().any(|family| name.starts_with(family));
    let dropped = DROPPED_VARIABLES.contains(&name) || DROPPED_PREFIXES.iter().any(|family| name.starts_with(family));
    dropped && !kept
}

/// Removes the variables that would affect the guest.
pub(crate) fn remove_outer_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_dropped) {
            command.env_remove(name);
        }
    }
}

/// The program that a variable names, or `default`.
pub(crate) fn program(variable: &str, default: &str) -> OsString {
    env::var_os(variable).filter(|value| !value.is_empty()).unwrap_or_else(|| default.into())
}

#[cfg(test)]
mod tests {
    use super::is_dropped;

    #[test]
    fn the_outer_build_goes() {
        for name in [
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_MANIFEST_DIR",
            "CARGO_MAKEFLAGS",
            "CARGO_INCREMENTAL",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
            "RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_LINKER",
            "RUSTDOCFLAGS",
            "RUSTDOC",
            "CLIPPY_ARGS",
            "MAKEFLAGS",
            "TARGET",
            "PROFILE",
            "OUT_DIR",
            "DEP_Z_INCLUDE",
            "__CARGO_FIX_PLZ",
        ] {
            assert!(is_dropped(name), "{name}");
        }
    }

    #[test]
    fn where_things_are_stays() {
        for name in [
            "CARGO_HOME",
            "RUSTC",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "PATH",
            "HTTPS_PROXY",
            "https_proxy",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_CAINFO",
            "CARGO_REGISTRIES_CORP_INDEX",
            "CARGO_REGISTRY_DEFAULT",
            "CARGO_SOURCE_CRATES_IO_REPLACE_WITH",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
            "TARGETS",
            "HOSTNAME",
            "DEBUGINFOD_URLS",
            "SSL_CERT_FILE",
        ] {
            assert!(!is_dropped(name), "{name}");
        }
    }
}
