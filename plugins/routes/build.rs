//! Generates the message types from `proto/`.

use mortise_plugin::build::{Error, Protos};

fn main() -> Result<(), Error> {
    Protos::new().include("../../proto").file("edge/v1/route.proto").file("catalog/v1/catalog.proto").run()
}
