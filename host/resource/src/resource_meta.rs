//! A resource's `meta`: the client's part (tags, labels, annotations, owner references, services), and the server's
//! part, which is everything else.
//!
//! # Limits
//! [`MAX_TAGS`], [`MAX_LABELS`], [`MAX_ANNOTATIONS`], [`MAX_OWNER_REFERENCES`], [`MAX_SERVICES`], and
//! [`MAX_TEXT_BYTES`] bytes for texts that may become keys of an index. The limit of the resource bounds the size of
//! annotations.

use prost::encoding;
use prost_types::Timestamp;

use crate::{
    FieldFault, FieldPath, PathStep,
    goten::{Lifecycle, Meta, lifecycle::State},
    meta, pb, ulid,
};

/// Most tags of a resource.
pub const MAX_TAGS: usize = 32;
/// Most labels of a resource; each is an entry of an index.
pub const MAX_LABELS: usize = 64;
/// Most annotations of a resource.
pub const MAX_ANNOTATIONS: usize = 256;
/// Most owner references of a resource.
pub const MAX_OWNER_REFERENCES: usize = 64;
/// Most allowed services of a resource.
pub const MAX_SERVICES: usize = 256;
/// Most bytes of a tag, a label's key and value, an annotation's key, and each text of references and services.
pub const MAX_TEXT_BYTES: usize = 256;

/// Copies the client's part.
#[must_use]
pub fn client_part(meta: &Meta) -> Meta {
    Meta {
        tags: meta.tags.clone(),
        labels: meta.labels.clone(),
        annotations: meta.annotations.clone(),
        owner_references: meta.owner_references.clone(),
        services: meta.services.clone(),
        ..Meta::default()
    }
}

/// Whether the client's parts are equal; an absent message counts as empty.
#[must_use]
pub fn is_same_client_part(a: Option<&Meta>, b: Option<&Meta>) -> bool {
    let none = Meta::default();
    let (a, b) = (a.unwrap_or(&none), b.unwrap_or(&none));
    a.tags == b.tags
        && a.labels == b.labels
        && a.annotations == b.annotations
        && a.owner_references == b.owner_references
        && a.services.clone().unwrap_or_default() == b.services.clone().unwrap_or_default()
}

/// Removes the server's part; the meta becomes absent if nothing else is in it.
pub fn strip_server_part(resource: &mut pb::Resource) {
    if let Some(meta) = resource.meta.take() {
        let kept = client_part(&meta);
        resource.meta = (kept != Meta::default()).then(|| Box::new(kept));
    }
}

/// Sets the version of a request by `meta.resource_version` if the request leaves it out.
pub fn take_version(resource: &mut pb::Resource) {
    if resource.version.is_empty()
        && let Some(meta) = &resource.meta
    {
        resource.version.clone_from(&meta.resource_version);
    }
}

/// Checks the client's part.
///
/// # Errors
/// The first fault, with its path within the resource.
pub fn check(meta: &Meta) -> Result<(), FieldFault> {
    check_count("tags", meta.tags.len(), MAX_TAGS)?;
    for (i, tag) in meta.tags.iter().enumerate() {
        let path_of = || path("tags").with(PathStep::index(i));
        check_text(path_of, tag, true)?;
        if meta.tags.iter().take(i).any(|other| other == tag) {
            return Err(fault(path_of(), format!("repeats {tag:?}; name each tag once")));
        }
    }
    check_count("labels", meta.labels.len(), MAX_LABELS)?;
    for (key, value) in &meta.labels {
        let path_of = || path("labels").with(PathStep::Key(key.clone()));
        check_text(path_of, key, true)?;
        check_text(path_of, value, false)?;
    }
    check_count("annotations", meta.annotations.len(), MAX_ANNOTATIONS)?;
    for key in meta.annotations.keys() {
        check_text(|| path("annotations").with(PathStep::Key(key.clone())), key, true)?;
    }
    check_owners(meta)?;
    if let Some(services) = &meta.services {
        check_count("services.allowed_services", services.allowed_services.len(), MAX_SERVICES)?;
        check_text(
            || path("services").with(PathStep::Field("owning_service".into())),
            &services.owning_service,
            false,
        )?;
        for (i, service) in services.allowed_services.iter().enumerate() {
            let path_of = || path("services").with(PathStep::Field("allowed_services".into())).with(PathStep::index(i));
            check_text(path_of, service, true)?;
        }
    }
    Ok(())
}

fn check_owners(meta: &Meta) -> Result<(), FieldFault> {
    check_count("owner_references", meta.owner_references.len(), MAX_OWNER_REFERENCES)?;
    let mut controlled = false;
    for (i, owner) in meta.owner_references.iter().enumerate() {
        let path_of =
            |field: &str| path("owner_references").with(PathStep::index(i)).with(PathStep::Field(field.to_owned()));
        for (field, text, needed) in [
            ("name", &owner.name, true),
            ("kind", &owner.kind, true),
            ("version", &owner.version, false),
            ("region", &owner.region, false),
            ("uid", &owner.uid, false),
        ] {
            check_text(|| path_of(field), text, needed)?;
        }
        let same = |other: &&crate::goten::OwnerReference| other.name == owner.name && other.kind == owner.kind;
        if meta.owner_references.iter().take(i).any(|other| same(&other)) {
            return Err(fault(path_of("name"), format!("repeats {:?}; name each owner once", owner.name)));
        }
        if owner.controller && std::mem::replace(&mut controlled, true) {
            return Err(fault(path_of("controller"), "is set twice; a resource has one controller".into()));
        }
    }
    Ok(())
}

fn path(field: &str) -> FieldPath {
    FieldPath::field("meta").with(PathStep::Field(field.to_owned()))
}

fn fault(path: FieldPath, fault: String) -> FieldFault {
    FieldFault { path, fault }
}

fn check_count(field: &str, count: usize, most: usize) -> Result<(), FieldFault> {
    if count <= most { Ok(()) } else { Err(fault(path(field), format!("has {count} entries; the limit is {most}"))) }
}

fn check_text(path_of: impl Fn() -> FieldPath, text: &str, needed: bool) -> Result<(), FieldFault> {
    if needed && text.is_empty() {
        return Err(fault(path_of(), "is empty".into()));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(fault(path_of(), format!("has {} bytes; the limit is {MAX_TEXT_BYTES}", text.len())));
    }
    // A zero byte ends a part of a key in the store.
    if text.contains('\0') { Err(fault(path_of(), "contains a zero byte".into())) } else { Ok(()) }
}

/// The client's part in its stored form: allowed services sorted and without repetitions.
#[must_use]
pub fn normalized(mut meta: Meta) -> Meta {
    if let Some(services) = &mut meta.services {
        services.allowed_services.sort();
        services.allowed_services.dedup();
    }
    meta
}

/// Derives the server's part of a resource without one from its other fields. Such resources were stored before the
/// server's part existed.
#[must_use]
pub fn derive_server_part(resource: &pb::Resource) -> Meta {
    let uid = resource.id.as_ref().map(|id| id.uid.as_str()).unwrap_or_default();
    let marked = meta::is_marked(&resource.metadata);
    Meta {
        create_time: ulid_time(uid),
        update_time: ulid_time(&resource.generation).or_else(|| ulid_time(uid)),
        uuid: uid.to_owned(),
        generation: 1,
        resource_version: resource.version.clone(),
        lifecycle: Some(lifecycle(marked)),
        ..Meta::default()
    }
}

/// Derives the server's part where it is missing.
pub fn complete_server_part(resource: &mut pb::Resource) {
    if resource.meta.as_ref().is_none_or(|meta| meta.uuid.is_empty()) {
        let mut meta = derive_server_part(resource);
        if let Some(client) = resource.meta.take() {
            meta = Meta { ..merge(*client, meta) };
        }
        resource.meta = Some(Box::new(meta));
    }
}

/// Joins the client's part of one meta with the server's part of another.
#[must_use]
pub fn merge(client: Meta, server: Meta) -> Meta {
    Meta {
        tags: client.tags,
        labels: client.labels,
        annotations: client.annotations,
        owner_references: client.owner_references,
        services: client.services,
        ..server
    }
}

/// The lifecycle of a resource by its deletion mark.
#[must_use]
pub fn lifecycle(marked: bool) -> Lifecycle {
    let state = if marked { State::Deleting } else { State::Active };
    Lifecycle { state: state.into(), block_deletion: false }
}

/// Time of creation of a ULID; `None` for other texts.
#[must_use]
pub fn ulid_time(id: &str) -> Option<Timestamp> {
    let millis = ulid::created_millis(id)?;
    let nanos = i32::try_from(millis % 1_000).ok()? * 1_000_000;
    Some(Timestamp { seconds: i64::try_from(millis / 1_000).ok()?, nanos })
}

/// Bytes that the server's part adds to an encoded resource, the change of the length of the field `meta` included.
#[must_use]
pub fn server_part_bytes(meta: &Meta) -> usize {
    let whole = prost::Message::encoded_len(meta);
    let server = server_fields_len(meta);
    // The field `meta` (1001) has a key of two bytes, then its length.
    let field = |len: usize| match len {
        0 => 0,
        len => 2 + encoding::encoded_len_varint(len as u64) + len,
    };
    field(whole) - field(whole.saturating_sub(server))
}

fn server_fields_len(meta: &Meta) -> usize {
    let text = |tag, text: &String| if text.is_empty() { 0 } else { encoding::string::encoded_len(tag, text) };
    let time =
        |tag, time: &Option<Timestamp>| time.as_ref().map_or(0, |time| encoding::message::encoded_len(tag, time));
    let generation = if meta.generation == 0 { 0 } else { encoding::int64::encoded_len(7, &meta.generation) };
    time(1, &meta.create_time)
        + time(2, &meta.update_time)
        + text(3, &meta.uuid)
        + generation
        + text(8, &meta.resource_version)
        + encoding::btree_map::encoded_len(
            encoding::string::encoded_len,
            encoding::int64::encoded_len,
            14,
            &meta.shards,
        )
        + meta.syncing.as_ref().map_or(0, |syncing| encoding::message::encoded_len(15, syncing))
        + time(16, &meta.delete_time)
        + meta.lifecycle.as_ref().map_or(0, |lifecycle| encoding::message::encoded_len(17, lifecycle))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost::Message as _;

    use super::*;
    use crate::goten::{OwnerReference, ServicesInfo, SyncingMeta};

    fn whole() -> Meta {
        Meta {
            create_time: Some(Timestamp { seconds: 1, nanos: 2 }),
            update_time: Some(Timestamp { seconds: 3, nanos: 4 }),
            uuid: "u".into(),
            tags: vec!["a".into(), "b".into()],
            labels: BTreeMap::from([("env".into(), "prod".into()), ("empty".into(), String::new())]),
            annotations: BTreeMap::from([("note".into(), "x".repeat(1_000))]),
            generation: 300,
            resource_version: "17".into(),
            owner_references: vec![OwnerReference { kind: "k".into(), name: "n".into(), ..Default::default() }],
            shards: BTreeMap::from([("byNameMod16".into(), 7)]),
            syncing: Some(SyncingMeta {
                owning_region: "us".into(),
                regions: vec!["*".into()],
                ..SyncingMeta::default()
            }),
            delete_time: Some(Timestamp::default()),
            lifecycle: Some(lifecycle(true)),
            services: Some(ServicesInfo { owning_service: "s".into(), allowed_services: vec!["t".into()] }),
        }
    }

    #[test]
    fn the_parts_are_the_whole() {
        let whole = whole();
        let client = client_part(&whole);
        assert!(is_same_client_part(Some(&client), Some(&whole)));
        assert_eq!(server_fields_len(&client), 0);
        let server = Meta { tags: vec![], labels: BTreeMap::new(), ..merge(Meta::default(), whole.clone()) };
        assert_eq!(server_fields_len(&whole), server.encoded_len());
        assert_eq!(merge(client.clone(), server.clone()), whole);
        let sized =
            |meta: Option<Meta>| pb::Resource { meta: meta.map(Box::new), ..pb::Resource::default() }.encoded_len();
        assert_eq!(server_part_bytes(&whole), sized(Some(whole.clone())) - sized(Some(client)));
        assert_eq!(server_part_bytes(&server), sized(Some(server.clone())));
        assert_eq!(server_part_bytes(&Meta::default()), 0);
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        assert_eq!(check(&whole()), Ok(()));
        let text = |meta: Meta| {
            let FieldFault { path, fault } = check(&meta).unwrap_err();
            format!("resource.{path} {fault}")
        };
        let tags = |tags: &[&str]| Meta { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..Meta::default() };
        assert_eq!(text(tags(&["a", ""])), "resource.meta.tags[1] is empty");
        assert_eq!(text(tags(&["a", "b", "a"])), "resource.meta.tags[2] repeats \"a\"; name each tag once");
        assert_eq!(text(tags(&["x"; 33])), "resource.meta.tags has 33 entries; the limit is 32");
        let labels = |key: &str, value: &str| Meta {
            labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            ..Meta::default()
        };
        assert_eq!(check(&labels("k", "")), Ok(()));
        assert!(text(labels("", "v")).ends_with("is empty"));
        assert!(text(labels("k", &"x".repeat(257))).ends_with("has 257 bytes; the limit is 256"));
        assert!(text(labels("k", "a\0b")).ends_with("contains a zero byte"));
        let owner = |name: &str, controller| OwnerReference {
            kind: "k".into(),
            name: name.into(),
            controller,
            ..OwnerReference::default()
        };
        let owners = |owner_references| Meta { owner_references, ..Meta::default() };
        assert_eq!(check(&owners(vec![owner("a", true), owner("b", false)])), Ok(()));
        assert!(text(owners(vec![owner("a", true), owner("b", true)])).contains("one controller"));
        assert!(text(owners(vec![owner("a", true), owner("a", false)])).contains("name each owner once"));
        assert!(text(owners(vec![owner("", true)])).contains("owner_references[0].name is empty"));
    }

    #[test]
    fn what_was_stored_before_gets_what_its_ids_say() {
        let id = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..pb::Id::default() };
        let client = Meta { tags: vec!["t".into()], ..Meta::default() };
        let mut resource =
            pb::Resource { id: Some(id), version: "9".into(), meta: Some(Box::new(client)), ..pb::Resource::default() };
        complete_server_part(&mut resource);
        let meta = resource.meta.clone().unwrap();
        // The example of the ULID specification: 2016-07-30T23:54:10.259Z.
        assert_eq!(meta.create_time, Some(Timestamp { seconds: 1_469_922_850, nanos: 259_000_000 }));
        assert_eq!(meta.update_time, meta.create_time);
        assert_eq!((meta.generation, &*meta.resource_version, meta.tags.len()), (1, "9", 1));
        assert_eq!(meta.lifecycle.unwrap().state(), State::Active);
        let before = resource.clone();
        complete_server_part(&mut resource);
        assert_eq!(resource, before);
    }
}
