//! Schemas and instances: what the server prints is valid, what it refuses is not.
// One of the messages has every kind of field.

use crate::common::{message, pool, print, read, sink};
use mortise_text::schema::json_schema;
use prost_reflect::MessageDescriptor;
use serde_json::{Value, json};

fn validator(message: &MessageDescriptor) -> jsonschema::Validator {
    let schema = json_schema(message);
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Whether an instance is valid, and whether the server reads it.
fn both(message: &MessageDescriptor, validator: &jsonschema::Validator, instance: &Value) -> (bool, bool) {
    (validator.is_valid(instance), read(message, instance).is_ok())
}

/// A value of each field of the kitchen sink.
fn full() -> Value {
    json!({
        "aDouble": 1.5, "aFloat": -2.5, "anInt32": -1, "anInt64": "-9223372036854775808", "aUint32": 4294967295_u32,
        "aUint64": "18446744073709551615", "aSint32": -2147483648, "aSint64": "-5", "aFixed32": 6, "aFixed64": "7",
        "aSfixed32": -8, "aSfixed64": "-9", "aBool": true, "aString": "ü \" \n", "someBytes": "AP/+", "heat": "HEAT_COLDER",
        "old": "x", "perhaps": 0, "other-name": "y", "on": true,
        "doubles": [0.5, "NaN", "Infinity", "-Infinity"], "int64s": ["1", "-1"], "heats": ["NO", "HEAT_COLD", 77],
        "blobs": ["", "AA==", "AAA="], "drains": [{ "to": "sea" }, {}],
        "texts": { "a": "b", "": "" }, "byInt32": { "-1": { "metres": 3 } }, "byInt64": { "-9": "HEAT_COLD" },
        "byUint32": { "4294967295": 1.0 }, "byUint64": { "1": "AA==" }, "byBool": { "true": "2024-02-29T12:00:00Z" },
        "bySfixed64": { "5": { "aBool": true } },
        "drain": { "to": "river" }, "alone": "z",
        "at": "1999-11-16T00:00:00.123456789Z", "took": "-3.000000001s", "mask": "aString,nested.deeper",
        "structure": { "a": [1, null, { "b": "c" }] }, "value": [true], "list": [1, "x", null],
        "any": { "@type": "type.googleapis.com/kitchen.v1.Drain", "to": "sea" }, "empty": {}, "null": null,
        "maybeBool": false, "maybeString": "", "maybeBytes": "", "maybeInt32": 0, "maybeInt64": "0", "maybeUint32": 0,
        "maybeUint64": "0", "maybeFloat": 0.0, "maybeDouble": 0.0, "times": ["0001-01-01T00:00:00Z"],
        "inner": { "inner": { "inner": {} } }, "more": [{}, { "more": [{}] }],
        "deeper": { "nested": { "deeper": { "text": "t" } } }, "nothingAtAll": {},
    })
}

#[test]
fn what_the_server_prints_is_valid() {
    let sink = sink();
    let validator = validator(&sink);
    for instance in [
        full(),
        json!({}),
        json!({ "pipe": "p" }),
        json!({ "vapour": "NO" }),
        json!({ "value": null }),
        json!({ "aDouble": "NaN", "aFloat": "-Infinity" }),
        json!({ "any": { "@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s" } }),
    ] {
        let read = read(&sink, &instance).unwrap();
        let printed = print(&read);
        if let Err(e) = validator.validate(&printed) {
            panic!("{}: {e}: {printed}", e.instance_path());
        }
        assert!(validator.is_valid(&instance), "{instance}");
    }
    // All of the fields that can be set together were.
    let printed = print(&read(&sink, &full()).unwrap());
    let set = printed.as_object().unwrap().len();
    // Three more of the oneof, and null, which is left out where it is the default.
    assert_eq!(set + 4, sink.fields().len(), "{printed}");
}

#[test]
fn what_the_server_refuses_is_not_valid() {
    let sink = sink();
    let validator = validator(&sink);
    for instance in [
        json!(7),
        json!([]),
        json!("x"),
        json!({ "unknown": 1 }),
        json!({ "aString": 1 }),
        json!({ "aBool": "true" }),
        json!({ "anInt32": 2147483648_i64 }),
        json!({ "anInt32": 1.5 }),
        json!({ "aUint32": -1 }),
        json!({ "aUint64": "-1" }),
        json!({ "anInt64": "1.5" }),
        json!({ "anInt64": "x" }),
        json!({ "aDouble": "fast" }),
        json!({ "someBytes": "*" }),
        json!({ "someBytes": "A" }),
        json!({ "someBytes": "+_AA" }),
        json!({ "heat": "HEAT_UNKNOWN" }),
        json!({ "heat": 2147483648_i64 }),
        json!({ "heat": true }),
        json!({ "doubles": 1.5 }),
        json!({ "drains": {} }),
        json!({ "drains": [{ "unknown": 1 }] }),
        json!({ "texts": [] }),
        json!({ "texts": { "a": 1 } }),
        json!({ "byInt32": { "x": {} } }),
        json!({ "byUint32": { "-1": 1.0 } }),
        json!({ "byBool": { "yes": "2024-02-29T12:00:00Z" } }),
        json!({ "pipe": "p", "drain": {} }),
        json!({ "pipe": "p", "vapour": "NO" }),
        json!({ "took": "3" }),
        json!({ "took": 3 }),
        json!({ "at": 3 }),
        json!({ "structure": [] }),
        json!({ "list": {} }),
        json!({ "any": {} }),
        json!({ "maybeInt32": "x" }),
        json!({ "inner": { "more": [{ "aString": 1 }] } }),
    ] {
        assert_eq!(both(&sink, &validator, &instance), (false, false), "{instance}");
    }
}

#[test]
fn both_forms_of_numbers_and_enums_are_valid() {
    let sink = sink();
    let validator = validator(&sink);
    for instance in [
        json!({ "anInt64": -5, "aUint64": u64::MAX, "maybeInt64": 3 }),
        json!({ "anInt64": "-5", "aUint64": "18446744073709551615" }),
        json!({ "heat": 1, "heats": [0, -2147483648] }),
        json!({ "anInt32": 1.0 }),
        json!({ "someBytes": "_-8" }),
    ] {
        assert_eq!(both(&sink, &validator, &instance), (true, true), "{instance}");
    }
}

/// A client that refuses other fields can read a message with fields of a newer version.
#[test]
fn fields_without_a_descriptor_are_declared_in_every_message() {
    let validator = validator(&sink());
    for instance in [
        json!({ "@unknown": "wLgCBw==" }),
        json!({ "inner": { "@unknown": "wLgCBw==" }, "drains": [{ "@unknown": "wLgCBw==" }] }),
    ] {
        assert!(validator.is_valid(&instance), "{instance}");
    }
    assert!(!validator.is_valid(&json!({ "@unknown": 1 })));
    assert!(!validator.is_valid(&json!({ "@other": "wLgCBw==" })));
}

#[test]
fn messages_refer_to_each_other() {
    let schema = json_schema(&sink());
    assert_eq!(schema["$ref"], "#/$defs/kitchen.v1.Sink");
    let mut names: Vec<_> = schema["$defs"].as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(
        names,
        [
            "kitchen.v1.Drain",
            "kitchen.v1.Nothing",
            "kitchen.v1.Sink",
            "kitchen.v1.Sink.Nested",
            "kitchen.v1.Sink.Nested.Deeper"
        ]
    );
    assert_eq!(schema["$defs"]["kitchen.v1.Sink"]["properties"]["inner"]["$ref"], "#/$defs/kitchen.v1.Sink");
}

#[test]
fn comments_are_descriptions() {
    let schema = json_schema(&sink());
    let sink = &schema["$defs"]["kitchen.v1.Sink"];
    assert_eq!(sink["description"], "Everything there is.\n\n  Even indented.");
    let field = |name: &str| &sink["properties"][name];
    assert_eq!(field("aDouble")["description"], "A double.");
    assert_eq!(field("aString")["description"], "Behind it.");
    assert_eq!(field("drain")["description"], "Goes through the floor.");
    assert_eq!(field("inner")["description"], "Sinks within sinks.");
    assert_eq!(field("heat")["description"], HEAT);
    assert_eq!(field("old")["deprecated"], true);
    assert!(field("aFloat").get("description").is_none());
    assert_eq!(field("mask")["description"], "Paths in lower camel case, separated by commas.");
}

const HEAT: &str =
    "How hot it is.\n\nHEAT_COLDER: As cold as it gets.\nHEAT_UNSPECIFIED: Nobody knows.\nNO: A word of YAML.";

/// A well-known type as a type's data.
#[test]
fn data_may_be_a_well_known_type() {
    for (name, valid, invalid) in [
        ("google.protobuf.Struct", json!({ "a": 1 }), json!([])),
        ("google.protobuf.Timestamp", json!("1999-11-16T00:00:00Z"), json!({})),
        ("google.protobuf.Empty", json!({}), json!({ "a": 1 })),
    ] {
        let message = pool().get_message_by_name(name).unwrap();
        let validator = validator(&message);
        assert_eq!(both(&message, &validator, &valid), (true, true), "{name}");
        assert_eq!(both(&message, &validator, &invalid), (false, false), "{name}");
    }
}

#[test]
fn every_demo_type() {
    let v1 = "hashicorp.consul.internal.demo.v1";
    let v2 = "hashicorp.consul.internal.demo.v2";
    for (name, full) in [
        (format!("{v1}.Executive"), json!({ "position": "CEO" })),
        (format!("{v1}.RecordLabel"), json!({ "name": "n", "description": "d" })),
        (format!("{v1}.Artist"), json!({ "name": "n", "description": "d", "genre": "GENRE_JAZZ", "groupMembers": 4 })),
        (
            format!("{v1}.Album"),
            json!({ "name": "n", "yearOfRelease": 1, "criticallyAcclaimed": true, "tracks": ["a"] }),
        ),
        (format!("{v1}.Concept"), json!({})),
        (format!("{v2}.Artist"), json!({ "name": "n", "genre": "GENRE_ROCK", "groupMembers": { "a": "b" } })),
        (
            format!("{v2}.Album"),
            json!({ "title": "t", "yearOfRelease": 1, "criticallyAclaimed": true, "tracks": ["a"] }),
        ),
        (
            format!("{v2}.Festival"),
            json!({
                "name": "n", "genres": ["GENRE_POP"], "artists": [{ "name": "a" }],
                "boundReferences": [{ "name": "r", "type": { "group": "g", "groupVersion": "v1", "kind": "K" }, "tenancy": {} }],
            }),
        ),
    ] {
        let message = message(&name);
        let validator = validator(&message);
        let printed = print(&read(&message, &full).unwrap_or_else(|e| panic!("{name}: {e}")));
        assert_eq!(printed, full, "{name}");
        assert!(validator.is_valid(&printed), "{name}: {printed}");
        assert!(validator.is_valid(&json!({})), "{name}");
        assert_eq!(both(&message, &validator, &json!({ "nope": 1 })), (false, false), "{name}");
    }
}
