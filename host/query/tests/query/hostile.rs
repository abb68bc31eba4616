//! Texts that are made to break a parser.

use std::time::Instant;

use mortise_query::{Binding, Candidate, Filter, Mask, OrderBy, PageToken, Path, Schema};
use mortise_resource::EncodedResource;

use crate::common::{SCHEMA, resource};

/// Longest that one text may take here, with much room: a quadratic algorithm takes minutes.
const MOST_SECONDS: u64 = 20;

#[test]
fn crafted_texts_take_little_time_and_stack() {
    let size = 64 << 10;
    let fill = |piece: &str| piece.repeat(size / piece.len());
    let mut texts: Vec<(String, String)> = [
        "(",
        ")",
        "[",
        "{",
        "}",
        "9",
        "|",
        "+",
        "-",
        ".",
        "\\",
        "\"",
        "NOT ",
        "NOT(",
        "AND ",
        "OR ",
        "a",
        "a.",
        "a\\.",
        "a=",
        "a=1 ",
        "a=1|",
        "a IN (",
        "(a=1",
        "a={",
        "a={1",
        "a={1:{",
        "--\n",
        "-- ",
        " ",
        "\n",
        "\u{0}",
        "é",
        "1.",
        "1e",
        "+1",
        "a=\"",
        "\\\"",
        "NOT NOT NOT NOT a=1 ",
        "a CONTAINS ",
        "IS NULL ",
        "IN ",
        "NOT IN ",
        "a NOT IN [1] ",
        "a.\"",
        "a[\"",
        ".\"a\"",
        "data.inners CONTAINS (",
        "data.title LIKE \"%a\" ",
        "data.inner.below",
    ]
    .iter()
    .map(|piece| ((*piece).to_owned(), fill(piece)))
    .collect();
    for (name, text) in [
        ("nots", format!("{}data.live = TRUE", "NOT ".repeat(16_000))),
        ("parentheses", format!("{}data.live = TRUE{}", "(".repeat(30_000), ")".repeat(30_000))),
        ("nots in parentheses", format!("{}data.live = TRUE{}", "NOT(".repeat(10_000), ")".repeat(10_000))),
        ("braces", format!("data.inner = {}{}", "{\"below\":".repeat(6_000), "}".repeat(6_000))),
        ("elements", format!("{}count = 1{}", "data.inners HAS (".repeat(3_000), ")".repeat(3_000))),
        ("wildcards", format!("data.title LIKE \"{}\"", "%a".repeat(30_000))),
        ("quotes", format!("meta.labels.\"{}\" = \"x\"", "\\\"".repeat(30_000))),
        ("digits", format!("data.large = {}", "9".repeat(60_000))),
        ("a fraction", format!("data.score = 0.{}", "3".repeat(60_000))),
        ("an exponent", format!("data.large = 1e{}", "9".repeat(60_000))),
        ("a text", format!("data.title = \"{}\"", "\\u00e9".repeat(10_000))),
        ("a list", format!("data.track_count IN ({}1)", "1,".repeat(30_000))),
        ("entries", format!("data.texts CONTAINS {{{}}}", "1 1 ".repeat(15_000))),
        ("segments", format!("data.inner{} = 1", ".below".repeat(10_000))),
        ("conditions", "data.live=TRUE ".repeat(4_000)),
    ] {
        texts.push((name.to_owned(), text));
    }
    for (name, text) in &texts {
        let begin = Instant::now();
        let outcome = Filter::parse(text, &SCHEMA);
        let orders = OrderBy::parse(text, &SCHEMA).is_ok();
        let _ = (Path::parse(text, &SCHEMA), Mask::parse(std::slice::from_ref(text), &SCHEMA));
        println!(
            "{name:?}: {:?}, {:?}, {orders}",
            begin.elapsed(),
            outcome.map(|_| ()).map_err(|fault| fault.to_string())
        );
        assert!(begin.elapsed().as_secs() < MOST_SECONDS, "{name}");
    }
    assert!(
        Filter::parse(&"a".repeat(size + 1), &SCHEMA).unwrap_err().to_string().contains("at most 65536 are allowed")
    );
}

#[test]
fn bounds_are_where_they_are_said_to_be() {
    let holds = |text: &str| Filter::parse(text, &SCHEMA).map(|_| ()).map_err(|fault| fault.to_string());
    let deep = |depth| format!("{}data.live=TRUE{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(holds(&deep(64)), Ok(()));
    assert_eq!(
        holds(&deep(65)),
        Err("filter, at character 66: parentheses or braces are nested more than 64 deep; write fewer".into())
    );
    assert_eq!(holds(&"data.live=TRUE ".repeat(1_000)), Ok(()));
    assert!(
        holds(&"data.live=TRUE ".repeat(1_001))
            .unwrap_err()
            .ends_with("the filter has more than 1000 conditions; write fewer, for example with IN")
    );
    let list = |count: usize| format!("data.track_count IN ({})", vec!["1"; count].join(","));
    assert_eq!(holds(&list(1_000)), Ok(()));
    assert!(holds(&list(1_001)).unwrap_err().ends_with("the list has more than 1000 values; split it"));
}

#[test]
fn random_texts_never_panic() {
    let words = [
        "data.title",
        "data.inner",
        "data.names",
        "meta.labels.k",
        "name",
        "a",
        "=",
        "!=",
        "<",
        ">=",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "NAN",
        "TRUE",
        "CONTAINS",
        "ANY",
        "ALL",
        "VALUE",
        "LIKE",
        "STARTS_WITH",
        "data.inners",
        "count",
        "data.texts.\"a b\"",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "+",
        "|",
        "\"x\"",
        "\"2020-01-01T00:00:00Z\"",
        "1",
        "-1.5e3",
        "--",
        "\n",
        "data.released",
        "data.score",
        "\"-0.5s\"",
        "data.length",
        "\"9999-99-99T99:99:99Z\"",
        "é",
        "\\",
        "\"",
        "'",
        "data.cover",
        "\u{0}",
    ];
    let encoded = EncodedResource::encode(&resource(r#"{"inner": {"name": "x"}, "names": ["x"]}"#)).unwrap();
    let order = OrderBy::parse("data.title", &SCHEMA).unwrap();
    let (none, binding) = (Schema::new(None), Binding::new(&[]));
    let mut random = fastrand::Rng::with_seed(11);
    let mut accepted = 0;
    for round in 0..12_000 {
        let length = random.usize(..12);
        let text: String = if round % 4 == 0 {
            (0..length * 4).map(|_| random.char('\0'..='\u{ff}')).collect()
        } else {
            (0..length).map(|_| words[random.usize(..words.len())].to_owned() + " ").collect()
        };
        if let Ok(filter) = Filter::parse(&text, &SCHEMA) {
            accepted += 1;
            filter.matches(&Candidate::new(&encoded, &SCHEMA)).unwrap();
            let _ = filter.required();
        }
        let _ = (Filter::parse(&text, &none), OrderBy::parse(&text, &SCHEMA), Path::parse(&text, &SCHEMA));
        let _ = (PageToken::decode(&text, &binding, &order), Mask::parse_write(std::slice::from_ref(&text), &SCHEMA));
        let _ = order.decode(text.as_bytes());
        for condition in ["data.released", "data.length", "data.cover", "data.score", "data.large", "name"] {
            let _ = Filter::parse(&format!("{condition} = {text:?}"), &SCHEMA);
        }
    }
    println!("{accepted} accepted");
    assert!(accepted > 100);
}

#[test]
fn random_data_never_panics() {
    let mut random = fastrand::Rng::with_seed(5);
    let paths: Vec<String> = [
        "data.title",
        "data.texts.k",
        "data.by_signed.-7.name",
        "data.inners.name",
        "data.inner.below.name",
        "data.number",
    ]
    .map(str::to_owned)
    .into();
    let read = Mask::parse(&paths, &SCHEMA).unwrap();
    let write = Mask::parse_write(
        &["data.title".into(), "data.texts.k".into(), "data.inner.name".into(), "data.number".into()],
        &SCHEMA,
    )
    .unwrap();
    let good = resource(
        r#"{"title": "x", "texts": {"k": "v"}, "bySigned": {"-7": {"name": "s"}}, "inners": [{"name": "a"}], "inner": {"below": {}}, "word": "w"}"#,
    );
    let filter = Filter::parse(r#"data.inners.name = "a" OR data.parts.k.name = "s""#, &SCHEMA).unwrap();
    for _ in 0..10_000 {
        let mut damaged = good.clone();
        let value = &mut damaged.data.as_mut().unwrap().value;
        for _ in 0..random.usize(1..4) {
            let index = random.usize(..value.len());
            value[index] = random.u8(..);
        }
        let encoded = EncodedResource::encode(&damaged).unwrap();
        let _ = filter.matches(&Candidate::new(&encoded, &SCHEMA));
        let _ = (
            read.project(&damaged),
            write.update(&damaged, &good),
            write.update(&good, &damaged),
            read.is_equal(&damaged, &good),
        );
        let _ = mortise_query::changed_paths(&damaged, &good, &SCHEMA);
    }
}
