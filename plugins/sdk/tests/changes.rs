//! Plans, moves, imports, functions, queries, and private bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of what clippy takes for tests")]
// Authors may forbid code that the exports need: it is in this crate's macros, not in theirs.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use mortise_plugin::{
    Context, Diagnostics, Failure, Function, FunctionFault, Import, Kind, Move, Parameter, Plan, Plugin, ResourceType,
    Scope, Typed, Value, ValueType, field,
    manifest::{self, Hooks, Manifest, TypeName},
    pb,
    prost::{Message, Name},
    prost_types::{
        Any, DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, field_descriptor_proto,
    },
    query,
    testing::{self, AdoptedResource, World},
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

/// Former type of a song.
#[derive(Clone, PartialEq, Message)]
struct Tune {
    #[prost(string, tag = "7")]
    heading: String,
}

impl Name for Tune {
    const PACKAGE: &'static str = "jukebox.v1";
    const NAME: &'static str = "Tune";
}

const SONG: Kind<Song> = Kind::new("jukebox", "v1", "Song");
const TUNE: Kind<Tune> = Kind::new("jukebox", "v1", "Tune");

static PLUGIN: Plugin = Plugin::new(
    "jukebox",
    "1.0.0",
    &[],
    &[
        &ResourceType::of(SONG, Scope::Namespace)
            .mutate(trim)
            .plan(plan)
            .moves_from(&[("jukebox", "v1", "Tune"), ("records", "v1", "Track")], tune_to_song)
            .import(import),
        &ResourceType::of(TUNE, Scope::Namespace),
    ],
)
.functions(&[
    Function::new("louder", &[Parameter::new("text", ValueType::String)], ValueType::String, louder)
        .summary("Makes a text louder.")
        .description("By capital letters.")
        .deprecated("use `loud`"),
    Function::new(
        "count",
        &[Parameter::new("seed", ValueType::Number).allow_null().description("Where to begin.")],
        ValueType::Number,
        count,
    )
    .variadic(Parameter::new("lists", ValueType::List(&ValueType::Bool))),
    Function::new(
        "wrong",
        &[],
        ValueType::Object(&[("a", ValueType::Set(&ValueType::Number)), ("b", ValueType::Map(&ValueType::String))]),
        |_| Ok("text".into()),
    ),
]);
mortise_plugin::export!(PLUGIN: mutating, planning, moving, importing, functions);

fn trim(song: &mut Typed<Song>) -> Result<(), Diagnostics> {
    song.data.title = song.data.title.trim().to_owned();
    Ok(())
}

fn plan(song: &Typed<Song>, prior: Option<&Typed<Song>>, kept: Option<&[u8]>, plan: &mut Plan<Song>) {
    if prior.is_none_or(|prior| prior.data.title != song.data.title) {
        plan.replace(field("title"));
    }
    if let Some(kept) = kept {
        plan.diagnostics.warning(format!("kept {}", String::from_utf8_lossy(kept)));
    }
    match song.data.title.as_str() {
        "refuse" => {
            plan.diagnostics.error("no").at(field("title"));
        }
        "another" => plan.predict(Typed::new(pb::Id::default(), song.data.clone())),
        _ => {
            let mut predicted = song.clone();
            predicted.data.beats = 120;
            predicted.metadata.insert("heard".to_owned(), "yes".to_owned());
            plan.predict(predicted);
        }
    }
}

fn tune_to_song(tune: &pb::Resource, since: u32, kept: Option<&[u8]>) -> Result<Move<Song>, Diagnostics> {
    let data = tune.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
    let title = Tune::decode(data).map_err(|fault| Diagnostics::refusal(fault.to_string()))?.heading;
    match title.as_str() {
        "stuck" => Err(Diagnostics::refusal("it is stuck")),
        "bare" => Ok(Move::new(Song { title, beats: since }).metadata(BTreeMap::new())),
        _ => Ok(Move::new(Song { title, beats: since }).private_bytes(kept.unwrap_or(b"nothing"))),
    }
}

fn import(ctx: &Context<'_>, external_id: &str, within: &pb::Tenancy) -> Result<Import<Song>, Diagnostics> {
    if external_id == "stored" {
        ctx.private_bytes(&SONG.id("one", within)).get()?;
    }
    let Some(text) = ctx.files("songs").read(external_id)? else {
        return Err(Diagnostics::refusal(format!("there is no file {external_id}")));
    };
    let title = String::from_utf8_lossy(&text).into_owned();
    let metadata = BTreeMap::from([("from".to_owned(), external_id.to_owned())]);
    Ok(Import::new("found", Song { title, beats: 1 }).metadata(metadata).private_bytes(external_id))
}

fn louder(arguments: &[Value]) -> Result<Value, FunctionFault> {
    match arguments.first().and_then(Value::as_text) {
        Some("") | None => Err(FunctionFault::at(0, "there is nothing to hear")),
        Some(text) => Ok(text.to_uppercase().into()),
    }
}

fn count(arguments: &[Value]) -> Result<Value, FunctionFault> {
    let Some((seed, lists)) = arguments.split_first() else { return Err(FunctionFault::new("without a seed")) };
    let sum = lists.iter().filter_map(Value::as_list).map(<[Value]>::len).sum::<usize>();
    Ok((seed.as_i64().unwrap_or_default() + i64::try_from(sum).unwrap()).into())
}

fn song(name: &str, title: &str) -> Typed<Song> {
    Typed::new(SONG.id(name, &World::tenancy()), Song { title: title.to_owned(), beats: 1 })
}

#[test]
fn the_manifest_says_what_can_be_asked() {
    let manifest = Manifest::decode(PLUGIN.describe().as_slice()).unwrap();
    let [song, tune] = manifest.types.as_slice() else { panic!("{:?}", manifest.types) };
    assert_eq!(song.hooks, Some(Hooks { mutate: true, plan: true, import: true, ..Hooks::default() }));
    assert_eq!(tune.hooks, Some(Hooks::default()));
    let name =
        |group: &str, kind: &str| TypeName { group: group.into(), group_version: "v1".into(), kind: kind.into() };
    assert_eq!(song.moved_from, [name("jukebox", "Tune"), name("records", "Track")]);
    assert!(tune.moved_from.is_empty());

    let [louder, count, wrong] = manifest.functions.as_slice() else { panic!("{:?}", manifest.functions) };
    assert_eq!((louder.name.as_str(), louder.summary.as_str()), ("louder", "Makes a text louder."));
    assert_eq!((louder.description.as_str(), louder.deprecation.as_str()), ("By capital letters.", "use `loud`"));
    let primitive = |of: manifest::Primitive| manifest::ValueType {
        r#type: Some(manifest::value_type::Type::Primitive(of.into())),
    };
    assert_eq!(louder.returns, Some(primitive(manifest::Primitive::String)));
    let seed = &count.parameters[0];
    assert!(seed.allow_null && seed.description == "Where to begin." && !louder.parameters[0].allow_null);
    let list = manifest::value_type::Type::List(Box::new(primitive(manifest::Primitive::Bool)));
    assert_eq!(count.variadic.clone().unwrap().r#type.unwrap().r#type, Some(list));
    let Some(manifest::value_type::Type::Object(object)) = wrong.returns.clone().unwrap().r#type else { panic!() };
    assert_eq!(object.attributes.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_plan_says_what_a_write_would_come_to() {
    let world = World::new(&PLUGIN);
    let new = world.plan(&song("one", " one ")).unwrap();
    assert_eq!((new.predicted.data.title.as_str(), new.predicted.data.beats), ("one", 120));
    assert_eq!(new.predicted.metadata.get("heard").map(String::as_str), Some("yes"));
    assert!(new.replace.is_empty() && new.warnings.is_empty(), "nothing is stored: {new:?}");
    assert!(world.list(SONG).is_empty());

    let mut stored = world.put(&song("one", "one")).unwrap();
    world.context().private_bytes(stored.id()).set(b"7").unwrap();
    stored.data.title = "two".to_owned();
    let changed = world.plan(&stored).unwrap();
    assert_eq!(changed.replace, ["data.title"]);
    assert_eq!(changed.warnings.iter().map(|one| one.summary.as_str()).collect::<Vec<_>>(), ["kept 7"]);
    assert_eq!(changed.predicted.id(), stored.id());

    stored.data.title = "refuse".to_owned();
    assert_eq!(world.plan(&stored).unwrap_err(), Failure::new(Failure::INVALID, "kept 7; no"));
}

/// Songs whose titles are immutable, and whose beats a write may not change.
static STRICT: Plugin = Plugin::new(
    "strict",
    "1.0.0",
    &[],
    &[&ResourceType::of(SONG, Scope::Namespace)
        .immutable(&["title"])
        .validate(|song, stored, said| {
            said.warning(if stored.is_some() { "with the stored one" } else { "alone" });
            if stored.is_some_and(|stored| stored.data.beats != song.data.beats) {
                said.error("beats cannot be changed in place");
            }
        })
        .plan(|song, prior, _, plan| {
            let found = query(SONG, &World::tenancy()).all().map_or(0, |found| found.len());
            plan.diagnostics.warning(format!("planned among {found}"));
            if prior.is_some_and(|prior| prior.data.beats != song.data.beats) {
                plan.replace(field("beats"));
            }
        })],
);

#[test]
fn a_plan_calls_the_hooks_in_the_order_of_a_server() {
    let field = |name: &str, number, kind: field_descriptor_proto::Type| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        r#type: Some(kind.into()),
        label: Some(field_descriptor_proto::Label::Optional.into()),
        ..FieldDescriptorProto::default()
    };
    let song_message = DescriptorProto {
        name: Some("Song".to_owned()),
        field: vec![
            field("title", 1, field_descriptor_proto::Type::String),
            field("beats", 2, field_descriptor_proto::Type::Uint32),
        ],
        ..DescriptorProto::default()
    };
    let file = FileDescriptorProto {
        name: Some("song.proto".to_owned()),
        package: Some("jukebox.v1".to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: vec![song_message],
        ..FileDescriptorProto::default()
    };
    let world = World::with_descriptors(&STRICT, FileDescriptorSet { file: vec![file] });
    let planned = |song: &Typed<Song>| {
        let plan = world.plan(song).unwrap();
        (plan.replace, plan.warnings.iter().map(|one| one.summary.clone()).collect::<Vec<_>>().join(", "))
    };
    assert_eq!(planned(&song("one", "one")), (vec![], "alone, planned among 0".to_owned()));
    let owner = world.put(&song("owner", "x")).unwrap();
    let stored = world.put(&song("one", "one")).unwrap();
    assert_eq!(planned(&stored), (vec![], "with the stored one, planned among 2".to_owned()));
    let with = |change: fn(&mut Song)| {
        let mut other = stored.clone();
        change(&mut other.data);
        planned(&other)
    };
    // `validate` refuses both in place, and a plan replaces the resource instead.
    let alone = "alone, planned among 2".to_owned();
    assert_eq!(with(|song| song.beats = 7), (vec!["data.beats".to_owned()], alone.clone()));
    assert_eq!(with(|song| song.title = "two".into()), (vec!["data.title".to_owned()], alone.clone()));
    let both = with(|song| (song.title, song.beats) = ("two".into(), 7));
    assert_eq!(both.0, ["data.title", "data.beats"], "those of the host first");
    assert_eq!(planned(&stored.clone().owned_by(owner.id())), (vec!["owner".to_owned()], alone));
    assert!(world.put(&Typed::new(stored.id().clone(), Song { beats: 7, ..stored.data.clone() })).is_err());
}

#[test]
fn a_prediction_is_the_input_but_for_data_and_metadata() {
    // A later version of the message has another field.
    let data = |beats: u8, title: &[u8]| {
        let size = u8::try_from(title.len()).unwrap();
        [&[0x82, 0x7d, 0x01, b'x', 0x0a, size], title, &[0x10, beats]].concat()
    };
    let resource = |data: Vec<u8>| pb::Resource {
        id: Some(SONG.id("hit", &World::tenancy())),
        version: "12".into(),
        data: Some(Any { type_url: "custom/jukebox.v1.Song".into(), value: data }),
        ..pb::Resource::default()
    };
    let input = resource(data(1, b"hit"));
    let plan = PLUGIN.plan(&input.encode_to_vec(), None, None);
    let predicted = pb::Resource::decode(plan.predicted.unwrap().as_slice()).unwrap();
    assert_eq!(predicted.data, Some(Any { value: data(120, b"hit"), ..input.data.clone().unwrap() }));
    assert_eq!((&predicted.id, &predicted.version), (&input.id, &input.version));

    let same = PLUGIN.plan(&resource(data(1, b"another")).encode_to_vec(), None, None);
    assert_eq!(same.predicted, None, "another id is no prediction");
    let none = PLUGIN.plan(&resource(vec![0xff]).encode_to_vec(), None, None);
    assert!(none.diagnostics.has_errors() && none.predicted.is_none());
    assert!(PLUGIN.plan(b"\xff", None, None).diagnostics.has_errors());
}

#[test]
fn a_prior_of_another_type_is_none() {
    let prior = |kind: &str| {
        let of = pb::Type { kind: kind.to_owned(), ..SONG.to_pb() };
        let id = pb::Id { r#type: Some(of), ..SONG.id("hit", &World::tenancy()) };
        let song = Song { title: "hit".into(), beats: 1 }.encode_to_vec();
        let data = Some(Any { type_url: "type.googleapis.com/jukebox.v1.Song".into(), value: song });
        pb::Resource { id: Some(id), data, ..pb::Resource::default() }.encode_to_vec()
    };
    let replace = |kind: &str| PLUGIN.plan(&prior("Song"), Some(&prior(kind)), None).replace.len();
    assert_eq!((replace("Song"), replace("Single")), (0, 1));
}

#[test]
fn a_resource_moves_to_another_type() {
    let world = World::new(&PLUGIN);
    let owner = world.put(&song("owner", "x")).unwrap();
    let tune = |heading: &str| {
        let mut tune = Typed::new(TUNE.id("one", &World::tenancy()), Tune { heading: heading.to_owned() });
        tune.metadata.insert("a".to_owned(), "b".to_owned());
        tune
    };
    let stored = world.put(&tune("hit").owned_by(owner.id())).unwrap();
    let moved = |world: &World| -> Result<AdoptedResource<Song>, Failure> { world.move_to(stored.id(), SONG) };
    let first = moved(&world).unwrap();
    assert_eq!(first.resource.data, Song { title: "hit".into(), beats: 1 });
    assert_eq!(first.resource.id(), &SONG.id("one", &World::tenancy()));
    assert_eq!(
        (first.resource.metadata.get("a").map(String::as_str), first.resource.owner()),
        (Some("b"), Some(owner.id().clone()))
    );
    assert_eq!(first.kept.as_deref(), Some(b"nothing".as_slice()));

    world.context().private_bytes(stored.id()).set(b"much").unwrap();
    assert_eq!(moved(&world).unwrap().kept.as_deref(), Some(b"much".as_slice()));
    world.put(&tune("bare").owned_by(owner.id())).unwrap();
    let bare = moved(&world).unwrap();
    assert!(bare.resource.metadata.is_empty() && bare.kept.is_none());
    world.put(&tune("stuck").owned_by(owner.id())).unwrap();
    assert_eq!(moved(&world).unwrap_err().message, "it is stuck");
    let back = world.move_to(owner.id(), TUNE).unwrap_err();
    assert_eq!(back.message, "nothing can be moved to the type");
}

#[test]
fn an_import_sees_what_was_granted_and_nothing_else() {
    let world = World::new(&PLUGIN);
    let import = |id: &str| world.import(SONG, &World::tenancy(), id);
    assert_eq!(import("a.txt").unwrap_err().message, "the directory \"songs\" is not granted");
    world.grant_directory("songs");
    assert_eq!(import("a.txt").unwrap_err().message, "there is no file a.txt");
    world.context().files("songs").write("a.txt", b"A Song").unwrap();
    let found = import("a.txt").unwrap();
    assert_eq!(found.resource.id(), &SONG.id("found", &World::tenancy()));
    assert_eq!((found.resource.data.title.as_str(), found.kept.as_deref()), ("A Song", Some(b"a.txt".as_slice())));
    assert_eq!(found.resource.metadata.get("from").map(String::as_str), Some("a.txt"));
    assert!(import("stored").unwrap_err().message.contains("private-bytes.get"));
    assert!(world.list(SONG).is_empty());
    assert_eq!(
        world.import(TUNE, &World::tenancy(), "a.txt").unwrap_err().message,
        "nothing can be imported as the type"
    );
}

#[test]
fn functions_are_called_as_the_host_calls_them() {
    let call = |name: &str, arguments: &[Value]| testing::call(&PLUGIN, name, arguments);
    assert_eq!(call("louder", &["a".into()]), Ok("A".into()));
    assert_eq!(call("louder", &["".into()]), Err(FunctionFault::at(0, "there is nothing to hear")));
    let lists = [Value::Null, vec![true.into(), Value::Null].into(), vec![false.into()].into()];
    assert_eq!(call("count", &lists), Ok(3.into()));
    assert_eq!(call("count", &[4.into()]), Ok(4.into()));

    let fault = |name: &str, arguments: &[Value]| call(name, arguments).unwrap_err().to_string();
    assert_eq!(fault("louder", &[]), "louder takes 1 arguments, got 0");
    assert_eq!(fault("louder", &["a".into(), "b".into()]), "louder takes 1 arguments, got 2");
    assert_eq!(fault("louder", &[Value::Null]), "argument 0: text cannot be Null");
    assert!(fault("count", &[1.into(), vec![1.into()].into()]).starts_with("argument 1: lists cannot be"));
    assert!(fault("wrong", &[]).starts_with("wrong returns"));
    assert_eq!(fault("softer", &[]), "there is no function softer");

    let text = manifest::FunctionValue { value: Some(manifest::function_value::Value::Text("a".into())) };
    let result = PLUGIN.call("louder", &[text.encode_to_vec()]).unwrap();
    let wanted = manifest::FunctionValue { value: Some(manifest::function_value::Value::Text("A".into())) };
    assert_eq!(manifest::FunctionValue::decode(result.as_slice()).unwrap(), wanted);
    assert_eq!(PLUGIN.call("louder", &[vec![0xff]]).unwrap_err().argument, None);
}

#[test]
fn private_bytes_last_as_long_as_the_resource() {
    let world = World::new(&PLUGIN);
    let stored = world.put(&song("one", "one")).unwrap();
    let kept = world.context().private_bytes(stored.id());
    assert_eq!(kept.get(), Ok(None));
    kept.set(b"once").unwrap();
    kept.set(b"twice").unwrap();
    assert_eq!((kept.get().unwrap(), world.private_bytes(stored.id())), (Some(b"twice".into()), Some(b"twice".into())));
    assert_eq!(kept.set(&vec![0; (64 << 10) + 1]).unwrap_err().code, Failure::EXHAUSTED);
    kept.set(&vec![0; 64 << 10]).unwrap();
    kept.remove().unwrap();
    kept.remove().unwrap();
    assert_eq!(kept.get(), Ok(None));

    kept.set(b"again").unwrap();
    world.delete(stored.id()).unwrap();
    assert_eq!((kept.get(), kept.set(b"late").unwrap_err().code), (Ok(None), Failure::NOT_FOUND));
    let next = world.put(&song("one", "one")).unwrap();
    assert_eq!(world.private_bytes(next.id()), None, "another incarnation");
    let without_uid = world.context().private_bytes(&SONG.id("one", &World::tenancy()));
    assert_eq!(without_uid.get().unwrap_err().code, Failure::INVALID);
    world.fail_next("private-bytes.set", Failure::new(Failure::UNAVAILABLE, "no"));
    assert!(world.context().private_bytes(next.id()).set(b"x").is_err());
}

#[test]
fn a_world_answers_queries_and_changes_single_fields() {
    let world = World::new(&PLUGIN);
    let ctx = world.context();
    for n in 0..5 {
        let song = Song { title: format!("song {n}"), beats: n };
        let put = world.put(&Typed::new(SONG.id(format!("s{n}"), &World::tenancy()), song)).unwrap();
        if n % 2 == 0 {
            ctx.label(put.id(), "env.kind", Some("prod")).unwrap();
        }
    }
    let names = |found: Vec<Typed<Song>>| found.iter().map(|song| song.name().to_owned()).collect::<Vec<_>>();
    let query = || ctx.query(SONG, &World::tenancy()).label("env.kind", "prod");
    assert_eq!(names(query().order_by("name desc").page_size(2).all().unwrap()), ["s4", "s2", "s0"]);
    let first = query().page_size(2).page().unwrap();
    assert_eq!((names(first.items), first.next.is_empty()), (vec!["s0".to_owned(), "s2".to_owned()], false));
    assert_eq!(names(query().page_size(2).after(&first.next).page().unwrap().items), ["s4"]);
    assert_eq!(names(query().prefix("s4").filter(r#"id.name != "s0""#).all().unwrap()), ["s4"]);
    assert_eq!(query().filter("meta.nope = 1").all().unwrap_err().code, Failure::INVALID);

    let song = world.get::<Song>(&SONG.id("s2", &World::tenancy())).unwrap();
    ctx.label(song.id(), "env.kind", None).unwrap();
    let now = world.get::<Song>(song.id()).unwrap();
    assert!(now.meta().labels.is_empty());
    assert!(ctx.update(&song, &["meta.labels"]).unwrap_err().is_conflict(), "it was read before");
    assert_eq!(ctx.label(&SONG.id("nobody", &World::tenancy()), "a", Some("b")).unwrap_err().code, Failure::NOT_FOUND);
    world.fail_next("queries.search", Failure::new(Failure::UNAVAILABLE, "later"));
    assert_eq!(query().all().unwrap_err().code, Failure::UNAVAILABLE);
}

/// A plugin whose hook searches songs whose names begin with a song's title.
static NAMED: Plugin = Plugin::new("named", "1.0.0", &[], &[&ResourceType::of(SONG, Scope::Namespace).validate(names)]);

fn names(song: &Typed<Song>, _: Option<&Typed<Song>>, said: &mut Diagnostics) {
    match query(SONG, &World::tenancy()).prefix(&song.data.title).all() {
        Ok(found) => {
            if let Some(first) = found.first() {
                said.error(format!("{} is there", first.name()));
            }
        }
        Err(failure) => drop(said.error(failure.message)),
    }
}

#[test]
fn hooks_find_what_is_in_their_world() {
    let (here, elsewhere) = (World::new(&NAMED), World::new(&NAMED));
    let song = |name: &str, title: &str| {
        Typed::new(SONG.id(name, &World::tenancy()), Song { title: title.to_owned(), beats: 1 })
    };
    here.put(&song("hit-1", "hit")).unwrap();
    let refused = here.put(&song("other", "hit")).unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (Failure::INVALID, "hit-1 is there"));
    elsewhere.put(&song("other", "hit")).unwrap();

    let data = Song { title: "hit".to_owned(), beats: 1 };
    let data = Any { type_url: "type.googleapis.com/jukebox.v1.Song".to_owned(), value: data.encode_to_vec() };
    let id = Some(SONG.id("other", &World::tenancy()));
    let bytes = pb::Resource { id, data: Some(data), ..pb::Resource::default() }.encode_to_vec();
    let said = |said: Diagnostics| said.iter().map(|one| one.summary.clone()).collect::<String>();
    assert_eq!(said(here.with_lookups(|| NAMED.validate(&bytes, None))), "hit-1 is there");
    assert_eq!(said(elsewhere.with_lookups(|| NAMED.validate(&bytes, None))), "");
    assert!(said(NAMED.validate(&bytes, None)).contains("World::with_lookups"), "outside of a world");
}
