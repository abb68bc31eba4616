//! The table of demo types, as clients of Consul's know it.

use mortise_plugin::{
    Decision, Diagnostics,
    manifest::{Hooks, Manifest, Scope},
    pb,
    prost::{Message, Name},
    prost_types::{Any, FileDescriptorSet},
    testing,
};

use super::{PLUGIN, proto, v1, v2};

fn id(group_version: &str, kind: &str) -> pb::Id {
    let of = pb::Type { group: "demo".into(), group_version: group_version.into(), kind: kind.into() };
    pb::Id { name: "korn".into(), r#type: Some(of), ..pb::Id::default() }
}

fn resource<M: Message + Name>(group_version: &str, data: &M) -> Vec<u8> {
    let any = Any { type_url: format!("type.googleapis.com/{}", M::full_name()), value: data.encode_to_vec() };
    pb::Resource { id: Some(id(group_version, M::NAME)), data: Some(any), ..pb::Resource::default() }.encode_to_vec()
}

fn without_data(group_version: &str, kind: &str) -> Vec<u8> {
    pb::Resource { id: Some(id(group_version, kind)), ..pb::Resource::default() }.encode_to_vec()
}

fn summaries(diagnostics: &Diagnostics) -> Vec<String> {
    diagnostics.iter().map(|one| one.summary.clone()).collect()
}

#[test]
fn an_unspecified_genre_becomes_disco() {
    let artist = v2::Artist { name: "Korn".into(), ..v2::Artist::default() };
    let output = PLUGIN.mutate(&resource("v2", &artist)).unwrap().unwrap();
    let data = pb::Resource::decode(output.as_slice()).unwrap().data.unwrap();
    assert_eq!(v2::Artist::decode(data.value.as_slice()).unwrap().genre(), v2::Genre::Disco);
    assert_eq!(PLUGIN.mutate(&output), Ok(None));
}

#[test]
fn a_genre_from_the_future_stays() {
    let artist = v2::Artist { name: "Korn".into(), genre: 99, ..v2::Artist::default() };
    assert_eq!(PLUGIN.mutate(&resource("v2", &artist)), Ok(None));
}

#[test]
fn artists_need_a_name() {
    for input in [resource("v1", &v1::Artist::default()), resource("v2", &v2::Artist::default())] {
        let said = PLUGIN.validate(&input, None);
        assert_eq!(summaries(&said), ["artist.name required"]);
        assert_eq!(said.iter().next().unwrap().path.to_string(), "data.name");
    }
    assert!(
        PLUGIN.validate(&resource("v2", &v2::Artist { name: "Korn".into(), ..v2::Artist::default() }), None).is_empty()
    );
}

#[test]
fn absent_data_is_a_fault_of_artists_alone() {
    let words = |of: &str| {
        format!(
            "error parsing resource data as type \"hashicorp.consul.internal.demo.{of}\": invalid nil source message"
        )
    };
    assert_eq!(summaries(&PLUGIN.mutate(&without_data("v2", "Artist")).unwrap_err()), [words("v2.Artist")]);
    assert_eq!(summaries(&PLUGIN.validate(&without_data("v1", "Artist"), None)), [words("v1.Artist")]);
    for (group_version, kind) in [
        ("v1", "Executive"),
        ("v1", "RecordLabel"),
        ("v1", "Album"),
        ("v1", "Concept"),
        ("v2", "Album"),
        ("v2", "Festival"),
    ] {
        let input = without_data(group_version, kind);
        assert_eq!(PLUGIN.mutate(&input), Ok(None), "{kind}");
        assert!(PLUGIN.validate(&input, None).is_empty(), "{kind}");
    }
}

#[test]
fn odd_albums_are_warned_of() {
    let album = v2::Album { year_of_release: 204, tracks: vec!["one".into(), String::new()], ..v2::Album::default() };
    let said = PLUGIN.validate(&resource("v2", &album), None);
    assert!(!said.has_errors());
    let paths = said.iter().map(|one| one.path.to_string()).collect::<Vec<_>>();
    assert_eq!(paths, ["data.year_of_release", "data.tracks[1]"]);
    assert!(
        PLUGIN.validate(&resource("v2", &v2::Album { year_of_release: 1994, ..v2::Album::default() }), None).is_empty()
    );
}

#[test]
fn labels_are_judged_with_the_label_at_hand() {
    let id = id("v1", "RecordLabel").encode_to_vec();
    assert_eq!(PLUGIN.read(&id, None), Decision::NeedResource);
    let label = resource("v1", &v1::RecordLabel { name: "Immortal".into(), ..v1::RecordLabel::default() });
    assert_eq!(PLUGIN.read(&id, Some(&label)), Decision::Deny(String::new()));
    testing::as_caller(
        |permission, name| (permission, name) == ("key:read", "resource/demo.v1.RecordLabel/korn"),
        || assert_eq!(PLUGIN.read(&id, Some(&label)), Decision::Allow),
    );
}

#[test]
fn every_type_has_key_rules() {
    const NAMED: &str = "resource/{group}.{group_version}.{kind}/{name}";
    for one in Manifest::decode(PLUGIN.describe().as_slice()).unwrap().types {
        let permissions = one.permissions.unwrap();
        let said = [permissions.read, permissions.write, permissions.list];
        let said = said.each_ref().map(|one| one.as_ref().map(|one| (one.permission.as_str(), one.on.as_str())));
        // Labels have a hook for reading.
        let read = (one.kind != "RecordLabel").then_some(("key:read", NAMED));
        let list = ("key:list", "resource/{group}.{group_version}.{kind}");
        assert_eq!(said, [read, Some(("key:write", NAMED)), Some(list)], "{}", one.kind);
    }
}

#[test]
fn the_table_is_consuls() {
    let none = Hooks::default();
    let expected = [
        ("v1.Executive", Scope::Cluster, none),
        ("v1.RecordLabel", Scope::Partition, Hooks { authorize_read: true, ..none }),
        ("v1.Artist", Scope::Namespace, Hooks { validate: true, ..none }),
        ("v1.Album", Scope::Namespace, none),
        ("v1.Concept", Scope::Namespace, none),
        ("v2.Artist", Scope::Namespace, Hooks { mutate: true, validate: true, ..none }),
        ("v2.Album", Scope::Namespace, Hooks { validate: true, ..none }),
        ("v2.Festival", Scope::Namespace, none),
    ];
    let manifest = Manifest::decode(PLUGIN.describe().as_slice()).unwrap();
    let found = manifest.types.iter().map(|one| {
        assert_eq!(one.message, format!("hashicorp.consul.internal.demo.{}.{}", one.group_version, one.kind));
        (format!("{}.{}", one.group_version, one.kind), one.scope(), one.hooks.unwrap())
    });
    assert_eq!(found.collect::<Vec<_>>(), expected.map(|(name, scope, hooks)| (name.to_owned(), scope, hooks)));
}

#[test]
fn descriptors_hold_what_the_types_need() {
    let files = FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap().file;
    let names = files.iter().map(|file| file.name()).collect::<Vec<_>>();
    assert_eq!(
        names,
        [
            "hashicorp/consul/internal/demo/v1/demo.proto",
            "goten/types/meta.proto",
            "mortise/v1/diagnostic.proto",
            "mortise/v1/reference.proto",
            "hashicorp/consul/resource/resource.proto",
            "hashicorp/consul/internal/demo/v2/demo.proto",
        ]
    );
    // The plugin's own files keep their comments, which schemas show; those of others would only take space.
    for file in files {
        let own = file.name().starts_with("hashicorp/consul/internal/demo/");
        assert_eq!(file.source_code_info.is_some(), own, "{}", file.name());
        let mut kept = file.source_code_info.iter().flat_map(|info| &info.location);
        assert!(kept.all(|one| one.leading_comments.is_some() || one.trailing_comments.is_some()));
    }
}
