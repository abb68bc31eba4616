//! Changes by masks of writes.

use mortise_query::Mask;
use mortise_resource::{goten, pb};

use crate::common::{SCHEMA, album, json, map, resource};

fn mask(paths: &[&str]) -> Mask {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    Mask::parse_write(&paths, &SCHEMA).unwrap()
}

/// The data after an update, and nothing else changed.
fn updated(stored: &str, incoming: &str, paths: &[&str]) -> String {
    let (stored, incoming) = (resource(stored), pb::Resource { data: Some(album(incoming)), ..Default::default() });
    let found = mask(paths).update(&stored, &incoming).unwrap();
    let data = found.data.clone().unwrap();
    assert_eq!(pb::Resource { data: stored.data.clone(), ..found }, stored);
    json(&data)
}

#[test]
fn only_masked_paths_change() {
    let stored = r#"{"title": "x", "trackCount": 3, "texts": {"k": "v", "l": "w"}, "inner": {"name": "n", "count": 1},
        "names": ["a", "b"], "word": "w", "parts": {"one": {"name": "p", "count": 2}}}"#;
    let rows: [(&str, &[&str], &str); 12] = [
        (r#"{"title": "y"}"#, &["data.title"], r#""title":"y""#),
        ("{}", &["data.title"], ""),
        (r#"{"names": ["c"]}"#, &["data.names"], r#""names":["c"]"#),
        (r#"{"texts": {"m": "n"}}"#, &["data.texts"], r#""texts":{"m":"n"}"#),
        (r#"{"texts": {"k": "new", "m": "n"}}"#, &["data.texts.k"], r#""texts":{"k":"new","l":"w"}"#),
        ("{}", &["data.texts.k"], r#""texts":{"l":"w"}"#),
        (r#"{"inner": {"name": "m"}}"#, &["data.inner.name"], r#""inner":{"count":1,"name":"m"}"#),
        ("{}", &["data.inner.name"], r#""inner":{"count":1}"#),
        (r#"{"inner": {"name": "m"}}"#, &["data.inner"], r#""inner":{"name":"m"}"#),
        (r#"{"number": 5}"#, &["data.number"], r#""number":5"#),
        (
            r#"{"parts": {"one": {"name": "q"}, "two": {"name": "r"}}}"#,
            &["data.parts.one.name", "data.parts.two.name"],
            r#""parts":{"one":{"count":2,"name":"q"},"two":{"name":"r"}}"#,
        ),
        (r#"{"chosen": {"name": "c", "count": 4}}"#, &["data.chosen.name"], r#""chosen":{"name":"c"}"#),
    ];
    let field = |text: &str| text.split('"').nth(1).map(str::to_owned);
    for (incoming, paths, expected) in rows {
        let found: serde_json::Value = serde_json::from_str(&updated(stored, incoming, paths)).unwrap();
        let name = field(expected).unwrap_or_else(|| "title".into());
        let shown = found.get(&name).map(|value| format!("{name:?}:{value}")).unwrap_or_default();
        assert_eq!(shown, expected, "{incoming} {paths:?}");
        // The other members of a oneof are cleared; other fields stay.
        let oneof = ["number", "chosen"].contains(&name.as_str());
        assert_eq!(found.get("word").is_none(), oneof, "{found}");
        assert!(name == "trackCount" || found.get("trackCount").is_some());
    }
    // A member of a oneof that is cleared leaves the others alone.
    assert!(updated(stored, "{}", &["data.number"]).contains(r#""word":"w""#));
}

#[test]
fn the_servers_fields_are_dropped_and_meta_is_what_clients_write() {
    let stored = resource(r#"{"title": "x"}"#);
    let incoming = pb::Resource {
        version: "other".into(),
        metadata: map(&[("n", "m")]),
        meta: Some(Box::new(goten::Meta {
            uuid: "mine".into(),
            generation: 99,
            labels: map(&[("new", "label")]),
            ..Default::default()
        })),
        ..Default::default()
    };
    let server = [
        "id",
        "name",
        "id.uid",
        "version",
        "generation",
        "status",
        "status.sync.conditions.state",
        "schema_version",
        "meta.create_time",
        "meta.uuid",
        "meta.shards",
        "meta.shards.a",
        "meta.lifecycle.state",
        "meta.syncing.regions",
        "meta.deleteTime",
    ];
    assert!(mask(&server).is_nothing());
    assert_eq!(mask(&server).update(&stored, &incoming).unwrap(), stored);
    let found = mask(&["meta", "version"]).update(&stored, &incoming).unwrap();
    let (old, new) = (stored.meta.clone().unwrap(), found.meta.clone().unwrap());
    assert_eq!(new.labels, map(&[("new", "label")]));
    assert_eq!((new.tags, new.owner_references, new.services), (vec![], vec![], None));
    assert_eq!((new.uuid, new.generation, new.create_time, new.shards), (old.uuid, 4, old.create_time, old.shards));
    assert_eq!(
        (found.version, found.metadata, found.data),
        ("17".into(), stored.metadata.clone(), stored.data.clone())
    );
    // Without a mask, everything that a client may write is replaced.
    let found = mask(&[]).update(&stored, &incoming).unwrap();
    assert_eq!(
        (found.id, found.version, found.status),
        (stored.id.clone(), stored.version.clone(), stored.status.clone())
    );
    assert_eq!((found.metadata, found.data, found.owner), (map(&[("n", "m")]), None, None));
    assert_eq!(found.meta.unwrap().generation, 4);
}

#[test]
fn what_cannot_be_written_is_refused() {
    for path in [
        "data.inners.name",
        "meta.owner_references.name",
        "meta.createTime.seconds",
        "data.released.seconds",
        "data.nope",
    ] {
        assert!(Mask::parse_write(&[path.to_owned()], &SCHEMA).is_err(), "{path}");
    }
}

#[test]
fn what_is_unknown_survives_and_bytes_are_canonical() {
    let unknown = [0xd2, 0x85, 0xd8, 0xcc, 0x04, 0x02, b'h', b'i'];
    let mut stored = resource(r#"{"title": "x", "trackCount": 3, "inner": {"name": "n"}}"#);
    stored.data.as_mut().unwrap().value.extend_from_slice(&unknown);
    let incoming = pb::Resource { data: Some(album(r#"{"title": "y", "inner": {"count": 5}}"#)), ..Default::default() };
    let found = mask(&["data.title", "data.inner.count"]).update(&stored, &incoming).unwrap();
    let value = &found.data.as_ref().unwrap().value;
    assert!(value.ends_with(&unknown), "{value:?}");
    let mut expected = album(r#"{"title": "y", "trackCount": 3, "inner": {"name": "n", "count": 5}}"#).value;
    expected.extend_from_slice(&unknown);
    assert_eq!(*value, expected);
    // The same again changes nothing.
    assert_eq!(mask(&["data.title", "data.inner.count"]).update(&found, &incoming).unwrap(), found);
    // Missing data is created.
    let empty = pb::Resource { data: None, ..stored };
    let found = mask(&["data.title"]).update(&empty, &incoming).unwrap();
    assert_eq!(found.data.unwrap(), album(r#"{"title": "y"}"#));
    assert_eq!(mask(&["data.title"]).update(&empty, &empty).unwrap(), empty);
}

#[test]
fn choosing_a_member_of_a_oneof_clears_the_others() {
    let rows: [(&str, &str, &[&str], &str); 6] = [
        (
            r#"{"first": {"name": "c", "count": 1}}"#,
            r#"{"second": "s"}"#,
            &["data.first.name", "data.second"],
            r#"{"second":"s"}"#,
        ),
        (r#"{"number": 5}"#, r#"{"word": "w"}"#, &["data.word"], r#"{"word":"w"}"#),
        (r#"{"chosen": {"name": "c"}}"#, r#"{"word": "w"}"#, &["data.word"], r#"{"word":"w"}"#),
        (r#"{"word": "w"}"#, r#"{"number": 0}"#, &["data.word", "data.number"], r#"{"number":0}"#),
        (r#"{"chosen": {"name": "c"}}"#, r#"{"number": 5}"#, &["data.chosen.name", "data.number"], r#"{"number":5}"#),
        (r#"{"chosen": {"name": "c"}}"#, "{}", &["data.number"], r#"{"chosen":{"name":"c"}}"#),
    ];
    for (stored, incoming, paths, expected) in rows {
        assert_eq!(updated(stored, incoming, paths), expected, "{stored} {incoming} {paths:?}");
        // The bytes hold no cleared member either, which a decoder would hide.
        let incoming = pb::Resource { data: Some(album(incoming)), ..Default::default() };
        let found = mask(paths).update(&resource(stored), &incoming).unwrap();
        assert_eq!(found.data, Some(album(expected)));
    }
}

/// A few fields of each kind, some of them there.
fn random_album(random: &mut fastrand::Rng) -> String {
    let parts = [
        r#""title": "a""#,
        r#""plays": "5""#,
        r#""inner": {"name": "n", "below": {"count": 1}}"#,
        r#""inner": {"count": 2, "tags": ["t"]}"#,
        r#""names": ["x", "y"]"#,
        r#""inners": [{"name": "z"}]"#,
        r#""texts": {"k": "v", "l": "w"}"#,
        r#""texts": {"k": "u"}"#,
        r#""parts": {"one": {"name": "p", "count": 3}}"#,
        r#""word": "w""#,
        r#""number": 7"#,
        r#""chosen": {"name": "c"}"#,
        r#""released": "2020-01-01T00:00:00Z""#,
        r#""maybe": 0"#,
    ];
    let mut taken: Vec<&str> = Vec::new();
    for part in parts {
        let key = |part: &str| part.split('"').nth(1).map(str::to_owned);
        let oneof = |part: &str| ["word", "number", "chosen"].contains(&key(part).unwrap_or_default().as_str());
        let is_free = taken.iter().all(|other| key(other) != key(part) && !(oneof(other) && oneof(part)));
        if is_free && random.bool() {
            taken.push(part);
        }
    }
    format!("{{{}}}", taken.join(","))
}

#[test]
fn what_is_masked_becomes_the_incoming_and_the_rest_stays() {
    let mut random = fastrand::Rng::with_seed(3);
    let paths = [
        "data.title",
        "data.plays",
        "data.inner",
        "data.inner.name",
        "data.inner.below.count",
        "data.names",
        "data.inners",
        "data.texts",
        "data.texts.k",
        "data.parts.one",
        "data.parts.one.name",
        "data.released",
        "data.maybe",
        "data.word",
        "data.chosen",
    ];
    for _ in 0..3_000 {
        let chosen: Vec<&str> = paths.into_iter().filter(|_| random.u32(..4) == 0).collect();
        if chosen.is_empty() {
            continue;
        }
        let (stored, incoming) = (resource(&random_album(&mut random)), resource(&random_album(&mut random)));
        let found = mask(&chosen).update(&stored, &incoming).unwrap();
        let read = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            Mask::parse(&paths, &SCHEMA).unwrap()
        };
        assert!(read(&chosen).is_equal(&found, &incoming).unwrap(), "{chosen:?} {stored:?} {incoming:?} {found:?}");
        // Members of the oneof depend on one another.
        let others: Vec<&str> = paths
            .into_iter()
            .filter(|path| !["data.word", "data.chosen"].contains(path))
            .filter(|path| !chosen.iter().any(|chosen| path.starts_with(chosen) || chosen.starts_with(path)))
            .collect();
        if !others.is_empty() {
            assert!(read(&others).is_equal(&found, &stored).unwrap(), "{others:?} {stored:?} {incoming:?} {found:?}");
        }
        // Writing the same again changes nothing.
        assert_eq!(mask(&chosen).update(&found, &incoming).unwrap(), found);
    }
}
