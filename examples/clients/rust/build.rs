//! Generates the clients from `proto/`, with protox, so that no `protoc` is needed.

const PROTO: &str = "../../../proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let files = [
        "hashicorp/consul/internal/demo/v2/demo.proto",
        "hashicorp/consul/resource/resource.proto",
        "mortise/v1/auth_service.proto",
        "mortise/v1/watch_service.proto",
    ];
    tonic_prost_build::configure()
        .build_server(false)
        .include_file("api.rs")
        .compile_fds(protox::compile(files, [PROTO])?)?;
    Ok(())
}
