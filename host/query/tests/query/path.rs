//! Paths: the fields that they lead to, and the errors of paths that lead to none.

use mortise_query::{Filter, Mask, OrderBy, Path, Schema};

use crate::common::SCHEMA;

#[test]
fn every_spelling_leads_to_the_same_field() {
    for (texts, canonical) in [
        (["data.track_count", "data.trackCount", "data.track-count"], "data.track_count"),
        (["meta.create_time", "meta.createTime", "meta.create-time"], "meta.create_time"),
        (
            [
                "meta.owner_references.unset_on_delete",
                "meta.ownerReferences.unsetOnDelete",
                "meta.owner-references.unset-on-delete",
            ],
            "meta.owner_references.unset_on_delete",
        ),
        (["data.parts.a-b.count", "data.parts.a-b.count", "data.parts.a-b.count"], "data.parts.a-b.count"),
    ] {
        for text in texts {
            assert_eq!(Path::parse(text, &SCHEMA).unwrap().to_string(), canonical);
        }
    }
}

#[test]
fn keys_are_literal_and_dots_in_them_are_escaped() {
    for text in [
        "metadata.trackCount",
        r"metadata.a\.b",
        r"meta.labels.example\.com/x",
        "status.sync.conditions.state",
        r#"metadata."a.[\"b""#,
        r#"metadata."a\"b""#,
        r#"metadata."a\\""#,
        r#"metadata."""#,
        r#"data.by_number."-5""#,
        "data.by_bool.true",
        r#"data.by_signed."7".name"#,
        "name",
        "data",
        "meta.shards.byName",
        "data.extra.fields.k.string_value",
    ] {
        assert_eq!(Path::parse(text, &SCHEMA).unwrap().to_string(), text);
    }
}

/// The canonical form of any key leads to the same key, in paths, filters, orders and masks.
#[test]
fn canonical_forms_are_read_back_everywhere() {
    const LETTERS: &[&str] = &[
        "a", "Z", "7", "_", "-", "/", ".", " ", "\"", "\\", "[", "]", "'", ",", "é", "ключ", "\n", "\0", "\u{7f}",
        "desc",
    ];
    let random = &mut fastrand::Rng::with_seed(47);
    let mut quoted = 0;
    for _ in 0..4_000 {
        let key: String = (0..random.usize(..6)).map(|_| LETTERS[random.usize(..LETTERS.len())]).collect();
        let number = random.i32(..).to_string();
        for text in [
            format!("metadata[{key:?}]"),
            format!("meta.labels[{key:?}]"),
            format!("data.parts[{key:?}].name"),
            format!("status[{key:?}].conditions.state"),
            format!("data.parts.x.more[{key:?}].more[{key:?}].count"),
            format!("data.by_number[{number:?}]"),
            format!("data.by_bool[\"{}\"]", random.bool()),
        ] {
            let path = Path::parse(&text, &SCHEMA).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            let written = path.to_string();
            quoted += usize::from(written.contains('"'));
            let again = Path::parse(&written, &SCHEMA).unwrap_or_else(|fault| panic!("{text}: {written}: {fault}"));
            // Steps have no equality of their own.
            assert_eq!(format!("{again:?}"), format!("{path:?}"), "{text}");
            Filter::parse(&format!("{written} IS NOT NULL AND NOT {written} IS NULL"), &SCHEMA)
                .unwrap_or_else(|fault| panic!("{text}: {fault}"));
            if !written.contains("conditions") {
                OrderBy::parse(&format!("{written} desc, name"), &SCHEMA)
                    .unwrap_or_else(|fault| panic!("{text}: {fault}"));
            }
            Mask::parse(std::slice::from_ref(&written), &SCHEMA).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        }
    }
    assert!(quoted > 10_000, "{quoted}");
}

#[test]
fn faults_name_the_path_and_the_fault() {
    let rows = [
        ("", r#"path "": it is empty; name a field"#),
        (
            "data.names[0]",
            r#"path "data.names[0]": [0] is a position, and a path leads into each item of a list; leave it out"#,
        ),
        ("metadata[a]", r#"path "metadata[a]": brackets hold a position or a key in quotes; write a[3] or a["key"]"#),
        ("data..title", r#"path "data..title": a segment is empty; write a.b"#),
        ("data.title.", r#"path "data.title.": a segment is empty; write a.b"#),
        ("data.titel", r#"path "data.titel": test.v1.Album has no field "titel""#),
        (
            "metadata.a.b",
            r#"path "metadata.a.b": "b" follows a map's key, and the map's values have no fields; write a dot in a key as \."#,
        ),
        ("data.title.x", r#"path "data.title.x": "x" follows a value that has no fields; end the path before it"#),
        ("data.names.x", r#"path "data.names.x": "x" follows a list of values without fields; end the path before it"#),
        (
            "meta.create_time.seconds",
            r#"path "meta.create_time.seconds": "seconds" follows a value that has no fields; end the path before it"#,
        ),
        ("data.by_number.x", r#"path "data.by_number.x": "x" is not a key of the map; its keys are numbers"#),
        ("data.type_url", r#"path "data.type_url": test.v1.Album has no field "type_url""#),
        ("name.x", r#"path "name.x": name has no fields; write name alone"#),
        (
            "data.inner.nope",
            r#"path "data.inner.nope": test.v1.Inner has no field "nope"; it has name, count, below, tags, more"#,
        ),
    ];
    for (text, fault) in rows {
        assert_eq!(Path::parse(text, &SCHEMA).unwrap_err().to_string(), fault);
    }
    let unknown = Schema::new(None);
    assert!(Path::parse("data", &unknown).is_ok());
    assert_eq!(
        Path::parse("data.x", &unknown).unwrap_err().to_string(),
        r#"path "data.x": the message of the type's data is not known"#
    );
    assert!(Path::parse(&"a.".repeat(5_000), &SCHEMA).unwrap_err().to_string().contains("bytes; at most"));
    assert!(
        Path::parse(&format!("data.inner{}", ".below".repeat(70)), &SCHEMA)
            .unwrap_err()
            .to_string()
            .contains("at most 64 are allowed")
    );
}
