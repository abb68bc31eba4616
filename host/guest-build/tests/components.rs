//! Real builds: of a package of this workspace, and of a crate outside of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of what clippy takes for tests")]

use std::{fs, path::Path};

use mortise_guest_build::{Build, Error};
use wasmparser::{ComponentExternalKind, Parser, Payload};

/// Exported and imported instances of a component.
fn surface(component: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut exports, mut imports, mut depth) = (Vec::new(), Vec::new(), 0);
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.unwrap();
                    assert_eq!(export.kind, ComponentExternalKind::Instance);
                    exports.push(export.name.name.to_owned());
                }
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                imports.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
            }
            _ => {}
        }
    }
    exports.sort();
    imports.sort();
    (exports, imports)
}

#[test]
fn a_plugin_of_this_workspace() {
    let built = Build::package("mortise-plugin-demo").run().unwrap();
    let path = built.component("mortise-plugin-demo").unwrap();
    let bytes = fs::read(path).unwrap();
    let (exports, imports) = surface(&bytes);
    let names = |names: &[&str]| names.iter().map(|name| format!("mortise:plugin/{name}@0.1.0")).collect::<Vec<_>>();
    assert_eq!(exports, names(&["authorizing", "controlling", "mutating", "plugin", "validating"]));
    assert_eq!(imports, names(&["authorizer", "failures", "log", "resources", "types"]));

    let here = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_str().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(here), "the component knows where it was built");
    assert!(!text.contains(".cargo/registry"), "the component knows whose machine it was built on");
    assert!(bytes.len() < 256 * 1024, "{} bytes", bytes.len());

    let inputs = built.inputs.iter().filter_map(|path| path.to_str()).collect::<Vec<_>>();
    for expected in
        ["plugins/demo/src/lib.rs", "plugins/sdk/src/lib.rs", "plugins/demo/Cargo.toml", "Cargo.lock", "world.wit"]
    {
        assert!(inputs.iter().any(|input| input.ends_with(expected)), "{expected} is not among {inputs:#?}");
    }
}

/// Writes a crate without dependencies, outside any workspace.
fn write_crate(dir: &Path, crate_type: &str, source: &str) {
    let manifest = format!(
        "[package]\nname = \"lonely\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [lib]\ncrate-type = [\"{crate_type}\"]\n[workspace]\n"
    );
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    fs::write(dir.join("src/lib.rs"), source).unwrap();
}

#[test]
fn a_crate_outside_brings_no_profile() {
    let dir = tempfile::tempdir().unwrap();
    write_crate(dir.path(), "cdylib", "");
    let built = Build::manifest_dir(dir.path()).target_dir(dir.path().join("out")).run().unwrap();
    let (exports, imports) = surface(&fs::read(built.component("lonely").unwrap()).unwrap());
    assert_eq!((exports, imports), (vec![], vec![]));
}

#[test]
fn what_the_compiler_says_is_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    write_crate(dir.path(), "cdylib", "fn wrong() -> u8 { \"text\" }");
    let error = Build::manifest_dir(dir.path()).target_dir(dir.path().join("out")).run().unwrap_err();
    assert!(matches!(&error, Error::Compile { .. }), "{error}");
    assert!(error.to_string().contains("mismatched types"), "{error}");
}

#[test]
fn a_library_is_no_plugin() {
    let dir = tempfile::tempdir().unwrap();
    write_crate(dir.path(), "rlib", "");
    let error = Build::manifest_dir(dir.path()).target_dir(dir.path().join("out")).run().unwrap_err();
    assert!(error.to_string().contains("crate-type = [\"cdylib\"]"), "{error}");
}

#[test]
fn an_unknown_package() {
    let error = Build::package("mortise-plugin-nowhere").run().unwrap_err();
    assert!(error.to_string().starts_with("the package `mortise-plugin-nowhere` is not in"), "{error}");
}

/// A crate whose component has this text, and the name of its source file.
fn with_text(text: &str) -> String {
    format!(
        "const TEXT: &[u8] = concat!({text:?}, \" in \", file!()).as_bytes();
        #[used]
        #[unsafe(link_section = \"text\")]
        static KEPT: [u8; TEXT.len()] = {{
            let mut kept = [0; TEXT.len()];
            let mut place = 0;
            while place < kept.len() {{
                kept[place] = TEXT[place];
                place += 1;
            }}
            kept
        }};"
    )
}

fn has(component: &Path, text: &str) -> bool {
    String::from_utf8_lossy(&fs::read(component).unwrap()).contains(text)
}

#[test]
fn the_same_sources_in_two_folders_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for lines in [false, true] {
        let build = |folder: &str| {
            let folder = dir.path().join(folder);
            write_crate(&folder, "cdylib", &with_text("it is"));
            let build = Build::manifest_dir(&folder).target_dir(folder.join("out"));
            let built = if lines { build.lines() } else { build }.run().unwrap();
            fs::read(built.component("lonely").unwrap()).unwrap()
        };
        let (one, other) = (build("one"), build("other/deeper"));
        assert!(one == other, "with lines: {lines}");
        let text = String::from_utf8_lossy(&one);
        assert!(text.contains("it is in src/lib.rs"), "with lines: {lines}");
        assert!(!text.contains(dir.path().to_str().unwrap()), "with lines: {lines}");
    }
}

#[test]
fn a_package_of_the_same_name_in_another_folder_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let folders = ["one", "other"].map(|name| dir.path().join(name));
    // Both are older than each build, so that cargo would take either for compiled.
    for (folder, text) in folders.iter().zip(["first", "second"]) {
        write_crate(folder, "cdylib", &with_text(text));
    }
    for _ in 0..2 {
        for (folder, text) in folders.iter().zip(["first", "second"]) {
            let built = Build::manifest_dir(folder).target_dir(dir.path().join("shared")).run().unwrap();
            assert!(has(built.component("lonely").unwrap(), &format!("{text} in src/lib.rs")), "{text}");
        }
    }
}

#[test]
fn packages_that_share_a_target_directory_compile_their_dependencies_once() {
    let dir = tempfile::tempdir().unwrap();
    let common = dir.path().join("common");
    write_crate(&common, "rlib", "pub const TEXT: &str = \"shared\";");
    let manifest = fs::read_to_string(common.join("Cargo.toml")).unwrap().replace("lonely", "common");
    fs::write(common.join("Cargo.toml"), manifest).unwrap();
    let shared = dir.path().join("shared");
    let compiled = || {
        let all = fs::read_dir(shared.join("wasm32-unknown-unknown/guest/deps")).unwrap();
        let libraries = all.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("libcommon"));
        libraries.map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap())).collect::<Vec<_>>()
    };
    let mut before = Vec::new();
    for name in ["one", "other", "one"] {
        let folder = dir.path().join(name);
        write_crate(&folder, "cdylib", "pub use common::TEXT;");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap().replace("lonely", name);
        fs::write(folder.join("Cargo.toml"), manifest + "[dependencies]\ncommon = { path = \"../common\" }\n").unwrap();
        Build::manifest_dir(&folder).target_dir(&shared).unlocked().run().unwrap();
        let now = compiled();
        assert!(!now.is_empty() && (before.is_empty() || before == now), "{name}: {before:?} {now:?}");
        before = now;
    }
}
