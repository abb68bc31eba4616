//! The files of a new plugin in a language other than Rust: those of `examples/languages`, which this binary carries,
//! with the names of the new plugin in place of the example's.
//!
//! The example is a program that CI builds and serves, so it has no placeholders. Its names are replaced instead: the
//! type, the plugin, the message and its variables. Lines about the faults on purpose of `.ci/languages` are left out.

use clap::ValueEnum;
use heck::{ToShoutySnakeCase as _, ToSnakeCase as _};
use mortise_cli::CliError;

use crate::{fault, names::Names, sdk};

/// Paths and contents: a cut of the repository, with its folders in place.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/languages.rs"));

/// Folder of the examples in the repository.
const EXAMPLES: &str = "examples/languages/";

/// Folder of the contract in a new plugin.
const CONTRACT: &str = "contract";

/// Files of every plugin that the examples lack, with placeholders.
const COMMON: [(&str, &str); 4] = [
    ("README.md", include_str!("../template/languages/README.md")),
    ("mortise.toml", include_str!("../template/languages/mortise.toml")),
    ("contract/layout", include_str!("../template/languages/layout")),
    (".gitignore", include_str!("../template/gitignore")),
];

/// Names of variables, files and keywords in the examples or their languages, which the message of a new plugin would
/// collide with.
const TAKEN: &[&str] = &[
    "address",
    "addresses",
    "and",
    "app",
    "as",
    "assert",
    "async",
    "at",
    "auto",
    "await",
    "bool",
    "break",
    "bytes",
    "case",
    "catch",
    "chan",
    "char",
    "class",
    "condition",
    "const",
    "constructor",
    "context",
    "continue",
    "contract",
    "controller",
    "count",
    "data",
    "def",
    "default",
    "defer",
    "del",
    "delete",
    "diagnostics",
    "do",
    "double",
    "elif",
    "else",
    "enum",
    "error",
    "except",
    "exports",
    "extern",
    "fallthrough",
    "false",
    "field",
    "fields",
    "finally",
    "float",
    "for",
    "from",
    "func",
    "function",
    "generated",
    "global",
    "go",
    "goto",
    "host",
    "if",
    "import",
    "in",
    "info",
    "int",
    "interface",
    "interval",
    "is",
    "key",
    "lambda",
    "length",
    "long",
    "manifest",
    "map",
    "message",
    "messages",
    "model",
    "mortise",
    "name",
    "native",
    "new",
    "nil",
    "none",
    "not",
    "null",
    "one",
    "or",
    "package",
    "pass",
    "place",
    "plugin",
    "poll",
    "prior",
    "program",
    "raise",
    "range",
    "register",
    "require",
    "resource",
    "rest",
    "return",
    "rules",
    "said",
    "select",
    "short",
    "signed",
    "sizeof",
    "static",
    "status",
    "string",
    "struct",
    "super",
    "switch",
    "taken",
    "text",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typedef",
    "typeof",
    "union",
    "unsigned",
    "utf8",
    "var",
    "version",
    "void",
    "volatile",
    "while",
    "wire",
    "with",
    "yield",
];

/// A language of new plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    #[default]
    Rust,
    C,
    Go,
    #[value(alias = "js")]
    Javascript,
    #[value(alias = "py")]
    Python,
}

impl Language {
    /// Returns the folder of the example, which is also the language's argument of `tools`.
    fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
            Self::Go => "go",
            Self::Javascript => "javascript",
            Self::Python => "python",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Go => "Go",
            Self::Javascript => "JavaScript",
            Self::Python => "Python",
        }
    }

    /// Returns what an author installs first.
    fn needs(self) -> &'static str {
        match self {
            Self::Rust => "rustup",
            Self::C => "Rust's cargo, and Python's pip",
            Self::Go => "Go 1.25 or newer, Rust's cargo, and Python's pip",
            Self::Javascript => "Node 18 or newer, and Python's pip",
            Self::Python => "Python 3.10 or newer, with pip",
        }
    }

    /// Returns the file with the declaration of the plugin.
    fn first(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::C => "app.c",
            Self::Go => "app/plugin.go",
            Self::Javascript => "app.js",
            Self::Python => "app.py",
        }
    }
}

/// A file of a new plugin.
pub(crate) struct NewFile {
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
    pub(crate) is_program: bool,
}

/// Builds the files of a new plugin in a language other than Rust.
///
/// # Errors
/// A kind that is a word of the language, or a name of the example.
pub(crate) fn files(names: &Names, language: Language) -> Result<Vec<NewFile>, CliError> {
    let word = names.kind.to_snake_case();
    if TAKEN.contains(&word.as_str()) {
        return Err(fault::usage(
            format!("the kind {:?} is a word that the generated code uses itself", names.kind),
            format!("`mortise plugin new {} --type GROUP.VERSION.Kind`, such as shop.v1.Order", names.plugin),
        ));
    }
    let mut files = Vec::new();
    for (path, content) in FILES {
        let Some(place) = place(path, language) else { continue };
        let text = renamed(&String::from_utf8_lossy(content), names, language);
        // The message has a file of its own in some languages.
        let place = renamed(&place, names, language).trim_end().to_owned();
        let is_program = place == "build" || place == "contract/tools";
        files.push(NewFile { path: place, content: text.into_bytes(), is_program });
    }
    for (path, text) in COMMON {
        let filled = [
            ("{{language}}", language.title()),
            ("{{lang}}", language.folder()),
            ("{{needs}}", language.needs()),
            ("{{first}}", language.first()),
            ("{{name}}", &names.plugin),
            ("{{type}}", &names.type_name()),
            ("{{kind}}", &names.kind),
            ("{{proto}}", &names.proto()),
        ];
        let text = filled.into_iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name));
        let is_program = path == "contract/layout";
        let content = if is_program { renamed(&text, names, language) } else { text };
        files.push(NewFile { path: path.to_owned(), content: content.into_bytes(), is_program });
    }
    for (path, content) in definitions() {
        files.push(NewFile { path: format!("{CONTRACT}/{path}"), content, is_program: false });
    }
    Ok(files)
}

/// Returns the WIT and .proto files of the contract, by their paths in its folder.
pub(crate) fn definitions() -> impl Iterator<Item = (String, Vec<u8>)> {
    let place = |path: &str| {
        let wit = path.strip_prefix("wit/v0.1.0/").map(|name| format!("wit/{name}"));
        wit.or_else(|| path.starts_with("proto/").then(|| path.to_owned()))
    };
    sdk::FILES.iter().filter_map(move |(path, content)| Some((place(path)?, content.to_vec())))
}

/// Returns true for a path in the folder of the contract that is this binary's, and not the plugin's author's.
pub(crate) fn is_of_contract(path: &str) -> bool {
    path.starts_with("wit/") || path.starts_with("proto/")
}

/// Returns the place of a file of the examples in a new plugin; `None` for those of other languages.
fn place(path: &str, language: Language) -> Option<String> {
    let path = path.strip_prefix(EXAMPLES)?;
    let (folder, rest) = path.split_once('/').unwrap_or(("", path));
    match folder {
        "" if rest == "tools" => Some(format!("{CONTRACT}/tools")),
        "proto" | "wit" => Some(path.to_owned()),
        "cases" => Some("tests/cases/hooks.yaml".to_owned()),
        of if of == language.folder() => Some(rest.to_owned()),
        _ => None,
    }
}

/// Replaces the names of the example, and leaves out its faults on purpose.
fn renamed(text: &str, names: &Names, language: Language) -> String {
    let folder = language.folder();
    let message = names.message();
    let (lower, upper) = (names.kind.to_snake_case(), names.kind.to_shouty_snake_case());
    let group = [format!("fleet_{folder}"), "fleet_LANGUAGE".to_owned()];
    let plugin = [format!("fleet-{folder}"), "fleet-LANGUAGE".to_owned()];
    let mut pairs: Vec<(String, String)> = vec![
        (" [--hostile]".into(), String::new()),
        ("\"${hostile[@]}\" ".into(), String::new()),
        ("../tools".into(), format!("{CONTRACT}/tools")),
        ("../contract".into(), format!("{CONTRACT}/layout")),
        ("of ../proto".into(), "of proto".into()),
        ("examples/languages/tools".into(), format!("{CONTRACT}/tools")),
        ("package fleet:device".into(), "package author:guest".into()),
        ("world device".into(), "world guest".into()),
        ("-w device".into(), "-w guest".into()),
        ("fleet/v1/device.proto".into(), names.proto()),
        ("fleet.v1.Device".into(), format!("{}.{}.{message}", names.group, names.version)),
        ("package fleet.v1".into(), format!("package {}.{}", names.group, names.version)),
    ];
    pairs.extend(group.iter().map(|group| (format!("{group}.v1.Device"), names.type_name())));
    pairs.extend(group.into_iter().map(|group| (group, names.group.clone())));
    pairs.extend(plugin.map(|plugin| (plugin, names.plugin.clone())));
    let rest = [
        (".version = \"v1\"", format!(".version = \"{}\"", names.version)),
        (".kind = \"Device\"", format!(".kind = \"{}\"", names.kind)),
        // The package of the author's code in Go.
        ("fleet", "app".to_owned()),
        ("DEVICE", upper),
        ("Device", message),
        ("device", lower),
    ];
    pairs.extend(rest.map(|(from, to)| (from.to_owned(), to)));
    let lines: String = text.split_inclusive('\n').map(|line| line.replace("\"${hostile[@]}\" ", "")).collect();
    let lines = lines.replace(" [--hostile]", "");
    let is_kept = |line: &&str| !["hostile", "HOSTILE", "no such function"].iter().any(|part| line.contains(part));
    let kept: String = lines.split_inclusive('\n').filter(is_kept).collect();
    // What is made is not replaced again.
    replaced(&kept, &pairs)
}

/// Replaces each place by the first pair that fits there, in one pass.
fn replaced(text: &str, pairs: &[(String, String)]) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        match pairs.iter().find(|(from, _)| rest.starts_with(from.as_str())) {
            Some((from, to)) => {
                made.push_str(to);
                rest = rest.get(from.len()..).unwrap_or_default();
            }
            None => {
                made.push(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Language; 4] = [Language::C, Language::Go, Language::Javascript, Language::Python];

    #[test]
    fn no_name_of_the_example_is_left() {
        let names = Names::new("guest-book", Some("desk.v2.GuestBook")).unwrap();
        for language in ALL {
            let files = files(&names, language).unwrap();
            let find = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.content.clone());
            for file in files.iter().filter(|file| !file.path.starts_with("contract/") || file.is_program) {
                let text = String::from_utf8(file.content.clone()).unwrap();
                let plain = text.to_lowercase();
                for word in ["fleet", "device", "hostile", "{{name}}", "{{type}}", "{{kind}}", "{{proto}}", "{{lang"] {
                    let is_free = !plain.contains(word) || (file.path == "contract/tools" && word != "hostile");
                    assert!(is_free, "{language:?} {}: {word}\n{text}", file.path);
                }
                assert!(!file.path.contains("device") && !file.path.contains("fleet"), "{}", file.path);
            }
            for path in ["build", "contract/layout", "contract/tools"] {
                assert!(files.iter().any(|file| file.path == path && file.is_program), "{language:?} {path}");
            }
            for path in ["mortise.toml", "proto/desk/v2/guest_book.proto", "contract/wit/world.wit", language.first()] {
                assert!(find(path).is_some(), "{language:?} {path}");
            }
            let cases = String::from_utf8(find("tests/cases/hooks.yaml").unwrap()).unwrap();
            assert!(cases.contains("type: desk.v2.GuestBook") && cases.contains("guest_book:write on one"), "{cases}");
        }
    }

    #[test]
    fn a_kind_that_the_examples_use_is_refused() {
        for kind in ["Message", "Class", "Model", "Bytes"] {
            let names = Names::new("a-plugin", Some(&format!("desk.v1.{kind}"))).unwrap();
            let refused = files(&names, Language::Python).map(drop).unwrap_err();
            assert!(refused.message.contains("uses itself"), "{refused}");
        }
    }

    #[test]
    fn places_are_replaced_once() {
        let pairs = [("ab", "b"), ("b", "a")].map(|(from, to)| (from.to_owned(), to.to_owned()));
        assert_eq!(replaced("aabbü", &pairs), "abaü");
    }
}
