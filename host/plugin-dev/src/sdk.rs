//! The sources of the guest SDK, which this binary carries: rustup and `mortise` are enough to write a plugin.

use std::{fs, io, path::Path};

/// Paths and contents: a cut of the repository, with its folders in place.
pub(crate) static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// Folder of the crate `mortise-plugin` in the pack.
pub(crate) const CRATE: &str = "plugins/sdk";

/// Writes all files below a folder, and creates it.
///
/// # Errors
/// Those of the file system.
pub(crate) fn write(dir: &Path) -> io::Result<()> {
    for (path, content) in FILES {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        let found = FILES.iter().find(|(name, _)| *name == path).unwrap_or_else(|| panic!("{path} is not packed"));
        String::from_utf8(found.1.to_vec()).unwrap()
    }

    #[test]
    fn all_that_the_sdk_reads_is_packed_and_nothing_else() {
        for path in [
            "LICENSE",
            "plugins/sdk/Cargo.toml",
            "plugins/sdk/src/lib.rs",
            "plugins/sdk/src/bindings/http.rs",
            "plugins/sdk/wit/deps/http.wit",
            "host/query/src/in_memory.rs",
            "host/resource/build.rs",
            "host/resource/src/lib.rs",
            "proto/mortise/plugin/v1/manifest.proto",
            "proto/hashicorp/consul/resource/resource.proto",
            "wit/v0.1.0/world.wit",
        ] {
            assert!(!text(path).is_empty(), "{path}");
        }
        let size: usize = FILES.iter().map(|(_, content)| content.len()).sum();
        assert!((100 << 10..900 << 10).contains(&size), "{size} bytes");
        assert!(FILES.iter().all(|(path, _)| !path.starts_with("plugins/sdk/tests") && !path.contains("demo")));
    }

    #[test]
    fn the_top_manifest_is_cut_to_what_is_inherited() {
        let top = text("Cargo.toml").parse::<toml::Table>().unwrap();
        let workspace = top["workspace"].as_table().unwrap();
        let dependencies = workspace["dependencies"].as_table().unwrap();
        assert!(dependencies.contains_key("prost") && dependencies.contains_key("mortise-resource"));
        assert!(!dependencies.contains_key("wasmtime") && !top.contains_key("profile"));
        assert!(workspace.contains_key("lints") && workspace["package"].get("edition").is_some());
    }
}
