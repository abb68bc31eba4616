//! Builds the demo plugin, whose types the histories write and which they reload.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    mortise_guest_build::Build::package("mortise-plugin-demo").embed("DEMO_WASM")?;
    Ok(())
}
