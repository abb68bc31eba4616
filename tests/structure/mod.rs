//! The claims of docs/architecture.md and CONTRIBUTING.md about the code: the order of the crates, no ring of imports
//! longer than two files, no ring of folders, no file over 500 lines. `planted` shows that each check finds a fault.

mod imports;
mod planted;
mod rings;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use self::{
    imports::{Crate, Files},
    rings::rings,
};

/// Lines of the longest file.
const MOST_LINES: usize = 500;

/// Names that a field must not have.
const EMPTY_NAMES: [&str; 6] = ["of", "at", "one", "some", "said", "told"];

/// Folders of the repository's own Rust.
const OWN: [&str; 6] = ["host", "plugins", "tests", "bench", "fuzz", "proof"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads the files below `folder` whose name ends so, by path. Skips what cargo builds.
fn files_below(folder: &Path, ending: &str) -> Files {
    let mut found = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !name.ends_with("target") {
                folders.push(path);
            } else if name.ends_with(ending) && path.is_file() {
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Crates by folder below the top, with the root of each, and its sources.
fn crates() -> Vec<(String, &'static str, Files)> {
    let mut crates = Vec::new();
    for own in OWN {
        for manifest in files_below(&top().join(own), "Cargo.toml").into_keys() {
            let folder = Path::new(own).join(manifest).parent().unwrap().to_str().unwrap().to_owned();
            let sources = top().join(&folder).join("src");
            let files = if sources.is_dir() { files_below(&sources, ".rs") } else { Files::new() };
            let roots = ["lib.rs", "main.rs"].into_iter().filter(|root| files.contains_key(*root));
            crates.extend(roots.map(|root| (folder.clone(), root, files.clone())));
        }
    }
    crates
}

/// Names of the crates in the page's table, from the lowest up.
fn order_of_crates(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `mortise"));
    rows.filter_map(|row| Some(format!("mortise{}", row.split_once('`')?.0))).collect()
}

/// Lists crates outside the table, and uses of a crate that does not stand above its user. `manifests` are Cargo.toml
/// files by folder.
fn upward_uses(page: &str, manifests: &Files) -> Vec<String> {
    let order = order_of_crates(page);
    let place = |name: &str| order.iter().position(|other| other == name);
    let tables: Vec<toml::Table> = manifests.values().map(|text| text.parse().unwrap()).collect();
    let name = |table: &toml::Table| table["package"]["name"].as_str().unwrap().to_owned();
    let names: BTreeSet<String> = tables.iter().map(name).collect();
    let mut faults = Vec::new();
    for table in &tables {
        let name = name(table);
        let used = table.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
        for used in used.filter(|used| names.contains(*used)) {
            if place(used) >= place(&name) {
                faults.push(format!("{name} uses {used}, which does not stand above it"));
            }
        }
    }
    faults.extend(names.iter().filter(|name| place(name).is_none()).map(|name| format!("{name} is not in the table")));
    faults.extend(
        order.iter().filter(|name| !names.contains(*name)).map(|name| format!("the table's {name} is no crate")),
    );
    faults
}

/// Lists the rings of three and more files: sets of files that all reach each other.
fn file_rings(files: &Files, root: &str) -> Vec<String> {
    rings(&Crate::read(files, root).uses(), 3)
}

/// Lists the rings of folders that stand side by side. A module's file belongs to the folder of its children.
fn folder_rings(files: &Files, root: &str) -> Vec<String> {
    let read = Crate::read(files, root);
    let mut module_of: BTreeMap<&String, &Vec<String>> = BTreeMap::new();
    for (module, file) in &read.modules {
        // Modules within a file come behind the file's own.
        module_of.entry(file).or_insert(module);
    }
    let is_folder = |module: &[String]| module_of.values().any(|m| m.len() > module.len() && m.starts_with(module));
    let between = read.uses().into_iter().filter_map(|(user, used)| {
        let (user, used) = (module_of.get(&user)?, module_of.get(&used)?);
        let same = user.iter().zip(used.iter()).take_while(|(a, b)| a == b).count();
        let (user, used) = (user.get(..=same)?, used.get(..=same)?);
        (is_folder(user) && is_folder(used)).then(|| (user.join("/"), used.join("/")))
    });
    rings(&between.collect(), 2)
}

/// Lists the fields named by a preposition or a participle, which say nothing where they are read.
fn empty_names(files: &Files) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, text) in files {
        let mut open = false;
        for (number, line) in (1..).zip(text.lines()) {
            let words = line.trim_start();
            let words = words.strip_prefix("pub ").unwrap_or(words);
            let words =
                words.split_once(") ").filter(|(head, _)| head.starts_with("pub(")).map_or(words, |(_, rest)| rest);
            open = (open || words.starts_with("struct ") && words.ends_with('{')) && !words.starts_with('}');
            if open
                && EMPTY_NAMES.iter().any(|name| words.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ")))
            {
                faults.push(format!("{file}:{number}: {words}"));
            }
        }
    }
    faults
}

/// Lists the files of too many lines.
fn long_files(files: &Files) -> Vec<String> {
    let lines = files.iter().map(|(file, text)| (file, text.lines().count()));
    lines.filter(|(_, lines)| *lines > MOST_LINES).map(|(file, lines)| format!("{file}: {lines} lines")).collect()
}

fn assert_none(faults: &[String], advice: &str) {
    assert!(faults.is_empty(), "{}\n{advice}", faults.join("\n"));
}

fn assert_no_crate_has(rings: fn(&Files, &str) -> Vec<String>, advice: &str) {
    let of = |(folder, root, files): (String, &'static str, Files)| {
        rings(&files, root).into_iter().map(move |ring| format!("{folder}/src: {ring}"))
    };
    assert_none(&crates().into_iter().flat_map(of).collect::<Vec<_>>(), advice);
}

#[test]
fn host_crates_use_those_above_them() {
    let page = fs::read_to_string(top().join("docs/architecture.md")).unwrap();
    let manifests = files_below(&top().join("host"), "Cargo.toml");
    assert!(manifests.len() > 15, "the manifests are read: {}", manifests.len());
    assert_none(&upward_uses(&page, &manifests), "Mend the use, or the table's order in docs/architecture.md.");
}

#[test]
fn files_form_no_ring_longer_than_two() {
    assert_no_crate_has(
        file_rings,
        "Move the shared type down into a file of its own, or the function up to its caller.",
    );
}

#[test]
fn folders_form_no_ring() {
    assert_no_crate_has(folder_rings, "Move the shared file into the folder that is used, or one level up.");
}

/// Sources of the repository by path.
fn sources() -> Files {
    let files: Files = OWN
        .iter()
        .flat_map(|own| {
            files_below(&top().join(own), ".rs").into_iter().map(move |(file, text)| (format!("{own}/{file}"), text))
        })
        .collect();
    assert!(files.len() > 1000, "the files are read: {}", files.len());
    files
}

#[test]
fn no_file_is_longer_than_500_lines() {
    assert_none(&long_files(&sources()), "Split the file by subject.");
}

#[test]
fn no_field_has_an_empty_name() {
    assert_none(&empty_names(&sources()), "Name the field by its content: a noun of the field.");
}

/// Lists the crates that have planted faults by default, or that turn them on in others outside of the feature.
fn planted_by_default(manifests: &Files) -> Vec<String> {
    const FEATURE: &str = "planted-faults";
    let mut faults = Vec::new();
    for (file, text) in manifests {
        let table: toml::Table = text.parse().unwrap();
        let names = |value: &toml::Value| value.to_string().contains(FEATURE);
        let features = table.get("features").and_then(toml::Value::as_table);
        for (feature, enabled) in features.into_iter().flatten().filter(|(feature, _)| *feature != FEATURE) {
            faults.extend(names(enabled).then(|| format!("{file}: the feature {feature} has planted faults")));
        }
        for (section, content) in table.iter().filter(|(section, _)| *section != "features") {
            faults.extend(names(content).then(|| format!("{file}: [{section}] has planted faults")));
        }
    }
    faults
}

#[test]
fn no_build_has_planted_faults_by_default() {
    let mut manifests = files_below(&top().join("host"), "Cargo.toml");
    for folder in ["plugins", "tests", "bench", "fuzz", "proof", "examples"] {
        let below = files_below(&top().join(folder), "Cargo.toml");
        manifests.extend(below.into_iter().map(|(file, text)| (format!("{folder}/{file}"), text)));
    }
    manifests.insert("Cargo.toml".to_owned(), fs::read_to_string(top().join("Cargo.toml")).unwrap());
    let planted = manifests.values().filter(|text| text.contains("planted-faults")).count();
    assert!(planted >= 3, "the manifests are read: {planted}");
    assert_none(&planted_by_default(&manifests), "Turn the feature on by hand: cargo build --features planted-faults.");
}
