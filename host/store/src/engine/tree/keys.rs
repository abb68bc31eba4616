//! Keys of sled's tree.
//!
//! The first byte names the space; the rest sorts in the contract's order of lists:
//!
//! | space | key | value |
//! |---|---|---|
//! | meta | `m` | [`Meta`](crate::engine::tree::record::Meta) |
//! | id of the store | `i` | [`StoreId`](crate::engine::files::store_id::StoreId); only in the tree, not in the log |
//! | checkpoint position | `w` | [`CheckpointPosition`](crate::engine::tree::checkpoint_position::CheckpointPosition); only in the tree, not in the log |
//! | resources | `r` group 0 kind 0 partition 0 namespace 0 name 0 | head of a record |
//! | owner index | `o` owner's group 0 kind 0 partition 0 namespace 0 name 0 uid 0, then the child's key without its `r` | nothing |
//! | label index | `p` group 0 kind 0 label 0 value 0, then the rest of the resource's key | nothing |
//! | reference index | `q` group 0 kind 0 partition 0 namespace 0 name 0 of the target, number of the behaviour 0, then the referrer's key without its `r` | nothing |
//! | events | `e` sequence (8 bytes, big-endian) | head of a record |
//! | sums | `h` group 0 kind 0 | count and hash of a type's resources ([`sums`](crate::engine::tree::sums)) |
//! | usage | `u` partition 0 namespace 0 group 0 kind 0 | count and bytes of a type's resources in a tenancy ([`usage`](crate::engine::tree::usage)) |
//! | chunks | `c` sequence (8) `r` or `e` index (4) | a piece of the record of that sequence |
//!
//! Segments end with a zero byte, so none may contain one; byte order of keys is then the order of their segments.

use mortise_resource::{
    data::{OnDelete, ReferenceRecord},
    pb,
};

use crate::{ExpectedId, IdPartError, ListKey, TypeKey};

/// Key of the counters, the only one of its space.
pub(crate) const META: &[u8] = b"m";
/// Key of the checkpoint position, the only one of its space.
pub(crate) const CHECKPOINT: &[u8] = b"w";
/// Key of the store's id, the only one of its space.
pub(crate) const STORE_ID: &[u8] = b"i";
/// First byte of resources.
pub(crate) const RESOURCE: u8 = b'r';
/// First byte of the owner index.
pub(crate) const OWNER: u8 = b'o';
/// First byte of the label index. The label and reference indexes sort between the owner index and the resources, so
/// that one walk covers all.
pub(crate) const LABEL: u8 = b'p';
/// First byte of the reference index.
pub(crate) const REFERENCE: u8 = b'q';
/// First byte of events.
pub(crate) const EVENT: u8 = b'e';
/// First byte of the sums of types.
pub(crate) const SUM: u8 = b'h';
/// First byte of the usage of tenancies.
pub(crate) const USAGE: u8 = b'u';
/// First byte of chunks.
pub(crate) const CHUNK: u8 = b'c';

/// Number of segments of a resource's key after its first byte.
const RESOURCE_SEGMENTS: usize = 5;
/// Number of segments of the owner in a key of the owner index.
const OWNER_SEGMENTS: usize = 6;
/// Number of segments in a key of the label index before the resource's place: its type, the label and the value.
const LABEL_SEGMENTS: usize = 4;
/// Number of segments in a key of the reference index before the referrer: the target and the behaviour.
const REFERENCE_SEGMENTS: usize = 6;
/// Number of segments of a type.
const TYPE_SEGMENTS: usize = 2;

/// Appends terminated segments. The error names the first segment with a zero byte.
pub(crate) fn push(key: &mut Vec<u8>, segments: &[(&'static str, &str)]) -> Result<(), IdPartError> {
    for (what, segment) in segments {
        if segment.as_bytes().contains(&0) {
            return Err(IdPartError(what));
        }
        key.extend_from_slice(segment.as_bytes());
        key.push(0);
    }
    Ok(())
}

/// Returns the segments that keys of ids and owners share.
fn segments(id: &pb::Id) -> [(&'static str, &str); RESOURCE_SEGMENTS] {
    let (group, kind) = id.r#type.as_ref().map_or(("", ""), |t| (t.group.as_str(), t.kind.as_str()));
    let (partition, namespace) = id.tenancy.as_ref().map_or(("", ""), |t| (t.partition.as_str(), t.namespace.as_str()));
    [
        ("type.group", group),
        ("type.kind", kind),
        ("tenancy.partition", partition),
        ("tenancy.namespace", namespace),
        ("name", &id.name),
    ]
}

/// Returns the key of a resource. Absent messages count as empty. The error names the part that does not fit into a
/// key.
pub(crate) fn resource(id: &pb::Id) -> Result<Vec<u8>, IdPartError> {
    let mut key = Vec::with_capacity(96);
    key.push(RESOURCE);
    push(&mut key, &segments(id))?;
    Ok(key)
}

/// Returns the key of an expectation's resource.
pub(crate) fn expected(id: &ExpectedId) -> Result<Vec<u8>, IdPartError> {
    let mut key = Vec::with_capacity(96);
    key.push(RESOURCE);
    let segments = [
        ("type.group", id.type_key.group.as_str()),
        ("type.kind", &id.type_key.kind),
        ("tenancy.partition", &id.partition),
        ("tenancy.namespace", &id.namespace),
        ("name", &id.name),
    ];
    push(&mut key, &segments)?;
    Ok(key)
}

/// Returns the prefix of all resource keys of a type.
pub(crate) fn type_prefix(type_key: &TypeKey) -> Result<Vec<u8>, IdPartError> {
    let mut key = vec![RESOURCE];
    push(&mut key, &[("type.group", &type_key.group), ("type.kind", &type_key.kind)])?;
    Ok(key)
}

/// Returns the key of a type's sum.
pub(crate) fn sum(type_key: &TypeKey) -> Result<Vec<u8>, IdPartError> {
    let mut key = vec![SUM];
    push(&mut key, &[("type.group", &type_key.group), ("type.kind", &type_key.kind)])?;
    Ok(key)
}

/// Returns the type in the key of a sum.
pub(crate) fn sum_type(key: &[u8]) -> Option<TypeKey> {
    let rest = key.split_first().filter(|(space, _)| **space == SUM)?.1;
    let (group, kind) = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?.split_once('\0')?;
    (!kind.contains('\0')).then(|| TypeKey { group: group.to_owned(), kind: kind.to_owned() })
}

/// Returns the key of the usage record for a resource's key.
pub(crate) fn usage(resource: &[u8]) -> Option<Vec<u8>> {
    let [group, kind, partition, namespace, _] = split(resource)?;
    let mut key = Vec::with_capacity(resource.len());
    key.push(USAGE);
    let segments = [("partition", partition), ("namespace", namespace), ("type.group", group), ("type.kind", kind)];
    push(&mut key, &segments).ok()?;
    Some(key)
}

/// Returns the segments of a usage key: partition, namespace, group, kind.
pub(crate) fn usage_parts(key: &[u8]) -> Option<[&str; 4]> {
    let rest = key.split_first().filter(|(space, _)| **space == USAGE)?.1;
    let mut parts = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?.split('\0');
    let segments = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(segments)
}

/// Returns the prefix of a tenancy's usage keys, from one of them.
pub(crate) fn usage_tenancy(key: &[u8]) -> &[u8] {
    let ends = key.iter().enumerate().filter(|(_, byte)| **byte == 0);
    let end = ends.map(|(end, _)| end + 1).nth(1).unwrap_or(key.len());
    key.get(..end).unwrap_or(key)
}

/// Returns the prefix of the index keys of an incarnation's children.
pub(crate) fn owner_prefix(owner: &pb::Id) -> Result<Vec<u8>, IdPartError> {
    let mut key = Vec::with_capacity(192);
    key.push(OWNER);
    push(&mut key, &segments(owner))?;
    push(&mut key, &[("uid", &owner.uid)])?;
    Ok(key)
}

/// Returns the index key of a child; `child` is its resource key.
pub(crate) fn ownership(owner: &pb::Id, child: &[u8]) -> Result<Vec<u8>, IdPartError> {
    let mut key = owner_prefix(owner)?;
    key.extend_from_slice(child.get(1..).unwrap_or_default());
    Ok(key)
}

/// Returns the child's resource key from a key of the owner index.
pub(crate) fn child(ownership: &[u8]) -> Option<Vec<u8>> {
    let rest = ownership.split_first().filter(|(space, _)| **space == OWNER)?.1;
    let mut key = vec![RESOURCE];
    key.extend_from_slice(rest.get(segments_end(rest, OWNER_SEGMENTS)?..)?);
    Some(key)
}

/// Returns the prefix of the index keys of a type's resources with a label.
pub(crate) fn label_prefix(type_key: &TypeKey, label: &str, value: &str) -> Result<Vec<u8>, IdPartError> {
    let mut key = Vec::with_capacity(192);
    key.push(LABEL);
    let segments = [
        ("type.group", type_key.group.as_str()),
        ("type.kind", &type_key.kind),
        ("meta.labels", label),
        ("meta.labels", value),
    ];
    push(&mut key, &segments)?;
    Ok(key)
}

/// Returns the index key of a resource's label; `resource` is the resource's key.
pub(crate) fn label(resource: &[u8], label: &str, value: &str) -> Result<Vec<u8>, IdPartError> {
    let rest = resource.get(1..).unwrap_or_default();
    let (of_type, place) =
        rest.split_at_checked(segments_end(rest, TYPE_SEGMENTS).unwrap_or(rest.len())).unwrap_or_default();
    let mut key = Vec::with_capacity(resource.len() + label.len() + value.len() + 2);
    key.push(LABEL);
    key.extend_from_slice(of_type);
    push(&mut key, &[("meta.labels", label), ("meta.labels", value)])?;
    key.extend_from_slice(place);
    Ok(key)
}

/// Returns the resource's key from a key of the label index.
pub(crate) fn labelled_resource(entry: &[u8]) -> Option<Vec<u8>> {
    let rest = entry.split_first().filter(|(space, _)| **space == LABEL)?.1;
    let mut key = Vec::with_capacity(entry.len());
    key.push(RESOURCE);
    key.extend_from_slice(rest.get(..segments_end(rest, TYPE_SEGMENTS)?)?);
    key.extend_from_slice(rest.get(segments_end(rest, LABEL_SEGMENTS)?..)?);
    Some(key)
}

/// Returns the prefix of the index keys of references to a resource with one behaviour.
pub(crate) fn reference_prefix(target: &ExpectedId, on_delete: OnDelete) -> Result<Vec<u8>, IdPartError> {
    let segments = [
        ("references.group", target.type_key.group.as_str()),
        ("references.kind", &target.type_key.kind),
        ("references.partition", &target.partition),
        ("references.namespace", &target.namespace),
        ("references.name", &target.name),
    ];
    reference_prefix_from(segments, on_delete as i32)
}

fn reference_prefix_from(
    segments: [(&'static str, &str); RESOURCE_SEGMENTS],
    on_delete: i32,
) -> Result<Vec<u8>, IdPartError> {
    let mut key = Vec::with_capacity(192);
    key.push(REFERENCE);
    push(&mut key, &segments)?;
    push(&mut key, &[("references.on_delete", &on_delete.to_string())])?;
    Ok(key)
}

/// Returns the index key of a reference; `referrer` is the key of the referring resource.
pub(crate) fn reference(record: &ReferenceRecord, referrer: &[u8]) -> Result<Vec<u8>, IdPartError> {
    let segments = [
        ("references.group", record.group.as_str()),
        ("references.kind", &record.kind),
        ("references.partition", &record.partition),
        ("references.namespace", &record.namespace),
        ("references.name", &record.name),
    ];
    let mut key = reference_prefix_from(segments, record.on_delete)?;
    key.extend_from_slice(referrer.get(1..).unwrap_or_default());
    Ok(key)
}

/// Splits a key of the reference index into the prefix shared by all referrers of the target, and the referrer.
pub(crate) fn split_reference(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = entry.split_first().filter(|(space, _)| **space == REFERENCE)?.1;
    entry.split_at_checked(1 + segments_end(rest, REFERENCE_SEGMENTS)?)
}

/// Returns the referrer's key from a key of the reference index.
pub(crate) fn referrer(entry: &[u8]) -> Option<Vec<u8>> {
    let (_, referrer) = split_reference(entry)?;
    let mut key = vec![RESOURCE];
    key.extend_from_slice(referrer);
    Some(key)
}

/// Returns the offset behind the first `count` segments.
fn segments_end(segments: &[u8], count: usize) -> Option<usize> {
    segments.iter().enumerate().filter(|(_, byte)| **byte == 0).nth(count - 1).map(|(end, _)| end + 1)
}

/// Returns the key of an event.
pub(crate) fn event(seq: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(EVENT);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

/// Returns the sequence in an event's key.
pub(crate) fn event_seq(key: &[u8]) -> Option<u64> {
    let rest = key.split_first().filter(|(space, _)| **space == EVENT)?.1;
    Some(u64::from_be_bytes(rest.try_into().ok()?))
}

/// Returns the key of a chunk of the record of `seq` in the space `kind`.
pub(crate) fn chunk(seq: u64, kind: u8, index: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(14);
    key.push(CHUNK);
    key.extend_from_slice(&seq.to_be_bytes());
    key.push(kind);
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// Returns sequence, space and index of a chunk's key.
pub(crate) fn chunk_parts(key: &[u8]) -> Option<(u64, u8, u32)> {
    let rest = key.split_first().filter(|(space, _)| **space == CHUNK)?.1;
    let (seq, rest) = rest.split_first_chunk::<8>()?;
    let (kind, index) = rest.split_first()?;
    Some((u64::from_be_bytes(*seq), *kind, u32::from_be_bytes(index.try_into().ok()?)))
}

/// Returns the segments of a resource's key: group, kind, partition, namespace, name.
pub(crate) fn split(key: &[u8]) -> Option<[&str; RESOURCE_SEGMENTS]> {
    let rest = key.split_first().filter(|(space, _)| **space == RESOURCE)?.1;
    let mut parts = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?.split('\0');
    let segments = [parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(segments)
}

/// Returns the last segments of a key of a resource or of the label index: partition, namespace, name.
pub(crate) fn place(segments: &[u8]) -> Option<[&str; 3]> {
    let mut parts = std::str::from_utf8(segments.strip_suffix(&[0])?).ok()?.split('\0');
    let segments = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(segments)
}

/// Whether [`place`] finds its segments.
pub(crate) fn is_place(segments: &[u8]) -> bool {
    let ends = segments.iter().filter(|byte| **byte == 0).count();
    ends == 3 && segments.last() == Some(&0) && std::str::from_utf8(segments).is_ok()
}

/// Returns the place of a key's resource among those of its type.
pub(crate) fn resource_list_key(key: &[u8]) -> Option<ListKey> {
    let [_, _, partition, namespace, name] = split(key)?.map(str::to_owned);
    Some(ListKey { partition, namespace, name })
}

/// Returns the first key after every key with the prefix, which is not empty and has no byte 255: our keys are UTF-8.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Formats a key for messages: segments separated by slashes.
pub(crate) fn describe(key: &[u8]) -> String {
    match key.split_first() {
        Some((&EVENT, _)) => event_seq(key).map(|seq| format!("event {seq}")),
        Some((&CHUNK, _)) => chunk_parts(key).map(|(seq, kind, index)| {
            format!("chunk {index} of {} {seq}", if kind == EVENT { "event" } else { "version" })
        }),
        Some((&RESOURCE, _)) => split(key).map(|parts| format!("resource {}", parts.join("/"))),
        Some((&OWNER, rest)) => Some(format!("owner entry {}", String::from_utf8_lossy(rest).replace('\0', "/"))),
        Some((&LABEL, rest)) => Some(format!("label entry {}", String::from_utf8_lossy(rest).replace('\0', "/"))),
        Some((&REFERENCE, rest)) => {
            Some(format!("reference entry {}", String::from_utf8_lossy(rest).replace('\0', "/")))
        }
        Some((&SUM, _)) => sum_type(key).map(|type_key| format!("the sum of type {type_key}")),
        Some((&USAGE, _)) => usage_parts(key).map(|parts| format!("the usage of {}", parts.join("/"))),
        _ if key == STORE_ID => Some("the id of the store".to_owned()),
        _ if key == CHECKPOINT => Some("the mark of the write-ahead log".to_owned()),
        _ => (key == META).then(|| "the meta record".to_owned()),
    }
    .unwrap_or_else(|| format!("key {:?}", String::from_utf8_lossy(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(partition: &str, namespace: &str, name: &str) -> pb::Id {
        pb::Id {
            uid: "u".into(),
            name: name.into(),
            r#type: Some(pb::Type { group: "g".into(), group_version: "v1".into(), kind: "K".into() }),
            tenancy: Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() }),
        }
    }

    #[test]
    fn keys_sort_as_their_segments() {
        let mut keys = [("a", "b", "c"), ("a", "b", "ca"), ("a", "b-c", "a"), ("a-", "", "a"), ("", "z", "z")]
            .map(|(p, n, name)| resource(&id(p, n, name)).unwrap());
        keys.sort();
        let names: Vec<_> = keys.iter().map(|k| split(k).unwrap()[2..].join("/")).collect();
        assert_eq!(names, ["/z/z", "a/b/c", "a/b/ca", "a/b-c/a", "a-//a"]);
    }

    #[test]
    fn parts_come_back() {
        let key = resource(&id("p", "", "n")).unwrap();
        assert_eq!(split(&key), Some(["g", "K", "p", "", "n"]));
        let entry = ownership(&id("", "", "owner"), &key).unwrap();
        assert_eq!(child(&entry), Some(key.clone()));
        assert!(entry.starts_with(&owner_prefix(&id("", "", "owner")).unwrap()));
        let label = label(&key, "env", "").unwrap();
        assert_eq!(label, b"pg\0K\0env\0\0p\0\0n\0");
        assert!(label.starts_with(&label_prefix(&TypeKey { group: "g".into(), kind: "K".into() }, "env", "").unwrap()));
        assert_eq!(labelled_resource(&label), Some(key.clone()));
        assert_eq!((labelled_resource(b"pg\0K\0env\0"), labelled_resource(&key)), (None, None));
        let record = ReferenceRecord {
            group: "g".into(),
            kind: "T".into(),
            name: "t".into(),
            on_delete: OnDelete::Cascade.into(),
            ..ReferenceRecord::default()
        };
        let entry = reference(&record, &key).unwrap();
        assert_eq!(entry, b"qg\0T\0\0\0t\x003\0g\0K\0p\0\0n\0");
        let target = ExpectedId {
            type_key: TypeKey { group: "g".into(), kind: "T".into() },
            partition: String::new(),
            namespace: String::new(),
            name: "t".into(),
            uid: String::new(),
        };
        assert!(entry.starts_with(&reference_prefix(&target, OnDelete::Cascade).unwrap()));
        assert_eq!((referrer(&entry), referrer(b"qg\0T\0"), referrer(&key)), (Some(key.clone()), None, None));
        let usage = usage(&key).unwrap();
        assert_eq!((usage_parts(&usage), usage_tenancy(&usage)), (Some(["p", "", "g", "K"]), &b"up\0\0"[..]));
        for whole in [&b"p\0n\0name\0"[..], b"\0\0n\0", b"\0\0\0"] {
            assert!(is_place(whole) && place(whole).is_some());
        }
        for broken in [&b"p\0n\0"[..], b"p\0n\0a\0b\0", b"p\0n\0a\0b", b"\xff\0n\0a\0"] {
            assert!(!is_place(broken) && place(broken).is_none());
        }
        assert_eq!(event_seq(&event(7)), Some(7));
        assert_eq!(chunk_parts(&chunk(7, RESOURCE, 3)), Some((7, RESOURCE, 3)));
        for broken in [&b""[..], b"r", b"rg\0K\0", b"e123", b"c1", b"oa\0", b"ua\0b\0c\0"] {
            assert_eq!(usage_parts(broken), None);
            assert_eq!(is_place(broken), place(broken).is_some());
            assert_eq!(
                (split(broken), event_seq(broken), chunk_parts(broken), child(broken)),
                (None, None, None, None)
            );
        }
    }

    #[test]
    fn a_zero_byte_in_a_segment_is_refused_by_name() {
        assert_eq!(resource(&id("p", "n\0", "x")), Err(IdPartError("tenancy.namespace")));
    }
}
