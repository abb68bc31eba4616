//! The files of a new plugin, which this binary carries, with places for its names.

use crate::names::Names;

/// What the versions of the template's dependencies are: those that this version was tested with.
const LOCK: &str = include_str!("../template/Cargo.lock.in");

const HOOKS: &str = include_str!("../template/hooks.rs");

/// A file: its path, which has places too, and its content.
type TemplateFile = (&'static str, &'static str);

/// What every plugin has.
const COMMON: [TemplateFile; 6] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    (".gitignore", include_str!("../template/gitignore")),
    ("README.md", include_str!("../template/README.md")),
    ("build.rs", include_str!("../template/build.rs")),
    ("proto/{{proto}}", include_str!("../template/message.proto")),
    ("tests/cases/hooks.yaml", include_str!("../template/cases/hooks.yaml")),
];

/// What one with a reconciler has besides.
const RECONCILER: [TemplateFile; 2] = [
    ("src/controller.rs", include_str!("../template/reconciler/controller.rs")),
    ("tests/cases/reconciler.yaml", include_str!("../template/cases/reconciler.yaml")),
];

/// Paths and contents of the files of a new plugin. `sdk` is the path of the crate `mortise-plugin`.
pub(crate) fn files(names: &Names, with_reconciler: bool, sdk: &str) -> Vec<(String, String)> {
    let library = if with_reconciler {
        include_str!("../template/reconciler/lib.rs")
    } else {
        include_str!("../template/plain/lib.rs")
    };
    let mut parts = COMMON.to_vec();
    if with_reconciler {
        parts.extend(RECONCILER);
    }
    let mut files: Vec<_> =
        parts.into_iter().map(|(path, text)| (fill(path, names, sdk), fill(text, names, sdk))).collect();
    files.push(("src/lib.rs".into(), fill(&format!("{library}{HOOKS}"), names, sdk)));
    files.push(("Cargo.lock".into(), lock(&names.plugin)));
    files
}

/// Puts names in their places.
fn fill(text: &str, names: &Names, sdk: &str) -> String {
    let places = [
        ("{{name}}", names.plugin.clone()),
        ("{{crate}}", names.plugin.replace('-', "_")),
        ("{{type}}", names.type_name()),
        ("{{group}}", names.group.clone()),
        ("{{version}}", names.version.clone()),
        ("{{kind}}", names.kind.clone()),
        ("{{message}}", names.message()),
        ("{{package}}", format!("{}.{}", names.group, names.version)),
        ("{{module}}", format!("{}::{}", names.group, names.version)),
        ("{{proto}}", names.proto()),
        ("{{controller}}", names.controller()),
        ("{{sdk}}", sdk.to_owned()),
    ];
    places.into_iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, &name))
}

/// The lock file of a crate of that name: packages stand in the order of their names.
fn lock(name: &str) -> String {
    let own =
        format!("\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n \"mortise-plugin\",\n \"prost\",\n]\n");
    let mut packages = LOCK.split("\n[[package]]").map(str::to_owned);
    let head = packages.next().unwrap_or_default();
    let mut packages: Vec<String> = packages.map(|one| one.trim_end().to_owned() + "\n").collect();
    let place = packages.iter().position(|one| package_name(one) > name).unwrap_or(packages.len());
    packages.insert(place, own);
    format!("{}\n\n[[package]]{}", head.trim_end(), packages.join("\n[[package]]"))
}

fn package_name(package: &str) -> &str {
    package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap_or_default()
}

/// Whether a crate of that name is among the template's dependencies.
pub(crate) fn is_dependency(name: &str) -> bool {
    LOCK.split("\n[[package]]").skip(1).any(|package| package_name(package) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_left_empty() {
        let names = Names::new("guest-book", None).unwrap();
        for with_reconciler in [false, true] {
            for (path, text) in files(&names, with_reconciler, "vendor/mortise/plugins/sdk") {
                assert!(!path.contains("{{") && !text.contains("{{"), "{path}: {text}");
                assert!(text.ends_with('\n'), "{path}");
            }
        }
    }

    #[test]
    fn the_lock_file_has_the_versions_of_the_workspace() {
        let whole = include_str!("../../../Cargo.lock");
        let known: Vec<_> = whole.split("\n[[package]]").skip(1).map(heading).collect();
        for package in LOCK.split("\n[[package]]").skip(1).map(heading) {
            assert!(
                known.contains(&package),
                "{package:?} is not in the workspace's Cargo.lock: delete template/Cargo.lock.in's entries and let cargo \
                 write them anew in a new plugin"
            );
        }
    }

    /// Name and version.
    fn heading(package: &str) -> String {
        package.lines().filter(|line| line.starts_with("name") || line.starts_with("version")).collect()
    }

    #[test]
    fn the_new_crate_stands_in_order() {
        for name in ["aaa", "guest-book", "zzz"] {
            let text = lock(name);
            let names: Vec<_> = text.split("\n[[package]]").skip(1).map(package_name).collect();
            assert!(names.is_sorted() && names.contains(&name), "{names:?}");
        }
    }
}
