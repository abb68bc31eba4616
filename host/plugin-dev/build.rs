//! Packs the sources of the guest SDK, and all that it needs to compile outside of this repository, so that `mortise
//! plugin new` works with nothing but the binary.
//!
//! A second pack has the plugins of `examples/languages`, of which `mortise plugin new --lang` makes new ones.
//!
//! The pack is a cut of the repository with its folders in place: the SDK's paths to `wit/` and `proto/` stay valid.
//! The top Cargo.toml is cut to what these crates inherit.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

/// Packed crates: the SDK and its dependencies in this repository.
const CRATES: [&str; 3] = ["host/query", "host/resource", "plugins/sdk"];

/// Files that these crates read outside of their own folders; folders are packed whole.
const DATA: [&str; 6] = [
    "LICENSE",
    "proto/goten",
    "proto/hashicorp/consul/resource",
    "proto/hashicorp/consul/tenancy",
    "proto/mortise",
    "wit/v0.1.0",
];

/// Folder of the plugins in other languages.
const LANGUAGES: &str = "examples/languages";

/// Parts of that folder which a new plugin begins with.
const LANGUAGE_PARTS: [&str; 8] = ["c", "cases", "go", "javascript", "proto", "python", "tools", "wit"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = fs::canonicalize(PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../.."))?;
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut files = BTreeSet::new();
    for part in CRATES
        .iter()
        .flat_map(|folder| ["Cargo.toml", "build.rs", "src", "wit"].map(|part_name| format!("{folder}/{part_name}")))
    {
        collect(&root, Path::new(&part), &mut files)?;
    }
    for part in DATA {
        collect(&root, Path::new(part), &mut files)?;
    }
    let top = out.join("vendored.toml");
    fs::write(&top, workspace(&root)?)?;

    let mut table = table(&root, &files)?;
    writeln!(table, "    (\"Cargo.toml\", include_bytes!({top:?})),\n]")?;
    fs::write(out.join("sdk.rs"), table)?;
    println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
    languages(&root, &out)
}

/// Packs the plugins in other languages: what version control has, without faults on purpose and pages.
fn languages(root: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut files = BTreeSet::new();
    for part in LANGUAGE_PARTS {
        collect(root, &Path::new(LANGUAGES).join(part), &mut files)?;
    }
    let left_out = ["hostile", "README.md", "__pycache__", "/generated/", "node_modules", "message_test.go"];
    files.retain(|path| !left_out.iter().any(|part| path.contains(part)));
    let mut table = table(root, &files)?;
    table.push_str("]\n");
    fs::write(out.join("languages.rs"), table)?;
    Ok(())
}

/// Begins the source of a slice with the path and the content of each file.
fn table(root: &Path, files: &BTreeSet<String>) -> Result<String, Box<dyn Error>> {
    let mut table = String::from("&[\n");
    for path in files {
        writeln!(table, "    ({path:?}, include_bytes!({:?})),", root.join(path))?;
    }
    Ok(table)
}

/// Adds a file, or every file below a folder. A missing path is left out: not every crate has every part.
fn collect(root: &Path, part: &Path, into: &mut BTreeSet<String>) -> Result<(), Box<dyn Error>> {
    let path = root.join(part);
    if path.is_dir() {
        println!("cargo::rerun-if-changed={}", path.display());
        for entry in fs::read_dir(&path)? {
            collect(root, &part.join(entry?.file_name()), into)?;
        }
    } else if path.is_file() {
        println!("cargo::rerun-if-changed={}", path.display());
        into.insert(part.to_str().ok_or("a path is not Unicode")?.to_owned());
    }
    Ok(())
}

/// Cuts the top Cargo.toml to what the packed crates inherit.
fn workspace(root: &Path) -> Result<String, Box<dyn Error>> {
    let mut names = BTreeSet::new();
    for name in CRATES {
        let manifest = fs::read_to_string(root.join(name).join("Cargo.toml"))?.parse::<Table>()?;
        inherited(&manifest, &mut names);
    }
    let top = fs::read_to_string(root.join("Cargo.toml"))?.parse::<Table>()?;
    let mut whole = top.get("workspace").and_then(Value::as_table).ok_or("no workspace")?.clone();
    let kept = ["resolver", "package", "lints", "dependencies"];
    whole.retain(|key, _| kept.contains(&key));
    whole.insert("members".into(), CRATES.map(Value::from).to_vec().into());
    if let Some(Value::Table(dependencies)) = whole.get_mut("dependencies") {
        dependencies.retain(|name, _| names.iter().any(|used| name == used.as_str()));
    }
    let cut = Table::from_iter([("workspace".to_owned(), Value::Table(whole))]);
    Ok(format!("# A cut of Mortise's own Cargo.toml, for its plugin SDK.\n{}", toml::to_string(&cut)?))
}

/// Collects inherited dependencies, at any depth of a manifest.
fn inherited(table: &Table, names: &mut BTreeSet<String>) {
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        if key.ends_with("dependencies") {
            names.extend(inner.keys().cloned());
        } else {
            inherited(inner, names);
        }
    }
}
