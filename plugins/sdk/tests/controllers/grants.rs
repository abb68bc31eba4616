//! Grants: requests of a manifest, and what they allow.

use super::*;

#[test]
fn grants() {
    let world = World::new(&PLUGIN);
    let ctx = world.context();
    assert_eq!(ctx.secret("token").unwrap_err().code, Failure::DENIED);
    world.grant_secret("token", b"x");
    assert_eq!(ctx.secret("token").unwrap(), b"x");

    let out = ctx.files("out");
    assert_eq!(out.write("a", b"1").unwrap_err().code, Failure::DENIED);
    world.grant_directory("out");
    assert_eq!(out.write("../a", b"1").unwrap_err().code, Failure::INVALID);
    assert_eq!((out.write_if_changed("a", b"1"), out.write_if_changed("a", b"1")), (Ok(true), Ok(false)));
    assert_eq!((out.list().unwrap(), world.file("out", "a").unwrap()), (vec!["a".to_owned()], b"1".to_vec()));
    out.remove("a").unwrap();
    assert_eq!(out.read("a"), Ok(None));

    ctx.kv().set("a/1", b"x").unwrap();
    ctx.kv().set("b/1", b"x").unwrap();
    assert_eq!(ctx.kv().keys("a/").unwrap(), ["a/1"]);
    ctx.kv().remove("a/1").unwrap();
    assert_eq!(ctx.kv().get("a/1"), Ok(None));
    assert!(!ctx.cancelled());
    world.cancel();
    assert!(ctx.cancelled());
}

mod by_field {
    //! Mappers and indexes that read the data, by descriptors made by hand.

    use super::*;

    struct Noop;
    impl Reconciler for Noop {
        type Managed = Song;
        fn reconcile(&self, _: &Context<'_>, request: &Request<Song>) -> Result<Outcome, Error> {
            CALLS.with_borrow_mut(|calls| calls.push(request.name().to_owned()));
            Ok(Outcome::Done)
        }
    }

    static TABLE: Plugin = Plugin::new("choir", "1.0.0", &[], &[&ResourceType::of(SONG, Scope::Namespace)])
        .controllers(&[&Controller::new("songs", SONG, Noop)
            .indexes(&[
                Index::by_reference("singers", "singers"),
                Index::by_value("title", "title"),
                Index::by_value("beats", "beats"),
                Index::by_name("name"),
                Index::by_name("here").in_tenancy(),
                Index::by_metadata("pairs").in_tenancy(),
            ])
            .watches(&[
                &Watch::new(SINGER, Mapper::Index("singers")),
                &Watch::new(FAN, Mapper::Reference("singers")),
            ])]);

    /// A world of the plugin, with descriptors.
    fn world() -> World {
        let field = |name: &str, number, of: i32, repeated, type_name: Option<&str>| FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            r#type: Some(of),
            label: Some(if repeated { 3 } else { 1 }),
            type_name: type_name.map(Into::into),
            ..FieldDescriptorProto::default()
        };
        let song = DescriptorProto {
            name: Some("Song".into()),
            field: vec![
                field("title", 1, 9, false, None),
                field("beats", 2, 13, false, None),
                field("singers", 3, 11, true, Some(".hashicorp.consul.resource.Reference")),
            ],
            ..DescriptorProto::default()
        };
        let file = FileDescriptorProto {
            package: Some("jukebox.v1".into()),
            message_type: vec![song],
            ..FileDescriptorProto::default()
        };
        World::with_descriptors(&TABLE, FileDescriptorSet { file: vec![file] })
    }

    #[test]
    fn references_lead_to_songs_and_values_find_them() {
        let world = world();
        let at = World::tenancy();
        let singer = world.put(&Typed::new(SINGER.id("cash", &at), Song::default())).unwrap();
        let to = |id: &pb::Id| vec![mortise_plugin::reference_to(id)];
        let mut hurt = song("hurt", "Hurt");
        (hurt.data.beats, hurt.data.singers) = (90, to(singer.id()));
        hurt.metadata.insert("genre".into(), "folk".into());
        let hurt = world.put(&hurt).unwrap();
        let mut other = song("other", "Hurtling");
        other.metadata.insert("genre".into(), "folk-rock".into());
        world.put(&other).unwrap();
        let fan = Song { singers: to(hurt.id()), ..Song::default() };
        world.put(&Typed::new(FAN.id("me", &at), fan)).unwrap();

        let cache = world.context().cache();
        let found = |index: &str, key: Key<'_>| {
            let songs = cache.list(SONG, index, key).unwrap();
            songs.iter().map(|song| song.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("singers", Key::Id(singer.id())), ["hurt"]);
        assert_eq!(found("beats", Key::Value("90")), ["hurt"]);
        assert_eq!(found("beats", Key::Value("0")), ["other"], "a number that is not there is zero");
        assert_eq!(found("title", Key::Value("Hurt")), ["hurt", "other"], "a list goes by prefix");
        assert_eq!(cache.first(SONG, "title", Key::Value("Hurt")).unwrap().unwrap().name(), "hurt");
        let anywhere = pb::Id { tenancy: Some(mortise_plugin::everywhere()), ..singer.id().clone() };
        assert_eq!(found("singers", Key::Id(&anywhere)), ["hurt"]);
        assert_eq!(found("title", Key::Exact("Hurt")), ["hurt"], "but for a whole value");
        assert_eq!(found("name", Key::Value("h")), ["hurt"]);
        assert_eq!(found("name", Key::Exact("h")), [""; 0]);
        assert_eq!(found("here", Key::Value("default/default/")), ["hurt", "other"]);
        assert_eq!(found("here", Key::Exact("default/default/other")), ["other"]);
        assert_eq!(found("here", Key::Value("elsewhere/")), [""; 0]);
        assert_eq!(found("pairs", Key::Exact("default/default/genre=folk")), ["hurt"]);
        assert_eq!(found("pairs", Key::Value("default/default/genre=folk")), ["hurt", "other"]);
        assert_eq!(cache.first(SONG, "name", Key::Exact("other")).unwrap().unwrap().name(), "other");
        assert!(cache.first(SONG, "name", Key::Exact("o")).unwrap().is_none());
        assert!(cache.list(SONG, "colour", Key::Value("")).is_err());
        assert!(cache.get(SHEET, singer.id()).is_err(), "that type is not watched");

        settled(&world);
        world.put(&singer).unwrap();
        // Songs of their own ids; the singer's by the index, which has whole ids; the fan's by a reference without a
        // uid.
        assert_eq!(settled(&world).1, ["hurt", "hurt", "other"]);
    }
}

#[test]
fn http_is_answered_by_the_test_and_denied_without() {
    let world = World::new(&PLUGIN);
    let request = HttpRequest::post("https://example.org/songs").header("x-key", "k").body("la");
    let denied = world.context().http().send(&request).unwrap_err();
    assert_eq!(denied.code, Failure::DENIED);
    assert!(denied.message.contains("grant them with http = [\"example.org\"]"), "{denied}");
    world.answer_http(|request| {
        assert_eq!(
            (&*request.method, &*request.url, &*request.body),
            ("POST", "https://example.org/songs", &b"la"[..])
        );
        Ok(HttpResponse::new(201).with_header("Location", "/songs/1").with_body("made"))
    });
    let answer = world.context().http().send(&request).unwrap();
    assert!(answer.is_success());
    assert_eq!((answer.header("location"), &*answer.text()), (Some("/songs/1"), "made"));
    world.fail_next("http", Failure::new(Failure::UNAVAILABLE, "nobody is there"));
    assert_eq!(world.context().http().send(&request).unwrap_err().code, Failure::UNAVAILABLE);
    let wrong = world.context().http().send(&HttpRequest::get("example.org")).unwrap_err();
    assert_eq!(wrong.code, Failure::INVALID);
}
