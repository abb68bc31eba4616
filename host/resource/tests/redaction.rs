//! Finds marked fields wherever they are, and removes their values from texts.
#![allow(clippy::unwrap_used, reason = "tests")]

use mortise_resource::redaction::{MOST_BYTES, MOST_VALUES, RedactedFields, Redaction, Secrets};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, MessageDescriptor, Value};

const PROTO: &str = r#"
syntax = "proto3";
package lock.v1;
import "google/protobuf/any.proto";
message Door {
  string name = 1;
  string key = 2 [debug_redact = true];
  repeated Lock locks = 3;
  map<string, Lock> by_name = 4;
  google.protobuf.Any more = 5;
  map<string, string> codes = 6 [debug_redact = true];
  bytes raw = 7 [debug_redact = true];
  uint64 pin = 8 [debug_redact = true];
  Lock spare = 9 [debug_redact = true];
  message Lock {
    string maker = 1;
    string code = 2 [debug_redact = true, json_name = "theCode"];
  }
}
message Plain { string key = 2; Plain within = 3; }
message House { repeated Door doors = 1; }
message Street { map<string, House> houses = 1; Street crossing = 2; }
message Letter { google.protobuf.Any content = 1; }
"#;

fn pool(proto: &str) -> DescriptorPool {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lock.proto"), proto).unwrap();
    let mut compiler = protox::Compiler::new([dir.path()]).unwrap();
    compiler.include_imports(true).open_file("lock.proto").unwrap();
    let files = compiler.encode_file_descriptor_set();
    DescriptorPool::decode(files.as_slice()).unwrap()
}

fn door() -> MessageDescriptor {
    pool(PROTO).get_message_by_name("lock.v1.Door").unwrap()
}

/// Creates a lock with this code.
fn lock(descriptor: &MessageDescriptor, code: &str) -> DynamicMessage {
    let mut lock = DynamicMessage::new(descriptor.parent_pool().get_message_by_name("lock.v1.Door.Lock").unwrap());
    lock.set_field_by_name("maker", Value::String("makers".into()));
    lock.set_field_by_name("code", Value::String(code.into()));
    lock
}

fn secrets(door: &DynamicMessage) -> Secrets {
    let redaction = Redaction::from_pool(door_of(door).parent_pool()).unwrap();
    let mut secrets = Secrets::default();
    secrets.note(&redaction, &door_of(door), &door.encode_to_vec());
    secrets
}

fn door_of(door: &DynamicMessage) -> MessageDescriptor {
    prost_reflect::ReflectMessage::descriptor(door)
}

#[test]
fn the_marked_fields_are_found_and_no_others() {
    let descriptor = door();
    let redaction = Redaction::from_pool(descriptor.parent_pool()).unwrap();
    let covered: Vec<_> = descriptor
        .parent_pool()
        .all_messages()
        .flat_map(|message| message.fields().filter(|field| redaction.covers(field)).collect::<Vec<_>>())
        .map(|field| field.full_name().to_owned())
        .collect();
    let mut expected = ["key", "codes", "raw", "pin", "spare", "Lock.code"].map(|name| format!("lock.v1.Door.{name}"));
    expected.sort();
    let mut covered = covered;
    covered.sort();
    assert_eq!(covered, expected);
    let mut fields = RedactedFields::default();
    for field in descriptor.parent_pool().all_messages().flat_map(|message| message.fields().collect::<Vec<_>>()) {
        assert_eq!(fields.contain(&field), redaction.covers(&field), "{}", field.full_name());
    }
    let unmarked = PROTO.replace("debug_redact = true, ", "").replace("[debug_redact = true]", "");
    assert!(Redaction::from_pool(&pool(&unmarked)).is_none());
}

#[test]
fn a_message_may_hold_one_however_deep() {
    let descriptor = door();
    let redaction = Redaction::from_pool(descriptor.parent_pool()).unwrap();
    let ours = descriptor.parent_pool().all_messages().filter(|message| message.package_name() == "lock.v1");
    let (within, without): (Vec<_>, Vec<_>) = ours.partition(|message| redaction.is_within(message));
    let names = |descriptor: Vec<MessageDescriptor>| {
        let mut names: Vec<_> = descriptor.iter().map(|message| message.full_name().replace("lock.v1.", "")).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(names(within), "Door Door.ByNameEntry Door.Lock House Letter Street Street.HousesEntry");
    assert_eq!(names(without), "Door.CodesEntry Plain");
}

#[test]
fn what_they_hold_is_taken_out_of_texts_wherever_it_stands() {
    let descriptor = door();
    let mut door = DynamicMessage::new(descriptor.clone());
    let mut set = |name: &str, value| door.set_field_by_name(name, value);
    set("name", Value::String("front door".into()));
    set("key", Value::String("open sesame\nsecond line".into()));
    set("locks", Value::List(vec![Value::Message(lock(&descriptor, "in-a-list"))]));
    set("by_name", Value::Map([(MapKey::String("left".into()), Value::Message(lock(&descriptor, "in-a-map")))].into()));
    set("codes", Value::Map([(MapKey::String("a-key-of-codes".into()), Value::String("a-code".into()))].into()));
    set("raw", Value::Bytes(vec![0xde, 0xad, 0xbe, 0xef].into()));
    set("pin", Value::U64(987_654));
    set("spare", Value::Message(lock(&descriptor, "of-a-spare")));
    let mut any = DynamicMessage::new(descriptor.parent_pool().get_message_by_name("google.protobuf.Any").unwrap());
    any.set_field_by_name("type_url", Value::String("type.googleapis.com/lock.v1.Door.Lock".into()));
    any.set_field_by_name("value", Value::Bytes(lock(&descriptor, "in-an-any").encode_to_vec().into()));
    set("more", Value::Message(any));
    let secrets = secrets(&door);
    for hidden in [
        "open sesame\nsecond line",
        "open sesame",
        "second line",
        "in-a-list",
        "in-a-map",
        "a-key-of-codes",
        "a-code",
        "3q2+7w==",
        "deadbeef",
        "987654",
        "of-a-spare",
        "in-an-any",
    ] {
        let text = format!("<{hidden}> is wrong");
        assert_eq!(secrets.hide(&text), "<(redacted)> is wrong", "{hidden}");
    }
    for shown in ["front door", "left", "nothing of it"] {
        assert_eq!(secrets.hide(shown), shown);
    }
    // Everything in a marked message is redacted, and the same text elsewhere too.
    assert_eq!(secrets.hide("by makers"), "by (redacted)");
}

#[test]
fn a_part_of_another_or_of_what_stands_in_its_place_is_no_matter_and_short_ones_are_not_looked_for() {
    let mut door = DynamicMessage::new(door());
    door.set_field_by_name("key", Value::String("abc".into()));
    let codes = [("abcd", "abcdef"), ("k", "xyz")];
    let codes = codes.map(|(key, value)| (MapKey::String(key.into()), Value::String(value.into())));
    door.set_field_by_name("codes", Value::Map(codes.into()));
    assert_eq!(secrets(&door).hide("abcdef abcd abc xyz"), "(redacted) (redacted) abc xyz");
    assert_eq!(secrets(&door).hide("é abcdabcdef é"), "é (redacted) é");
    let codes = [("reda", "redacted"), ("acte", "(red")];
    let codes = codes.map(|(key, value)| (MapKey::String(key.into()), Value::String(value.into())));
    door.set_field_by_name("codes", Value::Map(codes.into()));
    assert_eq!(secrets(&door).hide("it is redacted, not acted"), "it is (redacted), not (redacted)d");
}

#[test]
fn more_than_is_looked_for_and_data_that_is_none_hide_whole_texts() {
    let descriptor = door();
    let text = "a text that has nothing to do with it";
    let codes = |count: usize, length: usize| {
        let mut door = DynamicMessage::new(descriptor.clone());
        let code = |n: usize| (MapKey::String(format!("{n:04}")), Value::String(format!("{n:0length$}")));
        door.set_field_by_name("codes", Value::Map((0..count).map(code).collect()));
        secrets(&door)
    };
    assert_eq!(codes(MOST_VALUES / 2, 5).hide(text), text);
    assert_ne!(codes(MOST_VALUES / 2 + 1, 5).hide(text), text);
    assert_eq!(codes(10, MOST_BYTES / 11).hide(text), text);
    assert_ne!(codes(10, MOST_BYTES / 9).hide(text), text);
    let mut broken = Secrets::default();
    assert!(broken.is_empty());
    broken.note(&Redaction::from_pool(descriptor.parent_pool()).unwrap(), &descriptor, &[0xff]);
    assert!(!broken.is_empty() && broken.hide(text) != text);
    assert_eq!(broken.hide(""), "");
}
