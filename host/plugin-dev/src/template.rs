//! The files of a new plugin, which this binary carries, with placeholders for its names.
//!
//! A placeholder is a name in double braces, and is replaced everywhere. No file has a condition or a loop, so a
//! template engine would add nothing but an escape for the braces of Rust's own formats.

use crate::{lockfile, names::Names};

const HOOKS: &str = include_str!("../template/hooks.rs");

/// Path and content of a file; the path has placeholders, too.
type TemplateFile = (&'static str, &'static str);

/// Files of every plugin.
const COMMON: [TemplateFile; 6] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    (".gitignore", include_str!("../template/gitignore")),
    ("README.md", include_str!("../template/README.md")),
    ("build.rs", include_str!("../template/build.rs")),
    ("proto/{{proto}}", include_str!("../template/message.proto")),
    ("tests/cases/hooks.yaml", include_str!("../template/cases/hooks.yaml")),
];

/// Further files of a plugin with a reconciler.
const RECONCILER: [TemplateFile; 2] = [
    ("src/controller.rs", include_str!("../template/reconciler/controller.rs")),
    ("tests/cases/reconciler.yaml", include_str!("../template/cases/reconciler.yaml")),
];

/// Builds the paths and contents of a new plugin's files. `sdk` is the path of the crate `mortise-plugin`.
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
    files.push(("Cargo.lock".into(), lockfile::lock_file(&names.plugin)));
    files
}

/// Replaces the placeholders.
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
}
