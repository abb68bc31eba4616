//! Hostile texts: reading ends soon, with documents or faults, and never in a panic.

use std::time::{Duration, Instant};

use mortise_text::{Format, Limits, Source, parse, parse_within};
use proptest::prelude::*;

use crate::common::types;

const FORMATS: [Format; 3] = [Format::Yaml, Format::Json, Format::Hcl];

/// Pieces of random texts that come near to valid ones.
const PIECES: [&str; 52] = [
    "id",
    "type",
    ": ",
    "demo.v2.Artist",
    "name",
    "\n",
    "\n  ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|",
    ">",
    "|+2",
    "&a",
    " *a",
    "!!str ",
    "!<x>",
    "---",
    "...",
    "%YAML 1.2",
    "? ",
    "#",
    "=",
    "ID",
    "Type",
    "gvk(",
    ")",
    "\"demo.v2.Artist\"",
    "Data",
    "${",
    "<<EOT",
    "EOT",
    "\\u",
    "\\ud83d",
    "\u{feff}",
    "\t",
    "\r\n",
    "0x",
    "1e999",
    "-",
    "null",
    "data",
    "@type",
    "@bytes",
    "@unknown",
    "é",
    "😀",
];

/// Texts without faults, one for each format.
const WHOLE: [&str; 3] = [
    "type: test.v1.Everything\nname: x\nowner: demo.v2.Artist/korn\nmetadata: {a: b}\ndata:\n  aDouble: 1.5\n  anInt64: \"7\"\n  colour: COLOUR_RED\n  inner: &i {strings: [a, 'b', |-\n    c\n  ]}\n  byNumber: {1: a}\n  any: {\"@type\": test.Everything, aBool: true}\n  time: 2024-06-01T12:00:00Z\n  duration: 1h\n  mask: a,bC\n  structure: {a: [1, null, {b: c}]}\n  wrappedBytes: aGk=\n  byString: z\n",
    "{\"id\":{\"type\":{\"group\":\"test\",\"groupVersion\":\"v1\",\"kind\":\"Everything\"},\"name\":\"x\"},\"data\":{\"aDouble\":1.5,\"anInt64\":\"7\",\"colour\":\"COLOUR_RED\",\"inners\":[{\"aBool\":true}],\"any\":{\"@type\":\"google.protobuf.Duration\",\"value\":\"1s\"},\"structure\":{\"a\":[1,null,{\"b\":\"\\u00e9\"}]},\"byBool\":{\"true\":{}},\"mask\":\"a,bC\"}}",
    "ID {\n  Type = gvk(\"test.v1.Everything\")\n  Name = \"x\"\n}\nData {\n  ADouble = -1.5\n  Inners { ABool = true }\n  Inners { AString = <<-EOT\n    a\n    EOT\n  }\n  Structure = { a = [1, null, { b = \"c\" }] }\n  Time = \"2024-06-01T12:00:00Z\"\n}\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_pieces_never_panic(pieces in proptest::collection::vec(0..PIECES.len(), 0..60), format in 0..3_usize) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        let began = Instant::now();
        let found = parse(Source { name: "f", text: &text }, Some(FORMATS[format]), types());
        for document in found.into_iter().flatten() {
            let _ = document.locate("data.name[1][\"x\"]");
            let _ = document.status(types());
        }
        prop_assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn damaged_texts_never_panic(edits in proptest::collection::vec((any::<usize>(), 0..PIECES.len()), 1..5), which in 0..3_usize) {
        let mut text = WHOLE[which].to_owned();
        for (position, piece) in edits {
            let offset = (0..=position % text.len()).rev().find(|offset| text.is_char_boundary(*offset)).unwrap();
            let end = (offset + piece % 3..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(offset);
            text.replace_range(offset..end, PIECES[piece]);
        }
        let found = parse(Source { name: "f", text: &text }, Some(FORMATS[which]), types());
        for document in found.into_iter().flatten() {
            let _ = mortise_text::to_yaml(&document.resource, types());
        }
    }

    #[test]
    fn random_text_never_panics(text in any::<String>(), format in 0..3_usize) {
        let _ = parse(Source { name: "f", text: &text }, Some(FORMATS[format]), types());
        let _ = parse(Source { name: "f", text: &text }, None, types());
    }

    #[test]
    fn random_data_never_panics(text in "[ -~\n]{0,80}", key in "[a-zA-Z]{1,12}") {
        let text = format!("type: test.v1.Everything\nname: x\ndata:\n  {key}: {text}\n");
        let _ = parse(Source { name: "f", text: &text }, Some(Format::Yaml), types());
    }
}

#[test]
fn bombs_are_refused_soon() {
    let began = Instant::now();
    let mut laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 'b'..='z' {
        let before = char::from_u32(u32::from(level) - 1).unwrap();
        laughs.push_str(&format!("{level}: &{level} [{}]\n", vec![format!("*{before}"); 9].join(",")));
    }
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for level in 1..1000 {
        chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90_000].join(","));
    let mut levels = (0..60).map(|n| format!("&n{n} [")).collect::<String>() + "\"" + &"x".repeat(4 << 20) + "\"";
    levels.push_str(&"]".repeat(60));
    let nested: String = (0..120).map(|n| format!("&n{n} [")).collect::<String>() + &"x,".repeat(1_000_000);
    // The default limits, but few values, since tests run without optimisation.
    let limits = Limits { values: 100_000, ..Limits::default() };
    for (text, format) in [
        (laughs, Format::Yaml),
        (chain, Format::Yaml),
        (long, Format::Yaml),
        (levels, Format::Yaml),
        (nested, Format::Yaml),
        ("[".repeat(1_000_000), Format::Yaml),
        ("- ".repeat(1_000_000), Format::Yaml),
        ("a: ".repeat(200_000), Format::Yaml),
        ("{a: ".repeat(200_000), Format::Yaml),
        ("? ".repeat(500_000), Format::Yaml),
        ("!".repeat(1_000_000), Format::Yaml),
        ("&a ".repeat(300_000), Format::Yaml),
        (format!("\"{}", "\\".repeat(2_000_001)), Format::Yaml),
        ("k: v\n".repeat(300_000), Format::Yaml),
        (format!("a: {}", "x".repeat(65 << 20)), Format::Yaml),
        (format!("[{}1]", "1,".repeat(1_000_000)), Format::Json),
        (format!("{}1{}", "[".repeat(127), "]".repeat(127)), Format::Json),
        (format!("{{{}\"a\":1}}", "\"a\":1,".repeat(100_000)), Format::Json),
    ] {
        let before = began.elapsed();
        let found = parse_within(Source { name: "f", text: &text }, Some(format), types(), &limits);
        let start: String = text.chars().take(20).collect();
        eprintln!("{:?} {start:?}", began.elapsed() - before);
        assert!(found.is_err(), "{start}");
        assert!(found.unwrap_err().diagnostics.len() <= 20, "{start}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn limits_are_named() {
    let text = "- {type: demo.v1.Concept, name: a}\n- {type: demo.v1.Concept, name: b}\n";
    let faults = |limits: Limits| {
        parse_within(Source { name: "f", text }, None, types(), &limits)
            .map(|found| found.len())
            .map_err(|faults| faults.to_string())
    };
    let usual = Limits::default();
    assert_eq!(faults(usual.clone()), Ok(2));
    let refused = |limits: Limits| faults(limits).unwrap_err();
    assert_eq!(
        refused(Limits { bytes: 20, ..usual.clone() }),
        "f:1:1: the text is larger than 20 bytes; split it, or use import"
    );
    assert_eq!(
        refused(Limits { documents: 1, ..usual.clone() }),
        "f:2:3: more than 1 resources in one text; split it, or use import"
    );
    assert!(refused(Limits { values: 4, ..usual.clone() }).starts_with("f:1:"));
    assert_eq!(refused(Limits { depth: 1, ..usual }), "f:1:3: nested more than 1 levels deep");
}

#[test]
fn faults_are_fit_to_print() {
    let text = format!("type: demo.v2.Artist\nname: x\ndata:\n  \"\\e[2J\\n{}\": 1\n", "k".repeat(900));
    let printed = parse(Source { name: "f", text: &text }, Some(Format::Yaml), types()).unwrap_err().to_string();
    assert!(printed.starts_with("f:4:3: data.\\u{1b}[2J\\nkkk"), "{printed}");
    assert!(printed.contains("k…: there is no such field; "), "{printed}");
    assert_eq!(printed.lines().count(), 1);
}
