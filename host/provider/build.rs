//! Generates the messages and services of the provider protocol from `proto/`, with protox.

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    for folder in ["tfplugin6", "goplugin"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    let files = protox::compile(["tfplugin6/provider.proto", "goplugin/plugin.proto"], [&root])?;
    // The client is for tests, which play the part of core.
    tonic_prost_build::configure().btree_map(".").compile_fds(files)?;
    Ok(())
}
