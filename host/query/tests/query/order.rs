//! Orders and their keys.

use mortise_query::{Candidate, OrderBy, SortKey};
use mortise_resource::{EncodedResource, pb};

use crate::common::{SCHEMA, resource};

fn named(json: &str, name: &str) -> pb::Resource {
    let mut named_resource = resource(json);
    named_resource.id.as_mut().unwrap().name = name.into();
    named_resource
}

fn key(order: &OrderBy, named_resource: &pb::Resource) -> SortKey {
    let encoded = EncodedResource::encode(named_resource).unwrap();
    order.key(&Candidate::new(&encoded, &SCHEMA)).unwrap()
}

/// Names in an order.
fn sorted(order: &str, resources: &[pb::Resource]) -> Vec<String> {
    let order = OrderBy::parse(order, &SCHEMA).unwrap();
    let mut keys: Vec<(SortKey, String)> = resources
        .iter()
        .map(|named_resource| {
            let key = key(&order, named_resource);
            // A key stays the same through a token.
            assert_eq!(order.decode(&key.encode()).unwrap(), key);
            (key, named_resource.id.as_ref().unwrap().name.clone())
        })
        .collect();
    keys.sort();
    keys.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn kinds_have_their_natural_order() {
    let parse = |rows: &[&str]| -> Vec<pb::Resource> {
        rows.iter().zip(["a", "b", "c", "d"]).map(|(json, name)| named(json, name)).collect()
    };
    let rows = [
        ("data.title", parse(&[r#"{"title":"é"}"#, r#"{"title":"Z"}"#, r#"{"title":"a"}"#, "{}"]), "dbca"),
        (
            "data.track_count",
            parse(&[r#"{"trackCount":10}"#, r#"{"trackCount":9}"#, r#"{"trackCount":-1}"#, "{}"]),
            "cdba",
        ),
        ("data.large", parse(&[r#"{"large":"18446744073709551615"}"#, r#"{"large":"9223372036854775807"}"#]), "ba"),
        ("data.score", parse(&[r#"{"score":"NaN"}"#, r#"{"score":"Infinity"}"#, r#"{"score":-0.5}"#, "{}"]), "cdba"),
        ("data.live", parse(&[r#"{"live":true}"#, "{}"]), "ba"),
        ("data.genre", parse(&[r#"{"genre":"GENRE_ROCK"}"#, r#"{"genre":"GENRE_JAZZ"}"#]), "ba"),
        ("data.cover", parse(&[r#"{"cover":"/w=="}"#, r#"{"cover":"AA=="}"#]), "ba"),
        (
            "data.released",
            parse(&[r#"{"released":"2020-01-01T00:00:00.1Z"}"#, r#"{"released":"2020-01-01T00:00:00Z"}"#, "{}"]),
            "cba",
        ),
        // Absent first, last in descending order; zero is not absent.
        ("data.maybe", parse(&[r#"{"maybe":0}"#, r#"{"maybe":-1}"#, "{}"]), "cba"),
        ("data.maybe desc", parse(&[r#"{"maybe":0}"#, r#"{"maybe":-1}"#, "{}"]), "abc"),
        ("data.wrapped", parse(&[r#"{"wrapped":"0"}"#, r#"{"wrapped":"-1"}"#, "{}"]), "cba"),
        ("data.inner.name", parse(&[r#"{"inner":{"name":"x"}}"#, r#"{"inner":{}}"#, "{}"]), "cba"),
        ("data.texts.k", parse(&[r#"{"texts":{"k":"v"}}"#, r#"{"texts":{"k":""}}"#, "{}"]), "cba"),
        // The name decides last, in the direction of the key before it.
        ("", parse(&["{}", "{}", "{}"]), "abc"),
        ("name desc", parse(&["{}", "{}", "{}"]), "cba"),
        ("data.live", parse(&["{}", "{}"]), "ab"),
        ("data.live desc", parse(&["{}", "{}"]), "ba"),
        ("  data.live   DESC , data.title  asc ", parse(&["{}", "{}", r#"{"live":true}"#]), "cab"),
    ];
    for (order, resources, expected) in rows {
        assert_eq!(sorted(order, &resources).concat(), expected, "{order}");
    }
}

#[test]
fn names_are_by_partition_namespace_and_name() {
    let place = |partition: &str, namespace: &str, name: &str| {
        let mut named_resource = named("{}", name);
        let tenancy = pb::Tenancy { partition: partition.into(), namespace: namespace.into() };
        named_resource.id.as_mut().unwrap().tenancy = Some(tenancy);
        named_resource
    };
    let all = [place("b", "a", "1"), place("a", "b", "2"), place("a", "a", "4"), place("a", "a", "3")];
    assert_eq!(sorted("", &all).concat(), "3421");
    assert!(OrderBy::parse("name asc", &SCHEMA).unwrap().is_by_name());
    assert!(OrderBy::parse(" ", &SCHEMA).unwrap().is_by_name());
    assert!(!OrderBy::parse("name desc", &SCHEMA).unwrap().is_by_name());
    assert!(!OrderBy::parse("version", &SCHEMA).unwrap().is_by_name());
}

#[test]
fn what_has_no_order_is_refused() {
    let rows = [
        ("data.title,,version", "order_by: a key is empty; write keys such as path or path desc"),
        ("data.title,", "order_by: a key is empty; write keys such as path or path desc"),
        ("data.title up", r#"order_by: "data.title up" has an unknown direction; use asc or desc"#),
        (
            "data.title asc desc",
            r#"order_by: "data.title asc desc" has more than two words; write a path, then asc or desc"#,
        ),
        ("data.nope", r#"path "data.nope": test.v1.Album has no field "nope""#),
    ];
    for (order, fault) in rows {
        assert_eq!(OrderBy::parse(order, &SCHEMA).unwrap_err().to_string(), fault);
    }
    for path in
        ["data.names", "data.inner", "data.texts", "data", "data.inners.name", "meta.tags", "meta", "data.dates"]
    {
        let fault = OrderBy::parse(path, &SCHEMA).unwrap_err().to_string();
        assert!(fault.ends_with("which have no order; name a single value"), "{fault}");
    }
    let many = (0..40).map(|n| format!("metadata.k{n}")).collect::<Vec<_>>().join(",");
    assert!(OrderBy::parse(&many, &SCHEMA).unwrap_err().to_string().contains("more than 32 keys"));
    let twice = OrderBy::parse("version, generation, version desc", &SCHEMA).unwrap_err().to_string();
    assert_eq!(twice, r#"order_by: "version desc" is named twice; name each path once"#);
}

#[test]
fn keys_of_another_order_are_refused() {
    let (unordered, two) = (OrderBy::parse("", &SCHEMA).unwrap(), OrderBy::parse("version", &SCHEMA).unwrap());
    let encoded = key(&unordered, &resource("{}")).encode();
    assert!(two.decode(&encoded).is_err());
    assert!(unordered.decode(&[0xff]).is_err());
    assert!(unordered.decode(&[]).is_err());
}
