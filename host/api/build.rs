//! Generates the health service from `proto/`, with protox, and its descriptors for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.join("grpc").display());
    let files = protox::compile(["grpc/health/v1/health.proto"], [&root])?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("health.bin"), files.encode_to_vec())?;
    // The client is for tests.
    tonic_prost_build::configure().btree_map(".").compile_fds(files)?;
    Ok(())
}
