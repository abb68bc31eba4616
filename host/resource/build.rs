//! Generates the message types from `proto/`, with protox, so that no `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

/// Files whose messages belong to this crate. Services are generated where they are served, in `api`.
const FILES: [&str; 10] = [
    "hashicorp/consul/resource/resource.proto",
    "hashicorp/consul/tenancy/v2beta1/tenancy.proto",
    "mortise/plugin/v1/manifest.proto",
    "mortise/v1/controller_service.proto",
    "mortise/v1/diagnostic.proto",
    "mortise/v1/plugin.proto",
    "mortise/v1/plugin_service.proto",
    "mortise/v1/server_service.proto",
    "mortise/v1/type_service.proto",
    "mortise/v1/value.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());

    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;

    prost_build::Config::new()
        // Encoding must be deterministic: stored bytes are compared.
        .btree_map(["."])
        .include_file("proto.rs")
        .service_generator(Box::new(NoServices))
        .compile_fds(descriptors)?;
    Ok(())
}

/// This crate knows no transport.
struct NoServices;

impl prost_build::ServiceGenerator for NoServices {
    fn generate(&mut self, _service: prost_build::Service, _buf: &mut String) {}
}
