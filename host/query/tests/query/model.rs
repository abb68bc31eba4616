//! Random filters beside an evaluator of the documented rules, which shares no code with the engine.
#![allow(clippy::indexing_slicing, reason = "tests")]

use fastrand::Rng;

use crate::common::{resource, try_matches};

/// A message of a list.
#[derive(Debug, Clone)]
struct Item {
    name: &'static str,
    count: i32,
}

/// The fields that filters of this test look at.
#[derive(Debug, Clone)]
struct Album {
    title: &'static str,
    tracks: i32,
    inners: Vec<Item>,
    names: Vec<&'static str>,
    texts: Vec<(&'static str, &'static str)>,
}

/// A condition, and the form that the test writes it in.
enum Test {
    Compare(&'static str, Literal),
    In(bool, Vec<Literal>),
    Like(Vec<&'static str>),
    StartsWith(&'static str),
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Literal {
    Text(&'static str),
    Int(i32),
}

enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    /// A test of a single value: its path in the album, or in an item.
    Field(&'static str, Test),
    /// A test of a value of each item.
    Through(&'static str, Test),
    /// Conditions on one item.
    Element(Box<Expression>),
    Contains(bool, Vec<&'static str>),
    NullInners,
    /// A text, and the form of the test.
    NullText(&'static str, &'static str),
}

const TEXTS: [&str; 6] = ["", "a", "ab", "b", "abc", "é%"];
const KEYS: [(&str, &str); 5] =
    [("k", "k"), ("\"0 x\"", "0 x"), ("[\"ключ\"]", "ключ"), (r"a\.7", "a.7"), (r#""\"\\.[0]\n""#, "\"\\.[0]\n")];
const NULL_TESTS: [&str; 4] = ["IS NULL", "= NULL", "IS NOT NULL", "!= NULL"];

impl Literal {
    fn show(self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Int(number) => number.to_string(),
        }
    }
}

impl Test {
    fn draw(random: &mut Rng, of_text: bool) -> Self {
        let mut literal = || match of_text {
            true => Literal::Text(TEXTS[random.usize(..TEXTS.len())]),
            false => Literal::Int(random.i32(-1..4)),
        };
        let (first, second) = (literal(), literal());
        match random.usize(..if of_text { 6 } else { 4 }) {
            0..=2 => Self::Compare(["=", "!=", "<", "<=", ">", ">="][random.usize(..6)], first),
            3 => Self::In(random.bool(), vec![first, second]),
            4 => Self::StartsWith(TEXTS[random.usize(..5)]),
            _ => Self::Like((0..random.usize(1..4)).map(|_| TEXTS[random.usize(..5)]).collect()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Compare(operator, literal) => format!("{operator} {}", literal.show()),
            Self::In(negated, literals) => {
                let list: Vec<String> = literals.iter().map(|literal| literal.show()).collect();
                format!("{}IN [{}]", if *negated { "NOT " } else { "" }, list.join(", "))
            }
            Self::Like(pieces) => format!("LIKE {:?}", pieces.join("%")),
            Self::StartsWith(text) => format!("STARTS_WITH {text:?}"),
        }
    }

    /// The test without its negation, and whether it is negated.
    fn positive(&self, value: Literal) -> (bool, bool) {
        let text = |value| if let Literal::Text(text) = value { text } else { "" };
        match self {
            Self::Compare("!=", literal) => (value == *literal, true),
            Self::Compare(operator, literal) => {
                let holds = match *operator {
                    "=" => value == *literal,
                    "<" => value < *literal,
                    "<=" => value <= *literal,
                    ">" => value > *literal,
                    _ => value >= *literal,
                };
                (holds, false)
            }
            Self::In(negated, literals) => (literals.contains(&value), *negated),
            Self::StartsWith(beginning) => (text(value).starts_with(beginning), false),
            Self::Like(pieces) => (like(pieces, text(value)), false),
        }
    }

    fn holds_for_any(&self, values: impl IntoIterator<Item = Literal>) -> bool {
        let (mut any, is_negated) = (false, self.positive(Literal::Int(0)).1);
        for value in values {
            any |= self.positive(value).0;
        }
        any != is_negated
    }
}

/// Whether the pieces stand in a text in order, the first at its beginning and the last at its end.
fn like(pieces: &[&str], text: &str) -> bool {
    match pieces {
        [] => false,
        [only] => text == *only,
        [first, rest @ ..] => {
            let Some(behind) = text.strip_prefix(first) else { return false };
            let mut ends = (0..=behind.len()).filter(|at| behind.is_char_boundary(*at));
            ends.any(|at| like(rest, &behind[at..]))
        }
    }
}

impl Expression {
    fn draw(random: &mut Rng, depth: usize, in_item: bool) -> Self {
        let many = |random: &mut Rng| {
            (0..random.usize(1..4)).map(|_| Self::draw(random, depth - 1, in_item)).collect::<Vec<_>>()
        };
        if depth > 0 && random.usize(..3) == 0 {
            return match random.usize(..3) {
                0 => Self::All(many(random)),
                1 => Self::Any(many(random)),
                _ => Self::Not(Box::new(Self::draw(random, depth - 1, in_item))),
            };
        }
        let text = random.bool();
        match (in_item, random.usize(..7)) {
            (true, _) => Self::Field(if text { "name" } else { "count" }, Test::draw(random, text)),
            (_, 0) => Self::Through(if text { "name" } else { "count" }, Test::draw(random, text)),
            (_, 1) => Self::Element(Box::new(Self::draw(random, depth, true))),
            (_, 2) => {
                Self::Contains(random.bool(), (0..random.usize(1..3)).map(|_| TEXTS[random.usize(..4)]).collect())
            }
            (_, 3) => Self::NullInners,
            (_, 4) => Self::NullText(KEYS[random.usize(..KEYS.len())].0, NULL_TESTS[random.usize(..4)]),
            (_, 5) => Self::Field(KEYS[random.usize(..KEYS.len())].0, Test::draw(random, true)),
            _ => Self::Field(if text { "title" } else { "tracks" }, Test::draw(random, text)),
        }
    }

    fn show(&self) -> String {
        let many =
            |parts: &[Self], word: &str| format!("({})", parts.iter().map(Self::show).collect::<Vec<_>>().join(word));
        let key = |key: &str| format!("data.texts{}{key}", if key.starts_with('[') { "" } else { "." });
        match self {
            Self::All(parts) => many(parts, " AND "),
            Self::Any(parts) => many(parts, " OR "),
            Self::Not(inner) => format!("NOT ({})", inner.show()),
            Self::Field("title", test) => format!("data.title {}", test.show()),
            Self::Field("tracks", test) => format!("data.track_count {}", test.show()),
            Self::Field(field @ ("name" | "count"), test) => format!("{field} {}", test.show()),
            Self::Field(field, test) => format!("{} {}", key(field), test.show()),
            Self::Through(field, test) => format!("data.inners.{field} {}", test.show()),
            Self::Element(inner) => format!("data.inners CONTAINS ({})", inner.show()),
            Self::Contains(all, texts) => {
                let list: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
                format!("data.names CONTAINS {} ({})", if *all { "ALL" } else { "ANY" }, list.join(","))
            }
            Self::NullInners => "data.inners IS NULL".to_owned(),
            Self::NullText(field, test) => format!("{} {test}", key(field)),
        }
    }

    fn holds(&self, album: &Album, item: Option<&Item>) -> bool {
        let of_item = |item: &Item, field: &str| match field {
            "name" => Literal::Text(item.name),
            _ => Literal::Int(item.count),
        };
        let text = |field: &str| {
            let key = KEYS.iter().find(|(written, _)| *written == field).map(|(_, key)| *key);
            album.texts.iter().find(|(name, _)| Some(*name) == key).map(|(_, value)| *value)
        };
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(album, item)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(album, item)),
            Self::Not(inner) => !inner.holds(album, item),
            Self::Field("title", test) => test.holds_for_any([Literal::Text(album.title)]),
            Self::Field("tracks", test) => test.holds_for_any([Literal::Int(album.tracks)]),
            Self::Field(field @ ("name" | "count"), test) => test.holds_for_any(item.map(|item| of_item(item, field))),
            Self::Field(field, test) => test.holds_for_any([Literal::Text(text(field).unwrap_or_default())]),
            Self::Through(field, test) => test.holds_for_any(album.inners.iter().map(|item| of_item(item, field))),
            Self::Element(inner) => album.inners.iter().any(|item| inner.holds(album, Some(item))),
            Self::Contains(true, texts) => texts.iter().all(|text| album.names.contains(text)),
            Self::Contains(false, texts) => texts.iter().any(|text| album.names.contains(text)),
            Self::NullInners => album.inners.is_empty(),
            Self::NullText(field, test) => {
                text(field).is_none() != (test.starts_with("IS NOT") || test.starts_with('!'))
            }
        }
    }
}

fn album(random: &mut Rng) -> Album {
    let text = |random: &mut Rng| TEXTS[random.usize(..TEXTS.len())];
    let mut texts = Vec::new();
    for (_, key) in KEYS {
        if random.bool() {
            texts.push((key, text(random)));
        }
    }
    Album {
        title: text(random),
        tracks: random.i32(-1..4),
        inners: (0..random.usize(..3)).map(|_| Item { name: text(random), count: random.i32(-1..3) }).collect(),
        names: (0..random.usize(..3)).map(|_| text(random)).collect(),
        texts,
    }
}

#[test]
fn random_filters_find_what_the_rules_say() {
    let mut random = Rng::with_seed(47);
    let (mut found, mut missed) = (0, 0);
    for round in 0..4_000 {
        let album = album(&mut random);
        let inners: Vec<_> =
            album.inners.iter().map(|item| serde_json::json!({"name": item.name, "count": item.count})).collect();
        let texts: serde_json::Map<String, serde_json::Value> =
            album.texts.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        let data = serde_json::json!({
            "title": album.title, "trackCount": album.tracks, "inners": inners, "names": album.names, "texts": texts
        });
        let candidate = resource(&data.to_string());
        for _ in 0..5 {
            let expression = Expression::draw(&mut random, 3, false);
            let (filter, expected) = (expression.show(), expression.holds(&album, None));
            assert_eq!(try_matches(&filter, &candidate), Ok(expected), "round {round}: {filter}\n{data}");
            found += usize::from(expected);
            missed += usize::from(!expected);
        }
    }
    assert!(found > 4_000 && missed > 4_000, "{found} {missed}");
}
