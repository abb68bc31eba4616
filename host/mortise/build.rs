//! Builds the bundled plugins, which are compiled into the binary.

use std::error::Error;

use mortise_guest_build::Build;

fn main() -> Result<(), Box<dyn Error>> {
    Build::package("mortise-plugin-demo").embed("DEMO_WASM")?;
    Build::package("mortise-plugin-catalog").embed("CATALOG_WASM")?;
    Build::package("mortise-plugin-routes").embed("ROUTES_WASM")?;
    Ok(())
}
