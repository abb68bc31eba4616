//! A plugin's table, called as the host calls it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of what clippy takes for tests")]
// Authors may forbid code that the exports need: it is in this crate's macros, not in theirs.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use mortise_plugin::{
    Decision, Diagnostics, Plugin, ResourceType, Scope, Severity, Typed, authorize, field, log,
    manifest::{Hooks, Limits, Manifest},
    pb,
    prost::{Message, Name},
    prost_types::Any,
    testing,
};

#[derive(Clone, PartialEq, Message)]
struct Song {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(uint32, tag = "2")]
    beats: u32,
}

impl Name for Song {
    const PACKAGE: &'static str = "jukebox.v1";
    const NAME: &'static str = "Song";
}

/// Message of a later version of the plugin.
#[derive(Clone, PartialEq, Message)]
struct NewSong {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(uint32, tag = "2")]
    beats: u32,
    #[prost(string, tag = "3")]
    key: String,
}

static PLUGIN: Plugin = Plugin::new(
    "jukebox",
    "1.2.3",
    &[],
    &[
        &ResourceType::<Song>::new("jukebox", "v1", "Song", Scope::Namespace)
            .mutate(default_beats)
            .validate(judge)
            .key_rules()
            .schema_version(2)
            .immutable(&["title"])
            .columns(&[("TITLE", "data.title")])
            .short_names(&["song"]),
        &ResourceType::<Song>::new("jukebox", "v1", "Silence", Scope::Cluster).optional_data().mutate(default_beats),
        &ResourceType::<Song>::new("jukebox", "v1", "Single", Scope::Namespace)
            .key_rules()
            .authorize_read_by_id(authorize::key_read)
            .authorize_write_by_id(authorize::key_write)
            .authorize_list(authorize::key_list),
        &ResourceType::<Song>::new("jukebox", "v1", "Record", Scope::Partition).authorize_read(
            |id, stored| match stored {
                None if id.name == "known" => Decision::Allow,
                None => Decision::NeedResource,
                Some(song) => authorize::require("song:read", &song.data.title),
            },
        ),
    ],
)
.limits(Limits { memory_bytes: 1, fuel: 2, deadline_ms: 3 });
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing);

fn default_beats(song: &mut Typed<Song>) -> Result<(), Diagnostics> {
    match song.data.title.as_str() {
        "refuse" => return Err(Diagnostics::refusal("no")),
        "label" => song.metadata.insert("label".to_owned(), "yes".to_owned()),
        _ => None,
    };
    if song.data.beats == 0 {
        song.data.beats = 120;
    }
    Ok(())
}

fn judge(song: &Typed<Song>, prior: Option<&Typed<Song>>, diagnostics: &mut Diagnostics) {
    log::info!("judging {}", song.name());
    if song.data.title.is_empty() {
        diagnostics.error("song.title required").at(field("title"));
    }
    if let Some(prior) = prior {
        diagnostics.warning(format!("was {}", prior.data.title));
    }
}

fn resource(kind: &str, data: Option<Vec<u8>>) -> pb::Resource {
    let of = pb::Type { group: "jukebox".into(), group_version: "v1".into(), kind: kind.into() };
    pb::Resource {
        id: Some(pb::Id { name: "hit".into(), r#type: Some(of), ..pb::Id::default() }),
        owner: Some(pb::Id { name: "owner".into(), ..pb::Id::default() }),
        status: BTreeMap::from([("one".to_owned(), pb::Status::default())]),
        data: data.map(|value| Any { type_url: "custom/jukebox.v1.Song".into(), value }),
        ..pb::Resource::default()
    }
}

fn song(title: &str, beats: u32) -> Option<Vec<u8>> {
    Some(Song { title: title.into(), beats }.encode_to_vec())
}

fn summaries(diagnostics: &Diagnostics) -> Vec<String> {
    diagnostics.iter().map(|one| one.summary.clone()).collect()
}

#[test]
fn data_in_another_form_is_not_taken_for_a_change() {
    // The same song with its fields in the other order, and one default value written explicitly.
    for value in [[0x10, 0x07, 0x0a, 0x01, b'x'].as_slice(), &[0x0a, 0x01, b'y', 0x0a, 0x01, b'x', 0x10, 0x07]] {
        let input = resource("Song", Some(value.to_vec())).encode_to_vec();
        assert_eq!(PLUGIN.mutate(&input).unwrap(), None, "{value:?}");
    }
}

#[test]
fn mutate_changes_what_it_changes_and_nothing_else() {
    let newer = NewSong { title: "label".into(), beats: 0, key: "c minor".into() };
    let mut input = resource("Song", Some(newer.encode_to_vec())).encode_to_vec();
    // A field of the resource that this SDK does not know.
    let unknown = [0x82, 0x7d, 0x01, b'x'];
    input.extend_from_slice(&unknown);

    let output = PLUGIN.mutate(&input).unwrap().unwrap();
    assert!(output.windows(4).any(|window| window == unknown));
    let mut expected = resource("Song", Some(NewSong { beats: 120, ..newer }.encode_to_vec()));
    expected.metadata.insert("label".to_owned(), "yes".to_owned());
    let output_resource = pb::Resource::decode(output.as_slice()).unwrap();
    let data = |resource: &pb::Resource| NewSong::decode(resource.data.as_ref().unwrap().value.as_slice()).unwrap();
    assert_eq!(data(&output_resource), data(&expected));
    let without_data = |resource: pb::Resource| pb::Resource { data: None, ..resource };
    assert_eq!(output_resource.data.as_ref().unwrap().type_url, "custom/jukebox.v1.Song");
    assert_eq!(without_data(output_resource), without_data(expected));

    assert_eq!(PLUGIN.mutate(&output), Ok(None), "its own answer needs no change");
}

#[test]
fn mutate_may_refuse() {
    let refused = PLUGIN.mutate(&resource("Song", song("refuse", 0)).encode_to_vec()).unwrap_err();
    assert_eq!(summaries(&refused), ["no"]);
}

#[test]
fn absent_and_broken_data_are_refused_in_consuls_words() {
    let absent = resource("Song", None).encode_to_vec();
    let words = "error parsing resource data as type \"jukebox.v1.Song\": invalid nil source message";
    assert_eq!(summaries(&PLUGIN.mutate(&absent).unwrap_err()), [words]);
    assert_eq!(summaries(&PLUGIN.validate(&absent, None)), [words]);

    let broken = resource("Song", Some(vec![0xff])).encode_to_vec();
    let said = summaries(&PLUGIN.validate(&broken, None));
    assert!(said[0].starts_with("error parsing resource data as type \"jukebox.v1.Song\": "), "{said:?}");
    assert!(summaries(&PLUGIN.mutate(b"\xff").unwrap_err())[0].starts_with("the host sent a malformed resource"));
}

#[test]
fn optional_data_is_the_default_message() {
    let output = PLUGIN.mutate(&resource("Silence", None).encode_to_vec()).unwrap().unwrap();
    let data = pb::Resource::decode(output.as_slice()).unwrap().data.unwrap();
    assert_eq!(data, Any { type_url: "type.googleapis.com/jukebox.v1.Song".into(), value: song("", 120).unwrap() });
}

#[test]
fn prior_is_there_when_it_is_of_this_very_type() {
    let input = resource("Song", song("new", 1)).encode_to_vec();
    let with = |prior: pb::Resource| summaries(&PLUGIN.validate(&input, Some(&prior.encode_to_vec())));
    assert_eq!(with(resource("Song", song("old", 1))), ["was old"]);
    assert_eq!(with(resource("Silence", song("old", 1))), [""; 0]);
    assert_eq!(with(resource("Song", None)), [""; 0]);
    assert_eq!(with(resource("Song", Some(vec![0xff]))), [""; 0]);
}

#[test]
fn diagnostics_say_where() {
    let _ = testing::take_log();
    let said = PLUGIN.validate(&resource("Song", song("", 1)).encode_to_vec(), None);
    let one = said.iter().next().unwrap();
    assert_eq!((one.severity, one.path.to_string().as_str()), (Severity::Error, "data.title"));
    assert_eq!(testing::take_log(), [(log::Level::Info, "judging hit".to_owned())]);
}

#[test]
fn key_rules_ask_what_consul_asks() {
    let id = resource("Single", None).id.unwrap();
    let of = id.r#type.clone().unwrap();
    let id = id.encode_to_vec();
    let absent = resource("Single", None).encode_to_vec();
    let ask = |expected: (&'static str, &'static str), question: &dyn Fn() -> Decision| {
        assert_eq!(question(), Decision::Deny(String::new()), "nobody is allowed nothing");
        testing::as_caller(
            move |permission, name| (permission, name) == expected,
            || assert_eq!(question(), Decision::Allow),
        );
    };
    ask(("key:read", "resource/jukebox.v1.Single/hit"), &|| PLUGIN.read(&id, None));
    ask(("key:write", "resource/jukebox.v1.Single/hit"), &|| PLUGIN.write(&absent));
    ask(("key:list", "resource/jukebox.v1.Single"), &|| PLUGIN.list(&of, &pb::Tenancy::default()));
}

#[test]
fn a_rule_may_want_the_content() {
    let stored = resource("Record", song("title", 1));
    let mut id = stored.id.clone().unwrap();
    assert_eq!(PLUGIN.read(&id.encode_to_vec(), None), Decision::NeedResource);
    let read = |stored: &pb::Resource| PLUGIN.read(&id.encode_to_vec(), Some(&stored.encode_to_vec()));
    testing::as_caller(
        |permission, name| (permission, name) == ("song:read", "title"),
        || {
            assert_eq!(read(&stored), Decision::Allow);
            let Decision::Deny(reason) = read(&resource("Record", None)) else { panic!("there is nothing to judge") };
            assert!(reason.ends_with("invalid nil source message"), "{reason}");
        },
    );
    id.name = "known".to_owned();
    assert_eq!(PLUGIN.read(&id.encode_to_vec(), None), Decision::Allow);
}

#[test]
fn types_that_it_does_not_have() {
    let stranger = resource("Stranger", None);
    let said = PLUGIN.validate(&stranger.encode_to_vec(), None);
    assert_eq!(summaries(&said), ["plugin jukebox has no type jukebox.v1.Stranger"]);
    assert!(matches!(PLUGIN.write(&stranger.encode_to_vec()), Decision::Deny(_)));
}

#[test]
fn the_manifest_follows_from_the_table() {
    let manifest = Manifest::decode(PLUGIN.describe().as_slice()).unwrap();
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("jukebox", "1.2.3"));
    assert_eq!(manifest.capabilities, ["authorizer"]);
    assert_eq!(manifest.limits, Some(Limits { memory_bytes: 1, fuel: 2, deadline_ms: 3 }));
    let hooks = manifest.types.iter().map(|one| one.hooks.unwrap()).collect::<Vec<_>>();
    let none = Hooks::default();
    assert_eq!(
        hooks,
        [
            Hooks { mutate: true, validate: true, ..none },
            Hooks { mutate: true, ..none },
            Hooks { authorize_read: true, authorize_write: true, authorize_list: true, ..none },
            Hooks { authorize_read: true, ..none },
        ]
    );
    let first = &manifest.types[0];
    assert_eq!(first.message, "jukebox.v1.Song");
    assert_eq!((first.scope, first.schema_version), (3, 2));
    assert_eq!(
        (first.immutable_fields.as_slice(), first.short_names.as_slice()),
        (["title".to_owned()].as_slice(), ["song".to_owned()].as_slice())
    );
    assert_eq!(first.printer_columns[0].path, "data.title");
    let permissions = first.permissions.clone().unwrap();
    let said = [permissions.read, permissions.write, permissions.list].map(|one| one.unwrap());
    assert_eq!(
        said.map(|one| (one.permission, one.on)),
        [
            ("key:read", "resource/{group}.{group_version}.{kind}/{name}"),
            ("key:write", "resource/{group}.{group_version}.{kind}/{name}"),
            ("key:list", "resource/{group}.{group_version}.{kind}"),
        ]
        .map(|(permission, on)| (permission.to_owned(), on.to_owned()))
    );
    assert!(manifest.types[1..].iter().all(|one| one.permissions.is_none()), "a rule takes a permission's place");
}
