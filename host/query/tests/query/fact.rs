//! Facts hold for every match.

use std::{collections::BTreeSet, ops::RangeBounds as _};

use mortise_query::{ABSENT_KEY, Candidate, Fact, FieldRange, Filter, IndexPath, Path, Subject};
use mortise_resource::{EncodedResource, pb};

use crate::common::{SCHEMA, resource};

fn required(filter: &str) -> Vec<Fact> {
    Filter::parse(filter, &SCHEMA).unwrap().required()
}

fn fact(subject: Subject, values: &[&str]) -> Fact {
    Fact { subject, values: values.iter().map(|value| (*value).to_owned()).collect() }
}

#[test]
fn what_filters_require() {
    let (label, field) = (|key: &str| Subject::Label(key.into()), |path: &str| Subject::Field(path.into()));
    let rows = [
        (r#"meta.labels.k = "v""#, vec![fact(label("k"), &["v"])]),
        (r#"meta.labels.k = """#, vec![]),
        (r#"meta.labels.k != "v""#, vec![]),
        (r#"NOT meta.labels.k = "v""#, vec![]),
        (r#"meta.labels.k IN ("v", "w")"#, vec![fact(label("k"), &["v", "w"])]),
        (r#"meta.labels.k IN ("v", "")"#, vec![]),
        (r#"meta.labels.k NOT IN ("v")"#, vec![]),
        (r"meta.labels.k IS NOT NULL", vec![fact(Subject::LabelPresence("k".into()), &[])]),
        (r#"metadata.k = "v""#, vec![fact(field("metadata.k"), &["v"])]),
        (r#"metadata.k\.l IN ("v", "w")"#, vec![fact(field("metadata.k\\.l"), &["v", "w"])]),
        (r#"metadata.k = """#, vec![]),
        ("meta.shards.byNameMod16 = 7", vec![fact(field("meta.shards.byNameMod16"), &["7"])]),
        (r#"meta.tags CONTAINS "t""#, vec![fact(field("meta.tags"), &["t"])]),
        (r#"meta.labels CONTAINS "k:v""#, vec![fact(label("k"), &["v"])]),
        (r#"meta.labels CONTAINS ALL ("k:v", "l:w")"#, vec![fact(label("k"), &["v"]), fact(label("l"), &["w"])]),
        (r#"meta.labels CONTAINS ANY ("k:v", "k:w")"#, vec![fact(label("k"), &["v", "w"])]),
        (r#"meta.labels CONTAINS ANY ("k:v", "l:w")"#, vec![]),
        (r#"meta.labels CONTAINS "k:v:w""#, vec![]),
        (r#"id.name = "x""#, vec![fact(Subject::Name, &["x"])]),
        (r#"id.uid IN ("x")"#, vec![fact(Subject::Uid, &["x"])]),
        (r#"id.tenancy.partition = "p""#, vec![fact(Subject::Partition, &["p"])]),
        (r#"name = "p/-/x""#, vec![fact(Subject::Name, &["x"]), fact(Subject::Partition, &["p"])]),
        (r#"name = "-""#, vec![]),
        (r#"name != "x""#, vec![]),
        (r#"name IN ("n/x", "y")"#, vec![fact(Subject::Name, &["x", "y"])]),
        ("data.track_count = 5", vec![fact(field("data.track_count"), &["5"])]),
        ("data.trackCount = 0", vec![]),
        (r#"data.genre = "GENRE_JAZZ""#, vec![fact(field("data.genre"), &["1"])]),
        ("data.live = TRUE", vec![fact(field("data.live"), &["true"])]),
        ("data.score = 1.5", vec![]),
        (r#"data.names CONTAINS "a""#, vec![fact(field("data.names"), &["a"])]),
        (
            r#"data.names CONTAINS ALL ("a", "b")"#,
            vec![fact(field("data.names"), &["a"]), fact(field("data.names"), &["b"])],
        ),
        (r#"data.inners.name = "a""#, vec![fact(field("data.inners.name"), &["a"])]),
        (
            r#"data.inners HAS (name IN ("a", "b") count = 2 below.name != "c")"#,
            vec![fact(field("data.inners.name"), &["a", "b"]), fact(field("data.inners.count"), &["2"])],
        ),
        (r#"data.inners HAS (name = "a" OR count = 2)"#, vec![]),
        (r#"NOT data.inners HAS (name = "a")"#, vec![]),
        (r#"data.inners HAS (NOT name = "a")"#, vec![]),
        (
            r#"meta.labels.k = "v" data.live = TRUE"#,
            vec![fact(label("k"), &["v"]), fact(field("data.live"), &["true"])],
        ),
        (r#"meta.labels.k = "v" OR meta.labels.k = "w""#, vec![fact(label("k"), &["v", "w"])]),
        (r#"meta.labels.k = "v" OR meta.labels.l = "w""#, vec![]),
        (r#"meta.labels.k = "v" OR (meta.labels.l = "x" meta.labels.k = "w")"#, vec![fact(label("k"), &["v", "w"])]),
        ("()", vec![]),
    ];
    for (filter, expected) in rows {
        assert_eq!(required(filter), expected, "{filter}");
    }
}

/// Whether a fact is true of a resource, as an index would find out.
fn holds(fact: &Fact, resource: &pb::Resource, candidate: &Candidate<'_>) -> bool {
    let id = resource.id.as_ref().unwrap();
    let tenancy = id.tenancy.as_ref().unwrap();
    let label = |key: &String| resource.meta.as_ref().and_then(|meta| meta.labels.get(key));
    match &fact.subject {
        Subject::Name => fact.values.contains(&id.name),
        Subject::Uid => fact.values.contains(&id.uid),
        Subject::Partition => fact.values.contains(&tenancy.partition),
        Subject::Namespace => fact.values.contains(&tenancy.namespace),
        Subject::Label(key) => label(key).is_some_and(|value| fact.values.contains(value)),
        Subject::LabelPresence(key) => label(key).is_some(),
        Subject::Field(path) => {
            let found = candidate.index_values(&Path::parse(path, &SCHEMA).unwrap()).unwrap();
            found.into_iter().collect::<BTreeSet<_>>().intersection(&fact.values).next().is_some()
        }
    }
}

fn some<'a>(random: &mut fastrand::Rng, choices: &[&'a str]) -> &'a str {
    random.choice(choices).copied().unwrap_or_default()
}

fn random_filter(random: &mut fastrand::Rng, depth: u32) -> String {
    let text = |random: &mut fastrand::Rng| format!("{:?}", some(random, &["a", "b", "", "d1"]));
    match random.u32(..if depth == 0 { 8 } else { 12 }) {
        0..=2 => {
            let path = some(
                random,
                &[
                    "meta.labels.a",
                    "meta.labels.b",
                    "id.name",
                    "name",
                    "metadata.a",
                    "status.sync.conditions.type",
                    "data.title",
                    "data.inner.name",
                    "data.inners.name",
                    "data.texts.a",
                    "data.wrapped_text",
                    "data.parts.a.name",
                    "data.inner.more.a.name",
                    "id.tenancy.namespace",
                ],
            );
            let (a, b) = (format!("{:?}", some(random, &["a", "b", "d1"])), text(random));
            let b = if path == "name" { a.clone() } else { b };
            match random.u32(..5) {
                0 | 1 => format!("{path} = {a}"),
                2 => format!("{path} != {b}"),
                3 => format!("{path} IN ({a}, {b})"),
                _ => format!("{path} NOT IN ({a}, {b})"),
            }
        }
        3 => format!(
            "{} {} {}",
            some(
                random,
                &[
                    "data.track_count",
                    "data.maybe",
                    "data.by_bool.true",
                    "data.inners.count",
                    "data.genre",
                    "data.wrapped"
                ]
            ),
            some(random, &["=", "!=", ">="]),
            random.u32(..3)
        ),
        4 => format!("data.names CONTAINS {} ({}, {})", some(random, &["ANY", "ALL"]), text(random), text(random)),
        5 if random.bool() => format!(
            "meta.labels CONTAINS {} (\"a:a\", \"a:b\", \"{}:{}\")",
            some(random, &["ANY", "ALL"]),
            some(random, &["a", "b"]),
            some(random, &["a", "b", "", "c:d"])
        ),
        5 => format!("meta.labels.a IS {}NULL", some(random, &["", "NOT "])),
        6 => format!("data.live = {}", some(random, &["TRUE", "FALSE"])),
        7 => format!(
            "data.inners HAS ({}name = {} {} count = {})",
            some(random, &["", "NOT "]),
            text(random),
            some(random, &["AND", "OR"]),
            random.u32(..3)
        ),
        8 => format!("NOT ({})", random_filter(random, depth - 1)),
        9 => format!("({}) OR ({})", random_filter(random, depth - 1), random_filter(random, depth - 1)),
        _ => format!("({}) AND ({})", random_filter(random, depth - 1), random_filter(random, depth - 1)),
    }
}

fn random_resource(random: &mut fastrand::Rng) -> pb::Resource {
    let mut parts = Vec::new();
    for part in [
        r#""title": "a""#,
        r#""trackCount": 1"#,
        r#""maybe": 2"#,
        r#""inner": {"name": "a", "more": {"a": {"name": "b"}}}"#,
        r#""inners": [{"name": "a"}, {"name": "b", "count": 2}, {}]"#,
        r#""texts": {"a": "b"}"#,
        r#""wrappedText": "a""#,
        r#""wrapped": "1""#,
        r#""parts": {"a": {"name": "a"}}"#,
        r#""names": ["a", ""]"#,
        r#""live": true"#,
        r#""genre": 1"#,
        r#""byBool": {"true": 2}"#,
    ] {
        if random.bool() {
            parts.push(part);
        }
    }
    let mut resource = resource(&format!("{{{}}}", parts.join(",")));
    resource.id.as_mut().unwrap().name = some(random, &["a", "b", "d1"]).into();
    resource.id.as_mut().unwrap().tenancy.as_mut().unwrap().namespace = some(random, &["a", "b"]).into();
    if random.bool() {
        resource.metadata.insert("a".into(), some(random, &["a", "b", ""]).into());
    }
    for condition in &mut resource.status.get_mut("sync").unwrap().conditions {
        condition.r#type = some(random, &["a", "b"]).into();
    }
    let labels = &mut resource.meta.as_mut().unwrap().labels;
    for key in ["a", "b"] {
        if random.bool() {
            labels.insert(key.into(), some(random, &["a", "b", ""]).into());
        }
    }
    resource
}

#[test]
fn every_match_satisfies_the_facts() {
    let mut random = fastrand::Rng::with_seed(7);
    let resources: Vec<pb::Resource> = (0..60).map(|_| random_resource(&mut random)).collect();
    let encoded: Vec<EncodedResource> =
        resources.iter().map(|resource| EncodedResource::encode(resource).unwrap()).collect();
    let (mut matches, mut checked) = (0, 0);
    for _ in 0..3_000 {
        let text = random_filter(&mut random, 4);
        let filter = Filter::parse(&text, &SCHEMA).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        let facts = filter.required();
        for (resource, encoded) in resources.iter().zip(&encoded) {
            let candidate = Candidate::new(encoded, &SCHEMA);
            if filter.matches(&candidate).unwrap() {
                matches += 1;
                for fact in &facts {
                    checked += 1;
                    assert!(holds(fact, resource, &candidate), "{text}: {fact:?} of {resource:?}");
                }
            }
        }
    }
    assert!(matches > 10_000 && checked > 5_000, "{matches} {checked}");
}

/// Whether the key of a resource's value is in a range, as an index would find out.
fn is_within(range: &FieldRange, candidate: &Candidate<'_>) -> bool {
    let keys = IndexPath::parse(&range.path, &SCHEMA).unwrap().keys(candidate).unwrap();
    assert_eq!(keys.len(), 1, "{}: {keys:?}", range.path);
    let is_in = |key: &String| match key.as_str() {
        ABSENT_KEY => range.with_absent,
        _ => (range.low.clone(), range.high.clone()).contains(key),
    };
    keys.iter().all(is_in)
}

fn random_bound(random: &mut fastrand::Rng) -> String {
    if random.bool() {
        let path = some(random, &["data.track_count", "data.maybe", "data.genre", "data.wrapped", "data.by_bool.true"]);
        return format!("{path} {} {}", some(random, &["=", "<", "<=", ">", ">="]), random.u32(..4));
    }
    let path = some(random, &["data.title", "data.inner.name", "data.texts.a", "data.wrapped_text"]);
    let text = some(random, &["", "a", "ab", "b", "c"]);
    match some(random, &["=", "<", "<=", ">", ">=", "STARTS_WITH", "LIKE"]) {
        "LIKE" => format!("{path} LIKE \"{text}%\""),
        test => format!("{path} {test} {text:?}"),
    }
}

/// A range of one condition has the matches and no others; those of several have every match.
#[test]
fn every_match_is_within_the_ranges() {
    let mut random = fastrand::Rng::with_seed(47);
    let mut resources: Vec<pb::Resource> = (0..60).map(|_| random_resource(&mut random)).collect();
    for (title, count) in [("", -1), ("a", 0), ("aa", 2), ("ab", 3), ("b", 1), ("\u{10ffff}", 2)] {
        let json = serde_json::json!({
            "title": title, "wrappedText": title, "inner": {"name": title}, "texts": {"a": title}, "trackCount": count,
            "maybe": count, "wrapped": count.to_string(), "byBool": {"true": count}
        });
        resources.push(resource(&json.to_string()));
    }
    let encoded: Vec<EncodedResource> = resources.iter().map(|one| EncodedResource::encode(one).unwrap()).collect();
    let (mut within, mut without) = (0, 0);
    for round in 0..2_000 {
        let (a, b, c) = (random_bound(&mut random), random_bound(&mut random), random_bound(&mut random));
        let text = match round % 4 {
            0 => a,
            1 => format!("{a} AND {b} AND {c}"),
            2 => format!("{a} AND ({b} OR {c})"),
            _ => format!("{a} AND NOT ({b}) AND NOT NOT {c}"),
        };
        let filter = Filter::parse(&text, &SCHEMA).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        let ranges = filter.ranges();
        assert!(!ranges.is_empty(), "{text}");
        for (resource, encoded) in resources.iter().zip(&encoded) {
            let candidate = Candidate::new(encoded, &SCHEMA);
            let (matches, is_within) =
                (filter.matches(&candidate).unwrap(), ranges.iter().all(|range| is_within(range, &candidate)));
            let is_right = if round % 4 == 0 { matches == is_within } else { !matches || is_within };
            assert!(is_right, "{text}: matches {matches}, {ranges:?}, {resource:?}");
            within += usize::from(is_within);
            without += usize::from(!is_within);
        }
    }
    assert!(within > 10_000 && without > 10_000, "{within} {without}");
}
