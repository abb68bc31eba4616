//! Sizes of pages, and tokens.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mortise_query::{Binding, Candidate, Direction, OrderBy, PageToken, SortKey, page_size};
use mortise_resource::EncodedResource;

use crate::common::{SCHEMA, resource};

fn boundary(order: &OrderBy, name: &str) -> SortKey {
    let mut listed = resource("{}");
    listed.id.as_mut().unwrap().name = name.into();
    let encoded = EncodedResource::encode(&listed).unwrap();
    order.key(&Candidate::new(&encoded, &SCHEMA)).unwrap()
}

#[test]
fn sizes() {
    let rows = [(0, Some(100)), (1, Some(1)), (1_000, Some(1_000)), (i32::MAX, Some(1_000)), (-1, None)];
    for (requested, expected) in rows {
        assert_eq!(page_size(requested).ok(), expected);
    }
    assert_eq!(
        page_size(-5).unwrap_err().to_string(),
        "page_size: -5 is negative; use 0 for the default, or at least 1"
    );
}

#[test]
fn a_token_comes_back_as_it_was() {
    let order = OrderBy::parse("data.track_count desc", &SCHEMA).unwrap();
    let binding = Binding::new(&[b"type", b"filter"]);
    let next = PageToken::after(boundary(&order, "m"));
    let text = next.encode(&binding);
    assert!(text.starts_with("r.e.S."), "{text}");
    assert_eq!(PageToken::decode(&text, &binding, &order).unwrap(), next);
    let previous = next.flipped();
    assert!(previous.encode(&binding).starts_with("l.i.S."));
    assert_eq!(previous, PageToken::up_to(boundary(&order, "m")));
    assert_eq!((previous.direction, previous.is_inclusive), (Direction::Left, true));
    // Ties are in descending order of the names.
    for (name, after) in [("l", true), ("m", false), ("n", false)] {
        let key = boundary(&order, name);
        assert_eq!((next.admits(&key), previous.admits(&key)), (after, !after), "{name}");
    }
}

#[test]
fn faults_say_which_part_is_bad() {
    let order = OrderBy::parse("", &SCHEMA).unwrap();
    let binding = Binding::new(&[b"a"]);
    let good = PageToken::after(boundary(&order, "m")).encode(&binding);
    let value = good.strip_prefix("r.e.S.").unwrap();
    let other = STANDARD.encode([STANDARD.decode(value).unwrap().get(..16).unwrap(), &[0xff]].concat());
    let rows = [
        (String::new(), "it does not have four parts"),
        ("r.e.S".into(), "it does not have four parts"),
        (format!("{good}.x"), "it does not have four parts"),
        (format!("x.e.S.{value}"), "its direction is neither l nor r"),
        (format!("r.x.S.{value}"), "its inclusion is neither i nor e"),
        (format!("r.e.O.{value}"), "its kind is not S"),
        ("r.e.S.%".into(), "its value is not base64"),
        ("r.e.S.AAAA".into(), "its value is too short"),
        (format!("r.e.S.{other}"), "its value is not a position in this order"),
    ];
    for (text, fault) in rows {
        let error = PageToken::decode(&text, &binding, &order).unwrap_err();
        assert!(error.to_string().starts_with(&format!("page_token: {fault}")), "{error}");
    }
    // Parts have borders: moving a byte from one part to the next makes another query.
    for parts in [[b"ab".as_slice(), b""], [b"a", b"b"], [b"", b"ab"]] {
        let error = PageToken::decode(&good, &Binding::new(&parts), &order).unwrap_err();
        assert!(error.to_string().contains("it belongs to another query"), "{error}");
    }
    assert_ne!(Binding::new(&[b"ab", b""]), Binding::new(&[b"a", b"b"]));
}
