//! JSON.

use mortise_text::{Format::Json, Source, parse};
use prost_reflect::Value;

use crate::common::{data, documents, faults, resource, types};

fn names(text: &str) -> Vec<String> {
    documents(text, Json).into_iter().map(|document| document.resource.id.unwrap().name).collect()
}

#[test]
fn several_documents_come_in_every_usual_shape() {
    let concept = |name: &str| format!(r#"{{"type":"demo.v1.Concept","name":"{name}"}}"#);
    let (a, b) = (concept("a"), concept("b"));
    for text in [
        format!("{a}{b}"),
        format!("{a}\n{b}\n"),
        format!("\u{feff}\n\t{a}\r\n\r\n{b}"),
        format!("[{a},{b}]"),
        format!("{{\"resources\": [{a},\n{b}]}}"),
        format!("[{a}] {{\"resources\":[{b}]}}"),
        format!("{{\"resource\": {a}}} {{\"resource\":\n{b}}}"),
    ] {
        assert_eq!(names(&text), ["a", "b"], "{text}");
    }
    assert!(names("").is_empty());
    assert!(names(" \n").is_empty());
    assert!(names(r#"{"resources":[]}"#).is_empty());
    assert!(names(r#"{"resources":null}"#).is_empty());
}

/// Consul's requests name the peer of a resource.
#[test]
fn the_local_peer_is_passed_over_and_no_other_one() {
    let text = |key: &str, peer: &str| {
        format!(
            "{{\"resource\":{{\"id\":{{\"type\":{{\"group\":\"demo\",\"groupVersion\":\"v1\",\"kind\":\"Concept\"}},\"name\":\"x\",\n\
             \"tenancy\":{{\"partition\":\"a\",\"{key}\":\"{peer}\"}}}}}}}}"
        )
    };
    for (key, peer) in [("peerName", "local"), ("peer_name", "local"), ("peer_name", "")] {
        let id = resource(&text(key, peer), Json).id.unwrap();
        assert_eq!(id.tenancy.unwrap().partition, "a", "{key} {peer}");
    }
    let fault = "f:2:40: id.tenancy.peer_name: \"there\" is another cluster, and there are no peers here; leave it out, or \
                 write \"local\"";
    assert_eq!(faults(&text("peer_name", "there"), Json), fault);
}

#[test]
fn strings_and_numbers_are_jsons_own() {
    let text = r#"{"id":{"type":{"group":"test","groupVersion":"v1","kind":"Everything"},"name":"x"},
        "data":{"aString":"\ud83d\ude00\u00e9\"\/\\\t","anInt64":"-9223372036854775808","aUint64":18446744073709551615,
        "anInt32":1.0e2,"aDouble":"NaN","aFloat":"-Infinity","byName":{"a\u0062":"c"}}}"#;
    let message = data(&resource(text, Json));
    let get = |name| message.get_field_by_name(name).unwrap().into_owned();
    assert_eq!(get("a_string"), Value::String("😀é\"/\\\t".into()));
    assert_eq!(get("an_int64"), Value::I64(i64::MIN));
    assert_eq!(get("a_uint64"), Value::U64(u64::MAX));
    assert_eq!(get("an_int32"), Value::I32(100));
    assert!(get("a_double").as_f64().unwrap().is_nan());
    assert_eq!(get("a_float"), Value::F32(f32::NEG_INFINITY));
    assert!(
        message
            .get_field_by_name("by_name")
            .unwrap()
            .as_map()
            .unwrap()
            .contains_key(&prost_reflect::MapKey::String("ab".into()))
    );
}

#[test]
fn what_is_not_json_is_refused_where_it_begins() {
    let head = "{\"type\":\"demo.v2.Album\",\"name\":\"x\",\n\"data\":{\"title\":";
    for (value, expected) in [
        ("\"\\ud83d\"}}", "f:2:24: not JSON: unexpected end of hex escape"),
        ("\"\\udc00\\ud800\"}}", "f:2:23: not JSON: lone leading surrogate in hex escape"),
        ("\"a\tb\"}}", "f:2:19: not JSON: control character (\\u0000-\\u001F) found while parsing a string"),
        ("'a'}}", "f:2:17: not JSON: expected value"),
        ("01}}", "f:2:18: not JSON: invalid number"),
        ("+1}}", "f:2:17: not JSON: expected value"),
        ("NaN}}", "f:2:17: not JSON: expected value"),
        ("\"a\",}}", "f:2:21: not JSON: trailing comma"),
        ("\"a\"", "f:2:19: not JSON: EOF while parsing an object"),
        ("\"a\"}} x", "f:2:23: not JSON: expected value"),
        ("1}}", "f:2:17: data.title: expected a string, found a number; put it in quotes"),
        ("true}}", "f:2:17: data.title: expected a string, found a boolean; put it in quotes"),
        ("\"a\",\"title\":\"b\"}}", "f:2:21: the key \"title\" occurs twice; the first is at line 2, column 9"),
        ("\"a\",\"yearOfRelease\":\"x\"}}", "f:2:37: data.year_of_release: expected a number, found a string"),
        (
            "\"a\",\"yearOfRelease\":1e99}}",
            "f:2:37: data.year_of_release: 1e99 is out of the range of int32, which is -2147483648 to 2147483647",
        ),
        ("\"a\",\"yearOfRelease\":\" 1\"}}", "f:2:37: data.year_of_release: expected a number, found a string"),
        ("\"a\"},\"id\":{}}", "f:2:27: id: the type is missing; write `\"type\": \"group.version.Kind\"`"),
    ] {
        let printed = faults(&format!("{head}{value}"), Json);
        assert!(printed.lines().any(|line| line == expected), "{value}\n{printed}\nnot\n{expected}");
    }
    assert_eq!(faults("{}", Json).split(';').next(), Some("f:1:1: \"id\" field need to be provided"));
}

#[test]
fn deep_and_wide_texts_end() {
    for text in [
        "[".repeat(1_000_000),
        "{\"a\":".repeat(1_000_000),
        format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)),
    ] {
        assert!(parse(Source { name: "f", text: &text }, Some(Json), types()).is_err());
    }
}
