//! Names the build, in which the unit tests of the store's files have no place: they run without a scheduler.

#[allow(clippy::print_stdout, reason = "cargo reads the standard output")]
fn main() {
    println!("cargo::rustc-cfg=simulation");
    println!("cargo::rerun-if-changed=build.rs");
}
