//! Generates the message types from `proto/`, with protox, so that no `protoc` is needed.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use prost::Message;

/// The files that this crate generates from.
const FILES: [&str; 29] = [
    "goten/types/memo.proto",
    "goten/types/meta.proto",
    "goten/types/multi_region_policy.proto",
    "goten/types/selector.proto",
    "goten/types/view.proto",
    "goten/types/watch_type.proto",
    "hashicorp/consul/resource/annotations.proto",
    "hashicorp/consul/resource/resource.proto",
    "hashicorp/consul/tenancy/v2beta1/tenancy.proto",
    "mortise/plugin/v1/manifest.proto",
    "mortise/probe/v1/probes.proto",
    "mortise/v1/acl.proto",
    "mortise/v1/auth_service.proto",
    "mortise/v1/change_service.proto",
    "mortise/v1/controller_service.proto",
    "mortise/v1/diagnostic.proto",
    "mortise/v1/function_service.proto",
    "mortise/v1/ownership.proto",
    "mortise/v1/ownership_service.proto",
    "mortise/v1/plugin.proto",
    "mortise/v1/plugin_service.proto",
    "mortise/v1/private_bytes.proto",
    "mortise/v1/query_service.proto",
    "mortise/v1/reference.proto",
    "mortise/v1/region_service.proto",
    "mortise/v1/server_service.proto",
    "mortise/v1/type_service.proto",
    "mortise/v1/value.proto",
    "mortise/v1/watch_service.proto",
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
        // A resource is moved often, and looked into seldom.
        .boxed(".hashicorp.consul.resource.Resource.meta")
        .extern_path(".google.protobuf.FileDescriptorSet", "crate::descriptors::FileDescriptorSet")
        .include_file("proto.rs")
        .service_generator(Box::new(NoServices))
        .compile_fds(descriptors.clone())?;
    generate_grpc(descriptors, &out.join("grpc"))
}

/// Service discovery: the APIs of proxies and the catalog's messages behind them. Plugins are built without them.
#[cfg(feature = "grpc")]
const DISCOVERY: [&str; 5] = [
    "conduit/destination.proto",
    "linkerd/destination.proto",
    "linkerd/identity.proto",
    "linkerd/inbound.proto",
    "linkerd/outbound.proto",
];
#[cfg(feature = "grpc")]
const CATALOG: &str = "catalog/v1/catalog.proto";

/// Generates the clients and servers of every service, for the messages above, and service discovery.
#[cfg(feature = "grpc")]
fn generate_grpc(descriptors: prost_types::FileDescriptorSet, out: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    tonic_prost_build::configure()
        .out_dir(out)
        .extern_path(".goten.types", "crate::goten")
        .extern_path(".hashicorp.consul.resource", "crate::pb")
        .extern_path(".mortise.plugin.v1", "crate::manifest")
        .extern_path(".mortise.probe.v1", "crate::probes")
        .extern_path(".mortise.v1", "crate::data")
        .compile_fds(descriptors)?;

    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    fs::write(out.join("discovery.bin"), protox::compile(DISCOVERY, [&root])?.encode_to_vec())?;
    let files = DISCOVERY.into_iter().chain([CATALOG]);
    tonic_prost_build::configure()
        .out_dir(out)
        .include_file("discovery.rs")
        .btree_map(".")
        .compile_fds(protox::compile(files, [root])?)?;
    Ok(())
}

/// Does nothing: without the feature `grpc` this crate has no transport.
#[cfg(not(feature = "grpc"))]
fn generate_grpc(_descriptors: prost_types::FileDescriptorSet, _out: &Path) -> Result<(), Box<dyn Error>> {
    Ok(())
}

/// Leaves the services out of the generated messages; they are behind the feature `grpc`.
struct NoServices;

impl prost_build::ServiceGenerator for NoServices {
    fn generate(&mut self, _service: prost_build::Service, _buf: &mut String) {}
}
