//! Controllers of a plugin, in a world in memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of what clippy takes for tests")]
// Authors may forbid code that the exports need: it is in this crate's macros, not in theirs.
#![forbid(unsafe_code)]

mod grants;

use std::{cell::RefCell, ops::ControlFlow, time::Duration};

use mortise_plugin::{
    CleanUp, Condition, Context, Controller, DeletionState, Error, Failure, Finalizer, HttpRequest, HttpResponse,
    Index, Key, Kind, Mapper, Outcome, Plugin, Reconciler, Request, ResourceType, Scope, Status, Typed, Watch,
    manifest::{self, Manifest},
    meta, pb,
    prost::{Message, Name},
    prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet},
    testing::{Settled, Unsettled, World, with_settings},
};

/// Message of every type.
#[derive(Clone, PartialEq, Message)]
struct Song {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(uint32, tag = "2")]
    beats: u32,
    #[prost(message, repeated, tag = "3")]
    singers: Vec<pb::Reference>,
}

impl Name for Song {
    const PACKAGE: &'static str = "jukebox.v1";
    const NAME: &'static str = "Song";
}

const SONG: Kind<Song> = Kind::new("jukebox", "v1", "Song");
const SHEET: Kind<Song> = Kind::new("jukebox", "v1", "Sheet");
const SINGER: Kind<Song> = Kind::new("jukebox", "v1", "Singer");
const COVER: Kind<Song> = Kind::new("jukebox", "v1", "Cover");
const FAN: Kind<Song> = Kind::new("jukebox", "v1", "Fan");
const RELEASE: Finalizer = Finalizer::new("jukebox/release");

/// A reconciler whose action follows from the song's title.
struct Songs;

impl Reconciler for Songs {
    type Managed = Song;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Song>) -> Result<Outcome, Error> {
        CALLS.with_borrow_mut(|calls| calls.push(request.name().to_owned()));
        let Some(mut song) = request.read(ctx)? else { return Ok(Outcome::Done) };
        match song.data.title.as_str() {
            "fails" => return Err("no".into()),
            "again" => return Ok(Outcome::RequeueNow),
            "later" => return Ok(Outcome::RequeueAfter(Duration::from_secs(5))),
            "waits" => return Ok(Outcome::Deferred(Duration::from_secs(7), "for rain".to_owned())),
            "restless" => {
                song.data.beats += 1;
                ctx.write(&song)?;
            }
            "sheet" => {
                if RELEASE.guard(ctx, &mut song, |_| Ok(ctx.kv().set("cleaned", b"yes")?))? == DeletionState::CleanedUp
                {
                    return Ok(Outcome::Done);
                }
                if ctx.owned(SHEET, song.id())?.is_empty() {
                    let sheet = SHEET.id(song.name(), &World::tenancy());
                    ctx.write(&Typed::new(sheet, Song::default()).owned_by(song.id()))?;
                }
                let mut status = Status::new("jukebox/songs", &song).with(Condition::holds("Printed"));
                status.push(Condition::fails("Sold").reason("NoFans").message("Nobody came."));
                status.write_if_changed(ctx, &song)?;
            }
            "record" => {
                let guarded = RELEASE.guard_until_finished(ctx, &mut song, |_| {
                    Ok(match ctx.kv().get("left")?.as_deref() {
                        None => CleanUp::Finished,
                        Some(b"a while") => CleanUp::Later(Duration::from_secs(5)),
                        Some(why) => CleanUp::Deferred(Duration::from_secs(7), String::from_utf8(why.to_vec())?),
                    })
                })?;
                if let ControlFlow::Break(outcome) = guarded {
                    return Ok(outcome);
                }
                ctx.kv().set("made", b"yes")?;
            }
            _ => {}
        }
        Ok(Outcome::Done)
    }
}

thread_local! {
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static PLUGIN: Plugin = Plugin::new(
    "jukebox",
    "1.0.0",
    &[],
    &[
        &ResourceType::of(SONG, Scope::Namespace).validate(|song, _, diagnostics| {
            if song.data.title == "forbidden" {
                diagnostics.error("is forbidden");
            }
        }),
        &ResourceType::of(SHEET, Scope::Namespace),
    ],
)
.controllers(&[&Controller::new("songs", SONG, Songs)
    .watches(&[
        &Watch::new(SHEET, Mapper::Owner).indexes(&[Index::by_owner("song")]),
        &Watch::new(COVER, Mapper::SameName),
        &Watch::new(
            FAN,
            Mapper::Map(|_, fan| match fan.data.title.as_str() {
                "confused" => Err("who?".into()),
                title => Ok(vec![SONG.id(title, &World::tenancy())]),
            }),
        ),
    ])
    .resync(Duration::from_secs(60))
    .parallel(4)
    .only_if("wanted")
    .backoff(Duration::from_millis(10), Duration::from_secs(1))
    .initialize(|ctx| Ok(ctx.kv().set("started", b"yes")?))]);
mortise_plugin::export!(PLUGIN: validating, controlling, mapping, initializing);

fn song(name: &str, title: &str) -> Typed<Song> {
    Typed::new(SONG.id(name, &World::tenancy()), Song { title: title.to_owned(), ..Song::default() })
}

/// Setting that the songs' controller waits for.
const WANTED: &str = r#"{"wanted":true}"#;

fn settle(world: &World) -> Result<Settled, Unsettled> {
    with_settings(WANTED, || world.settle())
}

fn settled(world: &World) -> (Settled, Vec<String>) {
    let _ = CALLS.take();
    (settle(world).unwrap(), CALLS.take())
}

#[test]
fn what_is_not_wanted_does_not_run() {
    let world = World::new(&PLUGIN);
    world.put(&song("one", "plain")).unwrap();
    let _ = CALLS.take();
    assert_eq!(world.settle().unwrap().reconciles, 0);
    assert_eq!(CALLS.take(), [""; 0]);
    assert!(settled(&world).0.reconciles > 0);
}

#[test]
fn the_manifest_follows_from_the_table() {
    let manifest = Manifest::decode(PLUGIN.describe().as_slice()).unwrap();
    let name = |kind: &str| {
        Some(manifest::TypeName { group: "jukebox".into(), group_version: "v1".into(), kind: kind.into() })
    };
    let watch = |kind, mapper| manifest::Watch { r#type: name(kind), mapper: Some(mapper), indexes: Vec::new() };
    let owner = manifest::Index { name: "song".into(), by: Some(manifest::index::By::Owner(true)), in_tenancy: false };
    let expected = manifest::Controller {
        name: "songs".into(),
        manages: name("Song"),
        watches: vec![
            manifest::Watch { indexes: vec![owner], ..watch("Sheet", manifest::watch::Mapper::Owner(true)) },
            watch("Cover", manifest::watch::Mapper::SameName(true)),
            watch("Fan", manifest::watch::Mapper::Map(true)),
        ],
        indexes: Vec::new(),
        placement: manifest::Placement::Singleton.into(),
        resync_ms: 60_000,
        parallel: 4,
        initializes: true,
        backoff_base_ms: 10,
        backoff_max_ms: 1000,
        only_if: "wanted".into(),
    };
    assert_eq!(manifest.controllers, [expected]);
    assert_eq!(manifest.types.len(), 2);
}

#[test]
fn everything_is_reconciled_at_the_start_and_whatever_changes() {
    let world = World::new(&PLUGIN);
    world.put(&song("a", "sheet")).unwrap();
    world.put(&song("b", "")).unwrap();
    let (first, calls) = settled(&world);
    assert_eq!(first.later, []);
    // Once at the start, and once more for the finalizer, the sheet and the status together.
    assert_eq!(calls, ["a", "b", "a"]);
    assert_eq!(world.value("started").unwrap(), b"yes");

    let (again, calls) = settled(&world);
    assert_eq!((again.reconciles, calls), (2, vec!["a".to_owned(), "b".to_owned()]), "nothing was missing");
}

#[test]
fn what_is_deleted_comes_back_and_what_is_marked_is_cleaned_up() {
    let world = World::new(&PLUGIN);
    let a = world.put(&song("a", "sheet")).unwrap();
    settled(&world);
    let sheet = world.list(SHEET).remove(0);
    assert_eq!(sheet.owner().as_ref(), Some(a.id()));
    with_settings(WANTED, || {
        assert_eq!(world.context().cache().list(SHEET, "song", Key::Id(a.id())).unwrap().len(), 1);
        assert!(world.context().cache().first(SHEET, "song", Key::Id(sheet.id())).unwrap().is_none());
        assert_eq!(world.context().cache().get(SONG, a.id()).unwrap().unwrap().name(), "a");
    });

    world.delete(sheet.id()).unwrap();
    settled(&world);
    assert_ne!(world.list(SHEET)[0].id().uid, sheet.id().uid);

    world.delete(a.id()).unwrap();
    assert!(world.get::<Song>(a.id()).unwrap().is_marked(), "the finalizer holds it");
    settled(&world);
    assert!(world.get::<Song>(a.id()).is_none());
    assert_eq!(world.value("cleaned").unwrap(), b"yes");
    assert!(world.list(SHEET).is_empty(), "what it owned went with it");
}

#[test]
fn a_clean_up_that_is_not_finished_keeps_the_finalizer() {
    let world = World::new(&PLUGIN);
    let a = world.put(&song("a", "record")).unwrap();
    let (first, _) = settled(&world);
    assert_eq!((first.later.len(), world.value("made").as_deref()), (0, Some(b"yes".as_slice())));
    let held = |world: &World| world.get::<Song>(a.id()).is_some_and(|song| RELEASE.is_on(&song) && song.is_marked());
    let left = |text: &[u8]| world.context().kv().set("left", text).unwrap();
    left(b"a while");
    world.context().kv().remove("made").unwrap();
    world.delete(a.id()).unwrap();
    for (text, wait, reason) in
        [("a while", 5, None), ("the host removes it", 7, Some("the host removes it".to_owned())), ("a while", 5, None)]
    {
        left(text.as_bytes());
        let later = settled(&world).0.later;
        let found = later.iter().map(|one| (one.wait.as_secs(), one.reason.clone())).collect::<Vec<_>>();
        assert_eq!(found, [(wait, reason)]);
        assert!(held(&world), "after {text:?}");
    }
    assert_eq!(world.value("made"), None, "a marked resource is not reconciled");
    world.fail_next("kv.get", Failure::new(Failure::UNAVAILABLE, "not now"));
    settled(&world);
    assert!(held(&world), "after an error");
    world.context().kv().remove("left").unwrap();
    assert_eq!(settled(&world).0.later, []);
    assert!(world.get::<Song>(a.id()).is_none());
}

#[test]
fn a_resource_that_is_marked_without_the_finalizer_is_not_cleaned_up() {
    let world = World::new(&PLUGIN);
    let mut other = song("a", "record");
    meta::add_finalizer(&mut other.metadata, "other/hold");
    let a = world.put(&other).unwrap();
    world.delete(a.id()).unwrap();
    world.context().kv().set("left", b"a while").unwrap();
    assert_eq!(settled(&world).0.later, [], "its clean-up is not called");
    assert_eq!(world.value("made"), None);
}

#[test]
fn status_says_what_was_seen() {
    let world = World::new(&PLUGIN);
    let a = world.put(&song("a", "sheet")).unwrap();
    settled(&world);
    let a = world.get::<Song>(a.id()).unwrap();
    let status = a.status_under("jukebox/songs").unwrap();
    assert_eq!(status.observed_generation, a.generation());
    assert!(status.updated_at.is_some());
    let said = status.conditions.iter().map(|one| (one.r#type.as_str(), one.state(), one.reason.as_str()));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [("Printed", pb::condition::State::True, ""), ("Sold", pb::condition::State::False, "NoFans")]
    );
    let version = a.version().to_owned();
    settled(&world);
    assert_eq!(world.get::<Song>(a.id()).unwrap().version(), version, "it had nothing new to say");
}

#[test]
fn changes_of_other_types_find_their_songs() {
    let world = World::new(&PLUGIN);
    world.put(&song("a", "")).unwrap();
    world.put(&song("b", "")).unwrap();
    settled(&world);
    let other = |kind: Kind<Song>, name: &str, title: &str| {
        world
            .put(&Typed::new(kind.id(name, &World::tenancy()), Song { title: title.into(), ..Song::default() }))
            .unwrap()
    };
    other(COVER, "b", "");
    other(FAN, "x", "a");
    other(SINGER, "a", "");
    // Songs of the cover and the fan, without uids, and those of their own ids.
    assert_eq!(settled(&world).1, ["b", "a", "a", "b"]);

    other(FAN, "x", "confused");
    let Unsettled::Failing { resource, error, .. } = settle(&world).unwrap_err() else { panic!("it is confused") };
    assert_eq!((resource.as_deref(), error.as_str()), (Some("x"), "who?"));
}

#[test]
fn a_reconciler_that_wakes_itself_is_found_out() {
    let world = World::new(&PLUGIN);
    world.put(&song("a", "restless")).unwrap();
    let awake = settle(&world).unwrap_err();
    assert_eq!(awake, Unsettled::WakesItself { controller: "songs".into(), resource: "a".into() });
    assert_eq!(awake.to_string(), "controller songs reconciled \"a\" 50 times: does it wake itself?");

    let world = World::new(&PLUGIN);
    world.put(&song("a", "again")).unwrap();
    assert!(matches!(settle(&world), Err(Unsettled::WakesItself { .. })));
}

#[test]
fn failures_are_tried_again_a_few_times() {
    let world = World::new(&PLUGIN);
    world.put(&song("a", "fails")).unwrap();
    let failing = Unsettled::Failing { controller: "songs".into(), resource: Some("a".into()), error: "no".into() };
    assert_eq!(settle(&world).unwrap_err(), failing);

    let world = World::new(&PLUGIN);
    world.put(&song("a", "sheet")).unwrap();
    world.fail_next("write-status", Failure::new(Failure::CONFLICT, "somebody was faster"));
    settled(&world);
    assert_eq!(world.list(SONG)[0].status().len(), 1);
}

#[test]
fn some_wait() {
    let world = World::new(&PLUGIN);
    world.put(&song("a", "later")).unwrap();
    world.put(&song("b", "waits")).unwrap();
    let before = world.context().now();
    let later = settled(&world).0.later;
    let said = later.iter().map(|one| (one.id.name.as_str(), one.wait.as_secs(), one.reason.as_deref()));
    assert_eq!(said.collect::<Vec<_>>(), [("a", 5, None), ("b", 7, Some("for rain"))]);
    world.advance(Duration::from_secs(7));
    assert_eq!(world.context().now() - before, Duration::from_secs(7));
}

#[test]
fn writes_are_compared_and_judged() {
    let world = World::new(&PLUGIN);
    let code = |result: Result<Typed<Song>, Failure>| result.map(drop).map_err(|failure| failure.code);
    let old = world.put(&song("a", "one")).unwrap();
    let mut new = old.clone();
    new.data.title = "two".into();
    world.put(&new).unwrap();
    assert_eq!(code(world.put(&old)), Err(Failure::CONFLICT));
    assert!(world.context().delete_unchanged(&old).unwrap_err().is_conflict());
    assert_eq!(code(world.put(&old.clone().without_version())), Ok(()));
    assert_eq!(code(world.put(&song("b", "forbidden"))), Err(Failure::INVALID));
    assert_eq!(code(world.put(&song("B", ""))), Err(Failure::INVALID), "that is no name");
    assert_eq!(code(world.put(&song("a", "").owned_by(old.id()))), Err(Failure::INVALID), "owners stay");

    let stranger = Kind::<pb_like::Other>::new("jukebox", "v1", "Song");
    let read = world.context().read::<pb_like::Other>(&stranger.id("a", &World::tenancy()));
    assert_eq!(read.unwrap_err().message, "the resource \"a\" holds a jukebox.v1.Song, not a jukebox.v1.Other");
    let gone = world.context().read::<Song>(&SONG.id("nobody", &World::tenancy()));
    assert_eq!(gone, Ok(None));
}

mod pb_like {
    #[derive(Clone, PartialEq, mortise_plugin::prost::Message)]
    pub(crate) struct Other {}
    impl mortise_plugin::prost::Name for Other {
        const PACKAGE: &'static str = "jukebox.v1";
        const NAME: &'static str = "Other";
    }
}

/// Message of a later version of the plugin.
#[derive(Clone, PartialEq, Message)]
struct NewSong {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "9")]
    key: String,
}

impl Name for NewSong {
    const PACKAGE: &'static str = "jukebox.v1";
    const NAME: &'static str = "Song";
}

#[test]
fn a_write_keeps_what_the_plugin_does_not_know() {
    let world = World::new(&PLUGIN);
    let id = SONG.id("a", &World::tenancy());
    let data = NewSong { title: "one".into(), key: "c minor".into() };
    world.put(&Typed::new(id.clone(), data)).unwrap();
    let mut old = world.get::<Song>(&id).unwrap();
    old.data.title = "two".into();
    world.put(&old).unwrap();
    assert_eq!(world.get::<NewSong>(&id).unwrap().data, NewSong { title: "two".into(), key: "c minor".into() });
}
