//! Builds the plugins whose types the histories write: the demo plugin, which they reload, and a guest of the tests,
//! whose resources refer to each other, are moved and are imported.

use std::{env, error::Error, path::Path};

use mortise_guest_build::Build;

fn main() -> Result<(), Box<dyn Error>> {
    Build::package("mortise-plugin-demo").embed("DEMO_WASM")?;
    // A folder of its own, since a build of one guest removes the others from theirs.
    let out = Path::new(&env::var("OUT_DIR")?).join("guests");
    Build::manifest_dir("../tests/guests").example("references").out_dir(out).embed("REFERENCES_WASM")?;
    Ok(())
}
