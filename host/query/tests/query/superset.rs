//! Extensions of goten's language: patterns of texts, conditions on one message of a list, keys in quotes, the mask
//! `*`.

use mortise_query::{Candidate, Mask, OrderBy};
use mortise_resource::EncodedResource;

use crate::common::{SCHEMA, check, resource};

#[test]
fn texts_have_beginnings_and_patterns() {
    let candidate = resource(r#"{"title": "Kind of 100%_Blue", "wrappedText": "w"}"#);
    check(
        &candidate,
        &[
            (r#"data.title STARTS_WITH "Kind""#, true),
            (r#"data.title STARTS_WITH "kind""#, false),
            (r#"data.title STARTS_WITH """#, true),
            (r#"data.title LIKE "Kind%""#, true),
            (r#"data.title LIKE "%of%Blue""#, true),
            (r#"data.title LIKE "%Blue%of%""#, false),
            (r#"data.title LIKE "Kind""#, false),
            (r#"NOT data.title LIKE "Kind""#, true),
            (r#"data.title LIKE "%100\\%\\_Bl%""#, true),
            (r#"data.wrapped_text LIKE "w%" data.word LIKE "" data.inner.name LIKE "%""#, true),
            (r#"id.name STARTS_WITH "d" meta.labels.region LIKE "e%""#, true),
            (r#"meta.labels.none STARTS_WITH "e""#, false),
            (r#"data.inners.name STARTS_WITH """#, false),
        ],
    );
}

#[test]
fn conditions_on_one_message_of_a_list() {
    let candidate = resource(
        r#"{"inners": [{"name": "a", "count": 1, "tags": ["x"]},
                       {"name": "b", "count": 2, "below": {"name": "c"}}]}"#,
    );
    check(
        &candidate,
        &[
            (r#"data.inners.name = "a" data.inners.count = 2"#, true),
            (r#"data.inners CONTAINS (name = "a" count = 2)"#, false),
            (r#"data.inners CONTAINS (name = "b" AND count = 2 AND below.name = "c")"#, true),
            (r#"data.inners HAS (name = "a" tags CONTAINS "x")"#, true),
            (r#"data.inners HAS (name = "b" tags CONTAINS "x")"#, false),
            (r#"data.inners HAS (NOT name = "a" | count = 9)"#, true),
            (r#"NOT data.inners HAS (count > 2)"#, true),
            (r#"data.inners HAS (below IS NULL)"#, true),
            (r#"meta.owner_references HAS (name = "two" controller = TRUE)"#, true),
            (r#"meta.owner_references HAS (name = "one" controller = TRUE)"#, false),
            (r#"data.inner.tags IS NULL"#, true),
        ],
    );
    check(&resource("{}"), &[(r#"data.inners HAS (count < 9)"#, false), (r#"NOT data.inners HAS (count < 9)"#, true)]);
}

#[test]
fn quoted_keys_are_named_everywhere() {
    let mut candidate = resource(r#"{"byNumber": {"-5": "five"}, "parts": {"0 é": {"name": "p"}}}"#);
    candidate.metadata.insert("a, b".into(), "v".into());
    let labels = &mut candidate.meta.as_mut().unwrap().labels;
    labels.extend([("0abc".to_owned(), "1".to_owned()), ("ключ".to_owned(), "2".to_owned())]);
    check(
        &candidate,
        &[
            (r#"meta.labels."0abc" = "1" meta.labels["ключ"] = "2""#, true),
            (r#"meta.labels."0abc" = "2""#, false),
            (r#"data.by_number."-5" = "five""#, true),
            (r#"data.by_number."7" IS NULL"#, true),
            (r#"data.parts."0 é".name = "p""#, true),
            (r#"metadata."a, b" IN ["v"]"#, true),
        ],
    );
    let encoded = EncodedResource::encode(&candidate).unwrap();
    let order = |text: &str| {
        let order = OrderBy::parse(text, &SCHEMA).map_err(|fault| fault.to_string())?;
        Ok::<_, String>(order.key(&Candidate::new(&encoded, &SCHEMA)).unwrap())
    };
    let plain = order(r"metadata.k desc").unwrap();
    assert_eq!(order(r#"metadata."a, b" desc"#).unwrap(), plain);
    assert_eq!(order(r#" metadata["a, b"]   DESC , name desc"#).unwrap(), plain);
    assert_ne!(order(r#"data.parts."0 é".name,metadata."a, b""#).unwrap(), plain);
    assert!(order(r#"metadata."a, b" desc x"#).unwrap_err().contains("more than two words"));
    let mask = |path: &str| Mask::parse(&[path.to_owned()], &SCHEMA).unwrap().project(&candidate).unwrap();
    assert_eq!(mask(r#"metadata."a, b""#).metadata.len(), 1);
    assert_eq!(mask(r#"meta.labels."0abc""#).meta.unwrap().labels, [("0abc".to_owned(), "1".to_owned())].into());
}

#[test]
fn an_asterisk_masks_everything() {
    let candidate = resource(r#"{"title": "x"}"#);
    let all = ["*".to_owned()];
    let both = ["data.title".to_owned(), "*".to_owned()];
    for paths in [&all[..], &both] {
        let mask = Mask::parse(paths, &SCHEMA).unwrap();
        assert!(mask.is_everything());
        assert_eq!(mask.project(&candidate).unwrap(), candidate);
        let incoming = resource(r#"{"trackCount": 3}"#);
        let write = |paths| Mask::parse_write(paths, &SCHEMA).unwrap().update(&candidate, &incoming).unwrap();
        assert_eq!(write(paths), write(&[]));
    }
    assert!(Mask::parse(&["*".to_owned(), "nope".to_owned()], &SCHEMA).is_err());
}
