//! Manifests that a host must refuse, each with one fault.

use mortise_plugin::{
    manifest::{Hooks, Manifest, Permission, Permissions, QueryOptions, ResourceType, Scope},
    prost::Message,
    prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MessageOptions},
};

use super::manifest_only;
use crate::DESCRIPTORS;

/// A valid manifest of a plugin `good` with the type `good.v1.Thing` and no hooks; tests change it and pass it to
/// [`manifest_only`].
///
/// # Panics
/// If this package's own descriptors are broken.
#[must_use]
#[allow(clippy::expect_used, reason = "for tests: the input is this package's own")]
pub fn good_manifest() -> Manifest {
    Manifest {
        name: "good".to_owned(),
        version: "0.1.0".to_owned(),
        descriptors: Some(Message::decode(DESCRIPTORS).expect("our descriptors decode")),
        types: vec![thing("good", "v1", "Thing")],
        ..Manifest::default()
    }
}

/// Components with a manifest that a host must refuse beside any other plugins: pairs of fault and component.
///
/// # Panics
/// As [`good_manifest`] and [`manifest_only`].
#[must_use]
pub fn bad_manifests() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = vec![("not-protobuf", manifest_only(&[0xff; 16])), ("no-manifest", manifest_only(&[]))];
    let mut bad = |name, spoil: fn(&mut Manifest)| {
        let mut manifest = good_manifest();
        spoil(&mut manifest);
        all.push((name, manifest_only(&manifest.encode_to_vec())));
    };
    bad("empty-name", |manifest| manifest.name.clear());
    bad("bad-name", |manifest| manifest.name = "Good Plugin".to_owned());
    bad("long-name", |manifest| manifest.name = "x".repeat(64));
    bad("bad-version", |manifest| manifest.version = "one".to_owned());
    bad("empty-version", |manifest| manifest.version.clear());
    bad("bad-group", |manifest| manifest.types = vec![thing("Good", "v1", "Thing")]);
    bad("bad-group-version", |manifest| manifest.types = vec![thing("good", "1", "Thing")]);
    bad("bad-kind", |manifest| manifest.types = vec![thing("good", "v1", "thing")]);
    bad("missing-scope", |manifest| each(manifest, |one| one.scope = Scope::Unspecified.into()));
    bad("unknown-scope", |manifest| each(manifest, |one| one.scope = 99));
    bad("missing-message", |manifest| each(manifest, |one| one.message.clear()));
    bad("unknown-message", |manifest| each(manifest, |one| one.message = "mortise.test.v1.Nothing".to_owned()));
    bad("no-descriptors", |manifest| manifest.descriptors = None);
    bad("broken-descriptors", |manifest| manifest.descriptors = Some(broken().into()));
    bad("map-without-a-key", |manifest| map(manifest, &[]));
    bad("map-without-a-value", |manifest| map(manifest, &[("key", STRING)]));
    bad("map-by-bytes", |manifest| map(manifest, &[("key", BYTES), ("value", STRING)]));
    bad("duplicate-type", |manifest| manifest.types = vec![thing("good", "v1", "Thing"), thing("good", "v1", "Thing")]);
    bad("no-types", |manifest| manifest.types.clear());
    bad("hook-without-export", |manifest| {
        each(manifest, |one| one.hooks = Some(Hooks { validate: true, ..Hooks::default() }));
    });
    bad("unknown-capability", |manifest| manifest.capabilities = vec!["teleport".to_owned()]);
    bad("unknown-immutable-field", |manifest| each(manifest, |one| one.immutable_fields = vec!["colour".to_owned()]));
    bad("immutable-field-in-a-list", |manifest| {
        each(manifest, |one| one.immutable_fields = vec!["items.text".to_owned()]);
    });
    bad("unknown-path-of-a-view", |manifest| {
        each(manifest, |one| {
            let basic_view = vec!["data.text".to_owned(), "data.colour".to_owned()];
            one.query = Some(QueryOptions { basic_view, ..QueryOptions::default() });
        });
    });
    bad("index-outside-data", |manifest| {
        each(manifest, |one| {
            let indexed_fields = vec!["id.name".to_owned()];
            one.query = Some(QueryOptions { indexed_fields, ..QueryOptions::default() });
        });
    });
    bad("index-named-twice", |manifest| {
        each(manifest, |one| {
            let indexed_fields = vec!["data.text".to_owned(), "data.text".to_owned()];
            one.query = Some(QueryOptions { indexed_fields, ..QueryOptions::default() });
        });
    });
    bad("too-many-indexes", |manifest| {
        each(manifest, |one| {
            let indexed_fields = vec!["data.text".to_owned(); 9];
            one.query = Some(QueryOptions { indexed_fields, ..QueryOptions::default() });
        });
    });
    bad("unknown-part-in-permission", |manifest| {
        each(manifest, |one| {
            let read = Permission { permission: "key:read".to_owned(), on: "thing/{colour}".to_owned() };
            one.permissions = Some(Permissions { read: Some(read), ..Permissions::default() });
        });
    });
    bad("reserved-type", |manifest| manifest.types = vec![thing("internal", "v1", "Tombstone")]);
    all
}

fn thing(group: &str, group_version: &str, kind: &str) -> ResourceType {
    ResourceType {
        group: group.to_owned(),
        group_version: group_version.to_owned(),
        kind: kind.to_owned(),
        scope: Scope::Namespace.into(),
        message: "mortise.test.v1.Thing".to_owned(),
        schema_version: 1,
        ..ResourceType::default()
    }
}

fn each(manifest: &mut Manifest, spoil: fn(&mut ResourceType)) {
    manifest.types.iter_mut().for_each(spoil);
}

/// Types of fields.
const STRING: i32 = 9;
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;

/// Gives the message a map field whose entry has these fields, not the required ones.
fn map(manifest: &mut Manifest, entry: &[(&str, i32)]) {
    let field = |(number, (name, of)): (i32, &(&str, i32))| FieldDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number),
        r#type: Some(*of),
        label: Some(1),
        ..FieldDescriptorProto::default()
    };
    let entry = DescriptorProto {
        name: Some("XEntry".to_owned()),
        field: (1..).zip(entry).map(field).collect(),
        options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..DescriptorProto::default()
    };
    let x = FieldDescriptorProto {
        label: Some(3),
        type_name: Some(".mortise.test.v1.Thing.XEntry".to_owned()),
        ..field((20, &("x", MESSAGE)))
    };
    change_files(manifest, |file| {
        for thing in file.message_type.iter_mut().filter(|message| message.name() == "Thing") {
            thing.field.push(x.clone());
            thing.nested_type.push(entry.clone());
        }
    });
}

/// Changes each file of a manifest's descriptors.
///
/// # Panics
/// If they cannot be decoded.
#[allow(clippy::expect_used, reason = "for tests: the input is this package's own")]
pub fn change_files(manifest: &mut Manifest, change: impl FnMut(&mut FileDescriptorProto)) {
    let mut files = manifest.descriptors.take().unwrap_or_default().decoded().expect("descriptors decode");
    files.file.iter_mut().for_each(change);
    manifest.descriptors = Some(files.into());
}

/// Decodable descriptors of the message, with a field of a missing type.
fn broken() -> FileDescriptorSet {
    let field = FieldDescriptorProto {
        name: Some("lost".to_owned()),
        number: Some(1),
        r#type: Some(11),
        type_name: Some(".mortise.test.v1.Lost".to_owned()),
        label: Some(1),
        ..FieldDescriptorProto::default()
    };
    let message = DescriptorProto { name: Some("Thing".to_owned()), field: vec![field], ..DescriptorProto::default() };
    let file = FileDescriptorProto {
        name: Some("mortise/test/v1/thing.proto".to_owned()),
        package: Some("mortise.test.v1".to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: vec![message],
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![file] }
}
