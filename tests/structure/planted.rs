//! Planted faults: each claim goes red for one, and stays green for its harmless neighbour.

use super::{
    Files, empty_names, file_rings, folder_rings, imports::Crate, long_files, planted_by_default, upward_uses,
};

fn files(of: &[(&str, &str)]) -> Files {
    of.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Users and used files of a crate whose root is `lib.rs`.
fn uses(of: &[(&str, &str)]) -> Vec<String> {
    Crate::read(&files(of), "lib.rs").uses().into_iter().map(|(user, used)| format!("{user} {used}")).collect()
}

const RING: [(&str, &str); 4] = [
    ("lib.rs", "mod a; mod b; mod c;"),
    ("a.rs", "use crate::b::B; pub struct A;"),
    ("b.rs", "use super::c; pub struct B; fn f() { c::f(); }"),
    ("c.rs", "pub fn f(_: crate::a::A) {}"),
];

#[test]
fn a_ring_of_three_is_found() {
    assert_eq!(file_rings(&files(&RING), "lib.rs"), ["ring of 3: a.rs -> b.rs, b.rs -> c.rs, c.rs -> a.rs"]);
}

#[test]
fn pairs_are_no_long_ring() {
    let mut pairs = files(&RING);
    pairs.insert("c.rs".to_owned(), "pub fn f(_: crate::b::B) {}".to_owned());
    assert!(file_rings(&pairs, "lib.rs").is_empty());
    pairs.insert("b.rs".to_owned(), "use crate::{a::A, c::f}; pub struct B;".to_owned());
    assert_eq!(file_rings(&pairs, "lib.rs").len(), 1, "two pairs with a file in common are one ring");
}

#[test]
fn a_ring_of_tests_comments_and_texts_is_none() {
    for harmless in [
        "#[cfg(test)] mod tests { use crate::a::A; }",
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] use crate::{a::A}; pub fn f() {}",
        "// use crate::a::A;\n/* crate::a::A */",
        "/// See [`crate::a::A`].\nconst T: &str = \"crate::a::A\"; const R: &str = r#\"use crate::a::A;\"#;",
        "use std::a::A; use tokio::{a::A};",
    ] {
        let mut open = files(&RING);
        open.insert("c.rs".to_owned(), harmless.to_owned());
        assert!(file_rings(&open, "lib.rs").is_empty(), "{harmless}");
    }
}

#[test]
fn every_way_to_write_a_path_is_read() {
    for written in [
        "use crate::{x::{y::Y, self}, b};",
        "use crate::{b as other, x::{y::{Y as Z}}};",
        "pub(crate) fn f() { crate::x::y::Y::new(); }",
        "use super::x::y::*; fn f(_: Y::Inner) {}",
        "use super::x::y::*; fn f(_: Y) {}",
        "fn f() { some_macro!(if super::x::y::Y { }); }",
        "use super::x; fn f(_: &x::Y) {}",
        "mod inner { use super::super::x::y::Y; }",
        "pub use crate::x::Y; fn f(_: Y) {}",
    ] {
        let of = [
            ("lib.rs", "mod a; mod b; mod x;"),
            ("a.rs", written),
            ("b.rs", ""),
            ("x/mod.rs", "mod y; pub(crate) use self::y::Y;"),
            ("x/y.rs", "pub struct Y;"),
        ];
        assert_eq!(uses(&of), ["a.rs x/y.rs"], "{written}");
    }
}

#[test]
fn a_re_export_is_looked_through() {
    let of = [
        ("lib.rs", "mod x; pub use x::Y;"),
        ("x.rs", "mod y; mod z; pub use self::{y::Y, z::Z};"),
        ("x/y.rs", "use super::Z; pub struct Y;"),
        ("x/z.rs", "pub struct Z;"),
    ];
    assert_eq!(uses(&of), ["x/y.rs x/z.rs"]);
}

const FOLDERS: [(&str, &str); 6] = [
    ("lib.rs", "mod a; mod b; mod alone;"),
    ("a/mod.rs", "mod low; mod high;"),
    ("a/low.rs", "pub struct Low; fn f() { crate::alone::f(); }"),
    ("a/high.rs", "use crate::b::f; pub struct High;"),
    ("b.rs", "pub(crate) mod g; pub fn f() {}"),
    ("alone.rs", "pub fn f() { crate::b::f(); }"),
];

#[test]
fn a_ring_of_folders_is_found() {
    let mut of = files(&FOLDERS);
    of.insert("b/g.rs".to_owned(), String::new());
    assert!(folder_rings(&of, "lib.rs").is_empty());
    of.insert("b/g.rs".to_owned(), "use crate::a::low::Low;".to_owned());
    assert_eq!(folder_rings(&of, "lib.rs"), ["ring of 2: a -> b, b -> a"]);
    assert!(file_rings(&of, "lib.rs").is_empty(), "the files form none");
}

#[test]
fn an_upward_use_is_found() {
    let page = "| crate |\n| `mortise-low` | x |\n| `mortise-mid` | x |\n| `mortise` | x |\n";
    let manifest = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
    let faults = |low: &str, top: &str| {
        upward_uses(
            page,
            &files(&[
                ("low", &manifest("mortise-low", low)),
                ("mid", &manifest("mortise-mid", "[dependencies]\nmortise-low.workspace = true\n")),
                ("top", &manifest(top, "[dependencies]\nmortise-mid = { workspace = true }\ntoml = \"1\"\n")),
            ]),
        )
    };
    assert!(faults("[dev-dependencies]\nmortise.workspace = true\n", "mortise").is_empty());
    assert_eq!(
        faults("[dependencies]\nmortise-mid.workspace = true\n", "mortise"),
        ["mortise-low uses mortise-mid, which does not stand above it"]
    );
    assert_eq!(
        faults("", "mortise-new"),
        [
            "mortise-new uses mortise-mid, which does not stand above it",
            "mortise-new is not in the table",
            "the table's mortise is no crate"
        ]
    );
}

#[test]
fn a_file_of_501_lines_is_found() {
    assert!(long_files(&files(&[("a.rs", &"\n".repeat(500))])).is_empty());
    assert_eq!(long_files(&files(&[("a.rs", &"\n".repeat(501))])), ["a.rs: 501 lines"]);
}

#[test]
fn a_field_with_an_empty_name_is_found() {
    let text = "pub(crate) struct A {\n    pub(crate) of: u8,\n    at: u8,\n    pub told: u8,\n    offset: u8,\n}\nfn f(\n    of: u8,\n) {}\n";
    assert_eq!(empty_names(&files(&[("a.rs", text)])), ["a.rs:2: of: u8,", "a.rs:3: at: u8,", "a.rs:4: told: u8,"]);
}

#[test]
fn planted_faults_by_default_are_found() {
    let found = |text: &str| planted_by_default(&files(&[("Cargo.toml", text)])).len();
    assert_eq!(found("[features]\nplanted-faults = [\"other/planted-faults\"]\nfuzzing = []"), 0);
    assert_eq!(found("[features]\ndefault = [\"planted-faults\"]"), 1);
    assert_eq!(found("[features]\nfuzzing = [\"store/planted-faults\"]"), 1);
    assert_eq!(found("[dependencies]\nstore = { path = \".\", features = [\"planted-faults\"] }"), 1);
}
