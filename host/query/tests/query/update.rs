//! What masks of writes change.

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
        // The others of a oneof go; the rest stays.
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
    // Data that is not there yet is made.
    let empty = pb::Resource { data: None, ..stored };
    let found = mask(&["data.title"]).update(&empty, &incoming).unwrap();
    assert_eq!(found.data.unwrap(), album(r#"{"title": "y"}"#));
    assert_eq!(mask(&["data.title"]).update(&empty, &empty).unwrap(), empty);
}
