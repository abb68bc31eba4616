//! Printed resources, and reading them back.

use mortise_resource::pb;
use mortise_text::{Format, Indent, consul, diff::diff, to_json, to_yaml};
use prost::Message;
use prost_reflect::DynamicMessage;

use crate::common::{data, everything, pool, resource, types};

fn artist() -> pb::Resource {
    let text = "type: demo.v2.Artist\nname: korn\npartition: default\nnamespace: default\nversion: \"12\"\nmetadata: {a: b}\ndata:\n  name: Korn\n  genre: GENRE_METAL\n  groupMembers: {jonathan: vocals, brian: guitar}\n";
    resource(text, Format::Yaml)
}

#[test]
fn yaml_is_what_a_person_wants_to_edit() {
    let expected = "id:\n  type:\n    group: demo\n    groupVersion: v2\n    kind: Artist\n  tenancy:\n    partition: default\n    namespace: default\n  name: korn\nversion: \"12\"\nmetadata:\n  a: b\ndata:\n  name: Korn\n  genre: GENRE_METAL\n  groupMembers:\n    brian: guitar\n    jonathan: vocals\n";
    assert_eq!(to_yaml(&artist(), types()), expected);
}

#[test]
fn json_has_our_order_and_consuls() {
    assert_eq!(
        to_json(&artist(), types(), Indent::Compact),
        r#"{"id":{"type":{"group":"demo","groupVersion":"v2","kind":"Artist"},"tenancy":{"partition":"default","namespace":"default"},"name":"korn"},"version":"12","metadata":{"a":"b"},"data":{"name":"Korn","genre":"GENRE_METAL","groupMembers":{"brian":"guitar","jonathan":"vocals"}}}"#
    );
    let alphabetical = consul::resource(&artist(), types(), Indent::Spaces(4));
    assert!(alphabetical.starts_with("{\n    \"data\": {\n        \"genre\": \"GENRE_METAL\","), "{alphabetical}");
    let with_type = consul::grpc_resource(&artist(), types());
    assert!(
        with_type.contains("\"@type\": \"type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist\""),
        "{with_type}"
    );
    for text in [alphabetical, with_type] {
        assert_eq!(resource(&text, Format::Json), artist());
    }
    assert_eq!(consul::list(&[], types(), Indent::Spaces(4)), "{\n    \"resources\": []\n}");
}

#[test]
fn a_diff_is_unified() {
    let mut after = artist();
    after.metadata.insert("a".into(), "c".into());
    let text = diff(Some(&artist()), Some(&after), ("server", "file"), types());
    assert!(text.starts_with("--- server\n+++ file\n@@ "), "{text}");
    assert!(text.contains("\n-  a: b\n+  a: c\n"), "{text}");
    assert_eq!(diff(Some(&after), Some(&after), ("a", "b"), types()), "");
}

#[test]
fn what_has_no_form_is_printed_as_bytes_and_read_back() {
    let garbage = pb::Resource {
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/test.Everything".into(),
            value: vec![0xff, 0xff],
        }),
        ..everything(&DynamicMessage::new(pool().get_message_by_name("test.Everything").unwrap()))
    };
    let unknown_type = pb::Resource {
        id: Some(pb::Id {
            r#type: Some(pb::Type { group: "gone".into(), group_version: "v1".into(), kind: "Away".into() }),
            name: "x".into(),
            ..Default::default()
        }),
        data: Some(prost_types::Any { type_url: "type.googleapis.com/gone.Away".into(), value: vec![8, 1] }),
        ..Default::default()
    };
    // {"a": a null of number 64}
    let mut null = resource("type: test.v1.Free\nname: x\ndata: {}\n", Format::Yaml);
    null.data.as_mut().unwrap().value = vec![10, 7, 10, 1, b'a', 18, 2, 8, 64];
    for resource in [garbage, unknown_type, null] {
        let yaml = to_yaml(&resource, types());
        assert!(yaml.contains("\"@bytes\": "), "{yaml}");
        assert_eq!(self::resource(&yaml, Format::Yaml), resource);
        assert_eq!(self::resource(&to_json(&resource, types(), Indent::Spaces(2)), Format::Json), resource);
    }
}

#[test]
fn fields_that_are_not_known_survive() {
    let mut message = DynamicMessage::new(pool().get_message_by_name("test.Everything").unwrap());
    // Field 1000, a varint.
    message.merge([0xc0, 0x3e, 0x07].as_slice()).unwrap();
    let yaml = to_yaml(&everything(&message), types());
    assert!(yaml.contains("\"@unknown\": wD4H"), "{yaml}");
    assert_eq!(data(&resource(&yaml, Format::Yaml)), message);
}

#[test]
fn keys_of_the_content_are_not_taken_for_others() {
    let long = "k".repeat(5000);
    for text in [
        "type: test.v1.Free\nname: x\ndata: {a: [1, {b: null}], value: c}\n".to_owned(),
        "type: test.v1.Free\nname: x\ndata: {\"@unknown\": a}\n".to_owned(),
        format!("type: test.v1.Free\nname: x\ndata:\n  ? {long}\n  : 1\nmetadata:\n  ? {long}\n  : 2\n"),
    ] {
        let first = resource(&text, Format::Yaml);
        let yaml = to_yaml(&first, types());
        assert_eq!(resource(&yaml, Format::Yaml), first, "{yaml}");
        let with_type = consul::grpc_resource(&first, types());
        assert_eq!(resource(&with_type, Format::Json), first, "{with_type}");
    }
    let inner = DynamicMessage::decode(
        pool().get_message_by_name("google.protobuf.Struct").unwrap(),
        // {"@type": true}
        [10, 11, 10, 5, b'@', b't', b'y', b'p', b'e', 18, 2, 32, 1].as_slice(),
    )
    .unwrap();
    let mut tricky = resource("type: test.v1.Free\nname: x\ndata: {}\n", Format::Yaml);
    tricky.data.as_mut().unwrap().value = inner.encode_to_vec();
    let yaml = to_yaml(&tricky, types());
    assert!(yaml.contains("@bytes"), "{yaml}");
    assert_eq!(resource(&yaml, Format::Yaml), tricky);
}
