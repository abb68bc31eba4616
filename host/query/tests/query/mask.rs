//! Results of masks and views.

use mortise_query::{Mask, Schema};
use mortise_resource::{goten::View, pb};

use crate::common::{SCHEMA, json, map, message, resource};

fn paths(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn project(full: &pb::Resource, mask: &[&str]) -> pb::Resource {
    Mask::parse(&paths(mask), &SCHEMA).unwrap().project(full).unwrap()
}

#[test]
fn an_empty_mask_shows_everything() {
    let full = resource(r#"{"title": "x"}"#);
    assert_eq!(project(&full, &[]), full);
    assert!(Mask::parse(&[], &SCHEMA).unwrap().is_everything());
}

#[test]
fn the_id_is_always_there() {
    let full = resource(r#"{"title": "x"}"#);
    let only_id = pb::Resource { id: full.id.clone(), ..Default::default() };
    assert_eq!(project(&full, &["name"]), only_id);
    assert_eq!(project(&full, &["id.uid"]), only_id);
    assert_eq!(project(&full, &["version"]), pb::Resource { version: full.version.clone(), ..only_id });
}

#[test]
fn data_is_shown_in_part() {
    let full = resource(
        r#"{"title": "x", "trackCount": 3, "texts": {"k": "v", "l": "w"}, "byNumber": {"-5": "five", "6": "six"},
            "inner": {"name": "n", "count": 1}, "inners": [{"name": "a", "count": 1}, {"name": "b"}, {"count": 2}],
            "parts": {"one": {"name": "p", "count": 2}, "two": {"name": "q"}}, "byBool": {"true": "1", "false": "2"},
            "bySigned": {"-7": {"name": "s", "count": 3}}, "names": ["y"]}"#,
    );
    let rows: [(&[&str], &str); 10] = [
        (&["data.title"], r#"{"title":"x"}"#),
        (&["data.texts.k", "data.texts.absent"], r#"{"texts":{"k":"v"}}"#),
        (&["data.byNumber.-5"], r#"{"byNumber":{"-5":"five"}}"#),
        (&["data.by_bool.true"], r#"{"byBool":{"true":"1"}}"#),
        (&["data.inner.count", "data.names"], r#"{"inner":{"count":1},"names":["y"]}"#),
        (&["data.inners.name"], r#"{"inners":[{"name":"a"},{"name":"b"},{}]}"#),
        (&["data.parts.one.count"], r#"{"parts":{"one":{"count":2}}}"#),
        (&["data.by_signed.-7.name"], r#"{"bySigned":{"-7":{"name":"s"}}}"#),
        (&["data.inner.name", "data.inner"], r#"{"inner":{"count":1,"name":"n"}}"#),
        (&["data.inner", "data.inner.name"], r#"{"inner":{"count":1,"name":"n"}}"#),
    ];
    for (mask, expected) in rows {
        let shown = project(&full, mask);
        let data = shown.data.unwrap();
        assert_eq!(data.type_url, "type.googleapis.com/test.v1.Album");
        assert_eq!(json(&data), expected, "{mask:?}");
        assert_eq!((shown.version.as_str(), shown.meta), ("", None));
    }
    assert_eq!(project(&full, &["data"]).data, full.data);
    assert_eq!(project(&pb::Resource { data: None, ..full }, &["data.title"]).data, None);
}

#[test]
fn the_rest_is_shown_in_part() {
    let full = resource("{}");
    let shown =
        project(&full, &["meta.labels.region", "meta.labels.none", r"metadata.a\.b", "meta.ownerReferences.name"]);
    let meta = shown.meta.unwrap();
    assert_eq!((meta.labels, shown.metadata), (map(&[("region", "eu")]), map(&[("a.b", "dotted")])));
    let names: Vec<_> = meta.owner_references.iter().map(|owner| (owner.name.as_str(), owner.kind.as_str())).collect();
    assert_eq!(names, [("one", ""), ("two", "")]);
    let shown = project(&full, &["status.sync.conditions.state"]);
    assert_eq!(shown.status["sync"].conditions[0], pb::Condition { state: 1, ..Default::default() });
}

#[test]
fn views_add_their_paths() {
    let full = resource(r#"{"title": "x", "trackCount": 3}"#);
    let basic = paths(&["data.title"]);
    let shown = |view, declared: Option<&[String]>, mask: &[&str]| {
        Mask::of_view(view, declared, &paths(mask), &SCHEMA).unwrap().project(&full).unwrap()
    };
    let data = |view, declared, mask: &[&str]| shown(view, declared, mask).data.map(|data| json(&data));
    assert_eq!(shown(View::Full, None, &["version"]), full);
    assert_eq!(shown(View::Unspecified, None, &[]), full);
    assert_eq!(shown(View::Basic, None, &[]), full);
    assert_eq!(shown(View::Name, None, &[]), pb::Resource { id: full.id.clone(), ..Default::default() });
    assert_eq!(shown(View::Name, None, &["version"]).version, "17");
    assert_eq!(data(View::Basic, Some(&basic), &[]).unwrap(), r#"{"title":"x"}"#);
    assert_eq!(data(View::Detail, Some(&basic), &["data.trackCount"]).unwrap(), r#"{"title":"x","trackCount":3}"#);
    assert_eq!(data(View::Basic, None, &["data.trackCount"]).unwrap(), r#"{"trackCount":3}"#);
}

#[test]
fn what_is_unknown_survives_where_it_is_shown_whole() {
    let mut full = resource(r#"{"inner": {"name": "n"}}"#);
    let unknown = [0xd2, 0x85, 0xd8, 0xcc, 0x04, 0x02, b'h', b'i'];
    full.data.as_mut().unwrap().value.extend_from_slice(&unknown);
    assert_eq!(Mask::of_view(View::Full, None, &[], &SCHEMA).unwrap().project(&full).unwrap(), full);
    assert_eq!(project(&full, &["data"]).data, full.data);
    assert_eq!(json(&project(&full, &["data.inner"]).data.unwrap()), r#"{"inner":{"name":"n"}}"#);
}

#[test]
fn removed_fields_are_skipped() {
    let full = resource(r#"{"title": "x"}"#);
    let shown = project(&full, &["data.old_title", "data.oldTitle", "data.old-title", "data.title"]);
    assert_eq!(json(&shown.data.unwrap()), r#"{"title":"x"}"#);
    assert_eq!(project(&full, &["data.old_title"]), pb::Resource { id: full.id.clone(), ..Default::default() });
    assert!(Mask::parse_write(&paths(&["data.oldTitle"]), &SCHEMA).unwrap().is_nothing());
    assert!(Mask::parse(&paths(&["data.oldTitles"]), &SCHEMA).is_err());
    assert!(mortise_query::Path::parse("data.old_title", &SCHEMA).is_err());
}

#[test]
fn faults() {
    let fault = |mask: &[&str]| Mask::parse(&paths(mask), &SCHEMA).unwrap_err().to_string();
    assert!(fault(&["data.nope"]).starts_with(r#"path "data.nope": "#));
    assert!(fault(&["meta.create_time.seconds"]).starts_with(r#"path "meta.create_time.seconds": "#));
    let many = vec!["version".to_owned(); 1_001];
    assert!(Mask::parse(&many, &SCHEMA).unwrap_err().to_string().contains("at most 1000 are allowed"));
    let mut full = resource("{}");
    let mask = Mask::parse(&paths(&["data.title"]), &SCHEMA).unwrap();
    full.data.as_mut().unwrap().value = vec![0x0a, 0xff];
    assert!(mask.project(&full).unwrap_err().to_string().starts_with("the resource cannot be decoded: "));
    full.data = Some(message("test.v1.Old", "{}"));
    assert!(mask.project(&full).unwrap_err().to_string().contains("test.v1.Old"));
    // Without knowing the message, data is shown whole or not at all.
    let unknown = Mask::parse(&paths(&["data"]), &Schema::new(None)).unwrap();
    assert_eq!(unknown.project(&full).unwrap().data, full.data);
}
