//! Comparison, and what differs.

use mortise_query::{Mask, changed_paths};
use mortise_resource::{goten, pb};

use crate::common::{SCHEMA, album, map, message, resource};

fn is_equal(a: &str, b: &str, path: &str) -> bool {
    let resource_from = |json: &str| pb::Resource { data: Some(album(json)), ..Default::default() };
    let mask = Mask::parse(&[path.to_owned()], &SCHEMA).unwrap();
    let (a, b) = (resource_from(a), resource_from(b));
    let equal = mask.is_equal(&a, &b).unwrap();
    assert_eq!(mask.is_equal(&b, &a).unwrap(), equal);
    equal
}

#[test]
fn absent_equals_empty() {
    let rows = [
        ("{}", r#"{"inner": {}}"#, "data", true),
        ("{}", r#"{"inner": {"below": {"below": {}}}}"#, "data", true),
        ("{}", r#"{"inner": {"below": {"count": 1}}}"#, "data", false),
        ("{}", r#"{"inners": [{}]}"#, "data.inners", true),
        ("{}", r#"{"inners": [{}, {}]}"#, "data.inners", false),
        (r#"{"inners": [{"name": "a"}]}"#, r#"{"inners": [{"name": "a", "below": {}}]}"#, "data.inners", true),
        ("{}", r#"{"parts": {"one": {}}}"#, "data", true),
        (r#"{"parts": {"two": {"name": "x"}}}"#, r#"{"parts": {"one": {}, "two": {"name": "x"}}}"#, "data.parts", true),
        (r#"{"parts": {"two": {"name": "x"}}}"#, r#"{"parts": {"two": {"name": "y"}}}"#, "data.parts", false),
        ("{}", r#"{"texts": {"k": ""}}"#, "data.texts", false),
        ("{}", r#"{"maybe": 0}"#, "data", false),
        (r#"{"score": "NaN"}"#, r#"{"score": "NaN"}"#, "data", true),
        (r#"{"title": "a", "live": true}"#, r#"{"title": "a"}"#, "data.title", true),
        (r#"{"title": "a", "live": true}"#, r#"{"title": "a"}"#, "data", false),
        (r#"{"names": ["a", "b"]}"#, r#"{"names": ["b", "a"]}"#, "data.names", false),
    ];
    for (a, b, path, expected) in rows {
        assert_eq!(is_equal(a, b, path), expected, "{a} {b} {path}");
    }
}

#[test]
fn the_mask_says_what_is_compared() {
    let (before, mut two) = (resource("{}"), resource(r#"{"title": "x"}"#));
    two.id.as_mut().unwrap().name = "other".into();
    let equal = |path: &str| Mask::parse(&[path.to_owned()], &SCHEMA).unwrap().is_equal(&before, &two).unwrap();
    assert!(equal("version") && equal("meta.labels.region") && equal("data.live"));
    assert!(!equal("name") && !equal("data.title") && !equal("data"));
    assert!(!Mask::parse(&[], &SCHEMA).unwrap().is_equal(&before, &two).unwrap());
    let everything = Mask::parse(&[], &SCHEMA).unwrap();
    assert!(everything.is_equal(&pb::Resource { data: None, ..before.clone() }, &before).unwrap());
    let other = pb::Resource { data: Some(message("test.v1.Old", "{}")), ..before.clone() };
    assert!(!everything.is_equal(&other, &before).unwrap());
}

#[test]
fn changes_are_named_by_their_fields() {
    let before = resource(r#"{"title": "x", "live": true, "texts": {"k": "v", "l": "w"}}"#);
    let changed = |after: &pb::Resource| changed_paths(&before, after, &SCHEMA).unwrap();
    assert_eq!(changed(&before), Vec::<String>::new());
    let mut after = resource(r#"{"title": "y", "texts": {"l": "w", "k": "v"}}"#);
    after.version = "18".into();
    let meta = after.meta.as_mut().unwrap();
    meta.labels = map(&[]);
    meta.generation = 5;
    assert_eq!(changed(&after), ["version", "meta.labels", "meta.generation", "data.title", "data.live"]);
    let mut unknown = before.clone();
    unknown.data.as_mut().unwrap().value.extend_from_slice(&[0xd2, 0x85, 0xd8, 0xcc, 0x04, 0x01, b'u']);
    assert_eq!(changed(&unknown), ["data"]);
    assert_eq!(changed(&pb::Resource { data: None, ..before.clone() }), ["data"]);
    assert_eq!(changed(&pb::Resource { owner: None, ..before.clone() }), ["owner"]);
    let (none, empty) =
        (pb::Resource::default(), pb::Resource { meta: Some(Box::new(goten::Meta::default())), ..Default::default() });
    assert_eq!(changed_paths(&none, &empty, &SCHEMA).unwrap(), ["meta"]);
    // A mask accepts every path in the result.
    assert!(Mask::parse(&changed(&after), &SCHEMA).is_ok());
}
