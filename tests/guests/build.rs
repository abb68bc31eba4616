//! Generates the guests' message.

use mortise_plugin::build::{Error, Protos};

fn main() -> Result<(), Error> {
    Protos::new().include("proto").file("mortise/test/v1/thing.proto").run()
}
