//! Guests that misbehave, each in one way, and functions that build them in tests.
//!
//! Each guest is an example of this package (`examples/<name>.rs`); README.md lists them. [`build_all`] compiles all of
//! them by one call of cargo, once in a process. Most guests misbehave on request only: a resource called `boom`
//! triggers the first hook that sees it, `boom-mutate`, `boom-validate`, `boom-read` or `boom-write` only that hook,
//! and listing a namespace called `boom-list` triggers the list rule. All other names are served normally, so that
//! tests can show that a plugin continues.
//!
//! A guest's type is `<group>.v1.Thing`, where the group is the guest's name with underscores, unless README.md names
//! another; so all of them can be loaded at once.
//!
//! Wrong manifests need no compiled Rust: [`bad_manifests`] makes components around given bytes.

mortise_plugin::include_proto!(pub mod proto);
pub use proto::{
    DESCRIPTORS,
    mortise::test::v1::{Everything, Hub, Inner, Link, Node, NodePart, Safe, Thing},
};

mod fault;
#[cfg(not(target_arch = "wasm32"))]
mod host;

pub use fault::{boom, boom_list};
#[cfg(not(target_arch = "wasm32"))]
pub use host::{
    bad_manifests, build_all, change_files, component, component_with_lines, good_manifest, importing, manifest_only,
    manifest_only_for, wasi_component,
};
