//! Generates the gRPC service and client of the resource API. The messages are the `resource` crate's.

use std::{env, error::Error, path::PathBuf};

const FILE: &str = "hashicorp/consul/resource/resource.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let descriptors = protox::compile([FILE], [&root])?;
    tonic_prost_build::configure()
        .extern_path(".hashicorp.consul.resource", "::mortise_resource::pb")
        .extern_path(".mortise.v1", "::mortise_resource::proto::mortise::v1")
        .compile_fds(descriptors)?;
    Ok(())
}
