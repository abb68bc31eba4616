//! Generates the messages from `proto/`. No protoc is needed.

use mortise_plugin::build::{Error, Protos};

fn main() -> Result<(), Error> {
    Protos::new().include("proto").file("dns/v1/dns.proto").run()
}
