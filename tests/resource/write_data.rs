//! Write and the data in it: its type, its bytes, and changes by hooks.

use crate::support::{
    Server, Setup, album, any, artist, concept, decoded, demo, id, id_in, invalid, label, noted, refusal, resource,
    thing,
};
use mortise_resource::pb;
use mortise_test_guests::Thing;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::{V2_ALBUM, V2_ARTIST, bytes, nameless, with_data};

const ARTIST: &str = "demo.v2.Artist";

#[tokio::test]
async fn the_type_of_the_data_is_the_last_element_of_its_url() {
    let server = Server::start().await;
    let data = album("x", None).data.unwrap().value;
    for url in [
        V2_ALBUM.to_owned(),
        format!("/{V2_ALBUM}"),
        format!("type.googleapis.com/{V2_ALBUM}"),
        format!("a/b c/{V2_ALBUM}"),
    ] {
        let written = server.write(with_data(album("debut", None), bytes(&url, &data))).await.unwrap();
        assert_eq!(written.data, Some(bytes(&url, &data)), "kept as it came");
    }
    for (url, got) in [
        (format!("type.googleapis.com/{V2_ARTIST}"), V2_ARTIST.to_owned()),
        (format!("example.com/{V2_ARTIST}"), format!("example.com/{V2_ARTIST}")),
        (format!("x{V2_ALBUM}"), format!("x{V2_ALBUM}")),
        (format!("x.{V2_ALBUM}"), format!("x.{V2_ALBUM}")),
        (format!("{V2_ALBUM}/"), format!("{V2_ALBUM}/")),
        (V2_ALBUM.to_lowercase(), V2_ALBUM.to_lowercase()),
        ("hashicorp.consul.internal.demo.v1.Album".into(), "hashicorp.consul.internal.demo.v1.Album".into()),
        (String::new(), String::new()),
    ] {
        let said = refusal(server.write(with_data(album("debut", None), bytes(&url, &data))).await);
        let text = format!("resource.data is of wrong type (expected={V2_ALBUM:?}, got={got:?})");
        assert_eq!(said, invalid(text));
    }
}

#[tokio::test]
async fn data_may_be_absent_where_no_hook_minds() {
    let server = Server::start().await;
    for t in ["demo.v1.Concept", "demo.v1.Album", "demo.v2.Album", "demo.v2.Festival", "demo.v1.Executive"] {
        assert_eq!(server.write(resource(id(t, "one"), None)).await.unwrap().data, None, "{t}");
    }
    let (code, text) = refusal(server.write(resource(id(ARTIST, "korn"), None)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.starts_with("failed mutate hook: ") && text.ends_with("invalid nil source message"), "{text}");
    let (code, text) = refusal(server.write(resource(id("demo.v1.Artist", "korn"), None)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.ends_with("invalid nil source message"), "{text}");
}

#[tokio::test]
async fn data_that_does_not_decode_is_refused_with_its_path_hooks_or_not() {
    let server = Setup::new().guest("immutable-field").start().await;
    // A list with an artist named <ff>.
    let festival = [0x1a, 0, 0x1a, 3, 0x0a, 1, 0xff];
    let members = [0x1a, 7, 0x0a, 1, b'a', 0x12, 2, b'b', 0xff];
    for (t, message, value, path, what) in [
        (ARTIST, "hashicorp.consul.internal.demo.v2.Artist", &[0x0a, 1, 0xff][..], "data.name", "is not UTF-8"),
        (ARTIST, "hashicorp.consul.internal.demo.v2.Artist", &members, "data.group_members[\"a\"]", "is not UTF-8"),
        (
            "demo.v1.Album",
            "hashicorp.consul.internal.demo.v1.Album",
            &[0x0a, 5, 1],
            "data.name",
            "the bytes end too early",
        ),
        (
            "demo.v2.Festival",
            "hashicorp.consul.internal.demo.v2.Festival",
            &festival,
            "data.artists[1].name",
            "is not UTF-8",
        ),
        ("demo.v1.Concept", "hashicorp.consul.internal.demo.v1.Concept", &[0xff], "data", "the bytes end too early"),
        (
            "immutable_field.v1.Thing",
            "mortise.test.v1.Thing",
            &[0x22, 3, 0x0a, 1, 0xff],
            "data.inner.text",
            "is not UTF-8",
        ),
    ] {
        let broken = resource(id(t, "one"), Some(bytes(message, value)));
        let status = server.write(broken).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), format!("resource.data cannot be decoded as {message}: {path}: {what}"));
        let violation = &status.get_details_bad_request().unwrap().field_violations[0];
        assert_eq!((violation.field.as_str(), violation.description.as_str()), (path, what));
    }
}

#[tokio::test]
async fn unknown_fields_are_kept() {
    let server = Server::start().await;
    let future = [0xa2, 0x06, 3, b'n', b'e', b'w'];
    let mut debut = album("debut", None);
    debut.data.as_mut().unwrap().value.extend(future);
    let sent = debut.data.clone();
    assert_eq!(server.write(debut).await.unwrap().data, sent);
    // The same if the mutate hook, which does not know the field either, changes another one.
    let mut korn =
        with_data(artist("korn"), any(V2_ARTIST, &demo::v2::Artist { name: "Korn".into(), ..Default::default() }));
    korn.data.as_mut().unwrap().value.extend(future);
    let written = server.write(korn).await.unwrap();
    assert_eq!(decoded::<demo::v2::Artist>(&written).genre(), demo::v2::Genre::Disco);
    assert!(written.data.unwrap().value.windows(future.len()).any(|part| part == future));
}

#[tokio::test]
async fn validation_says_which_field_and_warns_of_what_it_lets_pass() {
    let server = Server::start().await;
    let status = server.write(nameless("korn")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "artist.name required"));
    let violations = status.get_details_bad_request().unwrap().field_violations;
    let said = violations.iter().map(|v| (v.field.as_str(), v.description.as_str())).collect::<Vec<_>>();
    assert_eq!(said, [("data.name", "artist.name required")]);
    assert_eq!(refusal(server.read(&id(ARTIST, "korn")).await).0, Code::NotFound);

    let early =
        demo::v2::Album { year_of_release: 1500, tracks: vec!["a".into(), String::new()], ..Default::default() };
    let written = server.write_full(with_data(album("debut", None), any(V2_ALBUM, &early))).await.unwrap();
    assert!(written.resource.is_some());
    let warnings = written.warnings.iter().map(|w| (w.path.as_str(), w.summary.as_str())).collect::<Vec<_>>();
    assert_eq!(
        warnings,
        [
            ("data.year_of_release", "album.year_of_release is 1500, before there were recordings"),
            ("data.tracks[1]", "album.tracks has a track without a title"),
        ]
    );
    assert_eq!(server.write_full(album("debut", None)).await.unwrap().warnings, []);
}

#[tokio::test]
async fn mutate_runs_once_for_each_write() {
    let server = Setup::new().guest("mutate-twice").start().await;
    let one = thing("mutate_twice", "boom", &Thing::default());
    for _ in 0..3 {
        let written = server.write(one.clone()).await.unwrap();
        assert_eq!(decoded::<Thing>(&written).items, ["again"]);
    }
    // Conflicts, which unconditional writes hide by retries, do not run the hook again.
    let writers = (0..16).map(|_| {
        let (mut client, one) = (server.client(), one.clone());
        tokio::spawn(async move { client.write(pb::WriteRequest { resource: Some(one) }).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        let written = writer.await.unwrap().unwrap().into_inner().resource.unwrap();
        assert_eq!(decoded::<Thing>(&written).items, ["again"]);
    }
    // The result can be written back; the answer reports another change.
    let stored = server.read(&id("mutate_twice.v1.Thing", "boom")).await.unwrap();
    let written = server.write_full(stored).await.unwrap();
    assert_eq!(decoded::<Thing>(written.resource.as_ref().unwrap()).items, ["again", "again"]);
    assert!(written.warnings[0].summary.starts_with("plugin mutate-twice: mutate changed data"));
}

#[tokio::test]
async fn a_resource_has_a_largest_size() {
    let server = Setup::new().env("MORTISE_STORE_MAX_RESOURCE_BYTES", 20_000).start().await;
    let sized = |size: usize| noted(concept("big"), &[("k", &"x".repeat(size))]);
    let written = server.write(sized(19_000)).await.unwrap();
    let (code, text) = refusal(server.write(sized(21_000)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.ends_with("bytes, more than the limit of 20000 (store.max_resource_bytes)"), "{text}");
    assert_eq!(server.read(&id("demo.v1.Concept", "big")).await.unwrap(), written, "nothing is cut");

    let server = Server::start().await;
    assert!(server.write(sized(1_000_000)).await.is_ok());
    assert_eq!(refusal(server.write(sized(1 << 20)).await).0, Code::InvalidArgument);
}

/// It is refused before any plugin is called, so that lack of memory does not count as a plugin's fault.
#[tokio::test]
async fn data_over_the_limit_never_reaches_a_plugin() {
    let server = Server::start().await;
    let mut large = artist("large");
    let mut data = decoded::<demo::v2::Artist>(&large);
    data.name = "x".repeat(12 << 20);
    large.data = Some(any(V2_ARTIST, &data));
    for _ in 0..12 {
        let (code, text) = refusal(server.write(large.clone()).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.contains("store.max_resource_bytes"), "{text}");
    }
    assert_eq!(refusal(server.mutate_and_validate(large).await).0, Code::InvalidArgument);
    server.write(artist("korn")).await.unwrap();
}

/// The owner is part of the store's keys.
#[tokio::test]
async fn an_owner_has_a_uid_and_a_type_that_can_be_one() {
    let server = Server::start().await;
    let owner = id("demo.v1.Concept", "owner");
    let with = |change: &dyn Fn(&mut pb::Id)| {
        let mut child = concept("child");
        let mut owner = pb::Id { uid: "u".into(), ..owner.clone() };
        change(&mut owner);
        child.owner = Some(owner);
        child
    };
    let long = || "x".repeat(129);
    let cases: [(&str, pb::Resource); 6] = [
        ("uid", with(&|owner| owner.uid = long())),
        ("uid", with(&|owner| owner.uid = "a\0b".into())),
        ("type.group", with(&|owner| owner.r#type.as_mut().unwrap().group = long())),
        ("type.group_version", with(&|owner| owner.r#type.as_mut().unwrap().group_version = "\0".into())),
        ("type.kind", with(&|owner| owner.r#type.as_mut().unwrap().kind = long())),
        ("uid", with(&|owner| owner.uid = "u".repeat(1 << 20))),
    ];
    for (part, child) in cases {
        for answer in [
            refusal(server.write(child.clone()).await.map(drop)),
            refusal(server.mutate_and_validate(child).await.map(drop)),
        ] {
            assert_eq!(answer.0, Code::InvalidArgument);
            assert!(answer.1.starts_with(&format!("resource.owner.{part} invalid: ")), "{}", answer.1);
        }
    }
    server.write(with(&|owner| owner.uid = "x".repeat(128))).await.unwrap();
}

/// The right to read a label depends on its name, which is data: without data, no caller could read it.
#[tokio::test]
async fn data_that_decides_who_may_read_is_required() {
    let server = Server::start().await;
    let bare = resource(id_in("demo.v1.RecordLabel", "mute", "default", ""), None);
    let text = "resource.data is required: the permission to read a demo.v1.RecordLabel depends on it";
    assert_eq!(refusal(server.write(bare.clone()).await), invalid(text));
    assert_eq!(refusal(server.mutate_and_validate(bare).await), invalid(text));
    let written = server.write(label("sub-pop", "default")).await.unwrap();
    let emptied = pb::Resource { data: None, ..written.clone() };
    assert_eq!(refusal(server.write(emptied).await), invalid(text));
    assert_eq!(server.read(written.id.as_ref().unwrap()).await.unwrap(), written);
    server.write(concept("idea")).await.unwrap();
}
