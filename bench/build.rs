//! Builds the demo plugin, whose hooks are measured.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    mortise_guest_build::Build::package("mortise-plugin-demo").embed("DEMO_WASM")?;
    Ok(())
}
