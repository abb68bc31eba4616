//! Generates the message types from `proto/`.

use mortise_plugin::build::{Error, Protos};

fn main() -> Result<(), Error> {
    Protos::new()
        .include("../../proto")
        .file("hashicorp/consul/internal/demo/v1/demo.proto")
        .file("hashicorp/consul/internal/demo/v2/demo.proto")
        .run()
}
