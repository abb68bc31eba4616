//! Makes the descriptors of the catalog's messages from `proto/`, with protox: `catalog load -o yaml` asks no server.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.join("catalog").display());
    let files = protox::compile(["catalog/v1/catalog.proto"], [&root])?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("catalog.bin"), files.encode_to_vec())?;
    Ok(())
}
