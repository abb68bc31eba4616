use std::collections::BTreeMap;

use super::*;
use crate::{Outline, meta::DELETION_TIMESTAMP};

fn id(name: &str) -> pb::Id {
    pb::Id {
        uid: format!("uid of {name}"),
        name: name.into(),
        r#type: Some(pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }),
        tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: "n".into() }),
    }
}

fn record(name: &str, on_delete: i32) -> ReferenceRecord {
    ReferenceRecord { kind: "Artist".into(), name: name.into(), on_delete, ..ReferenceRecord::default() }
}

fn resource() -> pb::Resource {
    pb::Resource {
        id: Some(id("miles")),
        owner: Some(id("label")),
        version: "17".into(),
        generation: "g".into(),
        metadata: BTreeMap::from([("a".into(), "b".into()), (DELETION_TIMESTAMP.into(), "now".into())]),
        status: BTreeMap::from([("s".into(), pb::Status { observed_generation: "g".into(), ..Default::default() })]),
        data: Some(prost_types::Any { type_url: "t".into(), value: vec![0xff; 300] }),
        schema_version: 3,
        references: vec![record("miles", 1), record(&"long".repeat(50), 6)],
        meta: Some(Box::new(Meta {
            generation: 7,
            labels: BTreeMap::from([("env".into(), "prod".into()), ("none".into(), String::new())]),
            ..Meta::default()
        })),
    }
}

#[test]
fn the_head_is_what_decoding_finds() {
    let whole = resource();
    for resource in [
        whole.clone(),
        pb::Resource::default(),
        pb::Resource { id: None, ..whole.clone() },
        pb::Resource { id: Some(pb::Id { r#type: None, tenancy: None, ..id("x") }), ..whole.clone() },
        pb::Resource { owner: None, metadata: BTreeMap::new(), schema_version: 0, ..whole.clone() },
        pb::Resource { schema_version: u32::MAX, version: "ü".into(), ..whole.clone() },
    ] {
        let encoded = EncodedResource::encode(&resource).unwrap();
        assert_eq!(encoded.decode().unwrap(), resource);
        assert_eq!(encoded.bytes(), &resource.encode_to_vec());
        // The head depends on the content of the bytes, not on their address.
        assert_eq!(EncodedResource::parse(resource.encode_to_vec().into()).unwrap(), encoded);
        assert_eq!(encoded.id(), resource.id.as_ref().map(IdRef::from).unwrap_or_default());
        assert_eq!(encoded.references().unwrap(), resource.references);
        let without = pb::Resource { references: Vec::new(), ..resource.clone() };
        assert_eq!(encoded.references_bytes(), resource.encoded_len() - without.encoded_len());
        assert_eq!(encoded.uid(), encoded.id().uid);
        assert_eq!(encoded.name(), encoded.id().name);
        assert_eq!([encoded.partition(), encoded.namespace()], [encoded.id().partition, encoded.id().namespace]);
        let id = encoded.id();
        for (group, group_version, kind) in
            [("demo", "v2", "Artist"), ("demo", "v1", "Artist"), ("", "", ""), ("demo", "v2", "Album")]
        {
            let is_of = (id.group, id.group_version, id.kind) == (group, group_version, kind);
            assert_eq!(encoded.has_type(&Gvk::new(group, group_version, kind)), is_of);
        }
        assert_eq!(encoded.decode_id().unwrap(), resource.id);
        assert_eq!(encoded.decode_owner().unwrap(), resource.owner);
        assert_eq!(encoded.has_owner(), resource.owner.is_some());
        assert_eq!(encoded.decode_meta().unwrap(), resource.meta.as_deref().cloned());
        let labels = resource.meta.as_ref().map(|meta| meta.labels.clone()).unwrap_or_default();
        let found = encoded.labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), labels);
        assert_eq!((encoded.version(), encoded.generation()), (&*resource.version, &*resource.generation));
        assert_eq!(encoded.schema_version(), resource.schema_version.max(1));
        let outline = Outline::find(encoded.bytes()).unwrap();
        assert_eq!(outline.group_version, encoded.id().group_version.as_bytes());
        assert_eq!(outline.schema_version, encoded.schema_version());
        assert_eq!(encoded.deletion_mark(), resource.metadata.get(DELETION_TIMESTAMP).map(String::as_str));
    }
}

/// Fields that protobuf merges, or takes the last of, are the same in the head as in the whole.
#[test]
fn fields_that_stand_several_times_are_merged_as_protobuf_does() {
    let first = resource();
    let second = pb::Resource {
        id: Some(pb::Id { uid: "other".into(), ..pb::Id::default() }),
        version: "18".into(),
        schema_version: 4,
        ..pb::Resource::default()
    };
    for (a, b) in [(&first, &second), (&second, &first), (&first, &first)] {
        let bytes = [a.encode_to_vec(), b.encode_to_vec()].concat();
        let merged = pb::Resource::decode(bytes.as_slice()).unwrap();
        assert_eq!(Outline::find(&bytes), None);
        let encoded = EncodedResource::parse(bytes.into()).unwrap();
        assert_eq!(encoded.decode().unwrap(), merged);
        assert_eq!(encoded.bytes(), &merged.encode_to_vec());
        assert_eq!(encoded.version(), merged.version);
        assert_eq!(encoded.uid(), merged.id.as_ref().unwrap().uid);
    }
    // Twice within the id: the kind of the first, the group of the second.
    let part = |group: &str, kind: &str| {
        let resource_type = pb::Type { group: group.into(), group_version: String::new(), kind: kind.into() };
        pb::Id { r#type: Some(resource_type), ..pb::Id::default() }.encode_to_vec()
    };
    let id = [part("a", "K"), part("b", "")].concat();
    let bytes = [vec![1 << 3 | 2, u8::try_from(id.len()).unwrap()], id].concat();
    assert_eq!(Outline::find(&bytes), None);
    let encoded = EncodedResource::parse(bytes.into()).unwrap();
    assert_eq!((encoded.id().group, encoded.id().kind), ("b", "K"));
}

/// Changes, cuts off and inserts every byte of an encoding: a parsed resource has the head that decoding finds, and
/// bytes that decode are parsed. An outline agrees with the head.
#[test]
fn damaged_bytes_are_refused_or_agree_with_their_head() {
    let good = resource().encode_to_vec();
    let (mut parsed, mut refused, mut outlines) = (0, 0, 0);
    for position in 0..good.len() {
        let flips = (0..8).map(|bit| {
            let mut bytes = good.clone();
            bytes[position] ^= 1 << bit;
            bytes
        });
        for bytes in flips.chain([good[..position].to_vec(), [&good[..position], &[0x80], &good[position..]].concat()])
        {
            let decoded = pb::Resource::decode(bytes.as_slice());
            let copy = bytes.clone();
            match EncodedResource::parse(bytes.into()) {
                Err(why) => {
                    refused += 1;
                    assert!(decoded.is_err(), "at {position}: {why}");
                }
                Ok(encoded) => {
                    parsed += 1;
                    if let Some(Outline { group_version, schema_version }) = Outline::find(&copy) {
                        assert_eq!(encoded.bytes(), &copy, "{position}");
                        assert_eq!(group_version, encoded.id().group_version.as_bytes(), "{position}");
                        assert_eq!(schema_version, encoded.schema_version(), "{position}");
                        outlines += 1;
                    }
                    let Ok(decoded) = decoded else { continue };
                    assert_eq!(encoded.id(), decoded.id.as_ref().map(IdRef::from).unwrap_or_default(), "{position}");
                    assert_eq!(encoded.version(), decoded.version);
                    assert_eq!(encoded.generation(), decoded.generation);
                    assert_eq!(encoded.schema_version(), decoded.schema_version.max(1));
                    assert_eq!(encoded.decode_owner().unwrap(), decoded.owner);
                    let mark = decoded.metadata.get(DELETION_TIMESTAMP).map(String::as_str);
                    assert_eq!(encoded.deletion_mark(), mark);
                    assert_eq!(encoded.decode_meta().unwrap(), decoded.meta.as_deref().cloned(), "{position}");
                }
            }
        }
    }
    assert!(parsed > 1_000 && refused > 1_000 && outlines > 1_000, "{parsed} {refused} {outlines}");
}

#[test]
fn incarnations_are_compared_without_the_group_version() {
    let (mut a, b) = (id("a"), id("a"));
    assert!(IdRef::from(&a).is_same_incarnation(IdRef::from(&b)));
    a.r#type.as_mut().unwrap().group_version = "v9".into();
    assert!(IdRef::from(&a).is_same_incarnation(IdRef::from(&b)));
    a.uid = "another".into();
    assert!(!IdRef::from(&a).is_same_incarnation(IdRef::from(&b)));
}
