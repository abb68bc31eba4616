//! Generates the guests' message.

use mortise_plugin::build::{Error, Protos};

fn main() -> Result<(), Error> {
    Protos::new()
        .include("proto")
        .include("../../proto")
        .file("mortise/test/v1/thing.proto")
        .file("mortise/test/v1/everything.proto")
        .file("mortise/test/v1/node.proto")
        .file("mortise/test/v1/placed.proto")
        .file("hashicorp/consul/internal/demo/v2/demo.proto")
        .run()
}
