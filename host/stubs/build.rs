//! Generates the gRPC services and clients: the resource API, and ours about plugins, types, controllers and the server. The messages
//! are the `resource` crate's.

use std::{env, error::Error, path::PathBuf};

const FILES: [&str; 5] = [
    "hashicorp/consul/resource/resource.proto",
    "mortise/v1/controller_service.proto",
    "mortise/v1/plugin_service.proto",
    "mortise/v1/server_service.proto",
    "mortise/v1/type_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let descriptors = protox::compile(FILES, [&root])?;
    tonic_prost_build::configure()
        .extern_path(".hashicorp.consul.resource", "::mortise_resource::pb")
        .extern_path(".mortise.plugin.v1", "::mortise_resource::manifest")
        .extern_path(".mortise.v1", "::mortise_resource::proto::mortise::v1")
        .compile_fds(descriptors)?;
    Ok(())
}
