//! The demo controller, in a world in memory.

use mortise_plugin::{
    Typed, pb,
    testing::{World, with_settings},
};

use super::*;
use crate::PLUGIN;

const WANTED: &str = r#"{ "controller": true }"#;

fn artist(name: &str, genre: Genre) -> Typed<Artist> {
    let data = Artist { name: name.to_owned(), genre: genre.into(), ..Artist::default() };
    Typed::new(ARTIST.id(name, &World::tenancy()), data)
}

fn names(world: &World) -> Vec<String> {
    world.list(ALBUM).iter().map(|album| album.name().to_owned()).collect()
}

fn settle(world: &World) {
    with_settings(WANTED, || world.settle().unwrap());
}

#[test]
fn it_waits_to_be_wanted() {
    let world = World::new(&PLUGIN);
    world.put(&artist("korn", Genre::Metal)).unwrap();
    world.settle().unwrap();
    assert!(names(&world).is_empty());
    for no in [r#"{"controller":false}"#, r#"{"controller":"true"}"#, r#"{"of":{"controller":true}}"#] {
        with_settings(no, || world.settle().unwrap());
        assert!(names(&world).is_empty(), "{no}");
    }
    settle(&world);
    assert_eq!(names(&world).len(), 3);
}

#[test]
fn three_albums_and_ten_for_the_blues() {
    let world = World::new(&PLUGIN);
    world.put(&artist("korn", Genre::Metal)).unwrap();
    let king = world.put(&artist("king", Genre::Blues)).unwrap();
    settle(&world);
    let count = |prefix: &str| names(&world).iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((count("korn-"), count("king-")), (3, 10));
    let albums = world.list(ALBUM);
    assert!(albums.iter().all(|album| album.owner().is_some() && !album.data.title.is_empty()));
    assert!(albums.iter().all(|album| album.data.tracks.len() >= 5 && album.data.year_of_release >= 1965));
    assert_eq!(albums.iter().filter(|album| album.owner().as_ref() == Some(king.id())).count(), 10);
}

#[test]
fn the_status_tells_of_each_album() {
    let world = World::new(&PLUGIN);
    let korn = world.put(&artist("korn", Genre::Metal)).unwrap();
    settle(&world);
    let korn = world.get::<Artist>(korn.id()).unwrap();
    let status = korn.status_under("consul.io/artist-controller").unwrap();
    assert_eq!(status.observed_generation, korn.generation());
    let types = status.conditions.iter().map(|one| one.r#type.as_str()).collect::<Vec<_>>();
    assert_eq!(types, ["Accepted", "AlbumCreated", "AlbumCreated", "AlbumCreated"]);
    assert!(status.conditions.iter().all(|one| one.state() == pb::condition::State::True));
    let about = status.conditions.iter().filter_map(|one| one.resource.as_ref()).map(|one| one.name.clone());
    let mut about = about.collect::<Vec<_>>();
    about.sort();
    assert_eq!(about, names(&world));
}

#[test]
fn albums_come_back_and_surplus_ones_go() {
    let world = World::new(&PLUGIN);
    let korn = world.put(&artist("korn", Genre::Blues)).unwrap();
    settle(&world);
    let before = names(&world);
    world.delete(world.list(ALBUM)[4].id()).unwrap();
    for name in ["korn-live", "bootleg"] {
        world.put(&Typed::new(ALBUM.id(name, &World::tenancy()), Album::default()).owned_by(korn.id())).unwrap();
    }
    world.put(&Typed::new(ALBUM.id("korn-tribute", &World::tenancy()), Album::default())).unwrap();
    settle(&world);
    let mut expected = before.clone();
    expected.extend(["bootleg".to_owned(), "korn-tribute".to_owned()]);
    expected.sort();
    assert_eq!(names(&world), expected, "others' albums are none of its business");

    let mut korn = world.get::<Artist>(korn.id()).unwrap();
    korn.data.set_genre(Genre::Metal);
    world.put(&korn).unwrap();
    settle(&world);
    let left = names(&world);
    assert_eq!(left.len(), 5);
    assert!(left.iter().all(|name| expected.contains(name)), "the first three stay as they were");
}

#[test]
fn nothing_is_left_to_do() {
    let world = World::new(&PLUGIN);
    let korn = world.put(&artist("korn", Genre::Metal)).unwrap();
    settle(&world);
    let before = world.list(ALBUM);
    let again = with_settings(WANTED, || world.settle().unwrap());
    assert_eq!((again.reconciles, world.list(ALBUM)), (1, before));
    world.delete(korn.id()).unwrap();
    settle(&world);
    assert!(names(&world).is_empty());
}

#[test]
fn long_names_stay_legal() {
    let world = World::new(&PLUGIN);
    let mut long = world.put(&artist(&"x".repeat(63), Genre::Blues)).unwrap();
    settle(&world);
    let count = names(&world).len();
    assert_eq!(count, 10);
    assert!(names(&world).iter().all(|name| name.len() <= 63 && name.starts_with("xxxx")));
    let longest = |words: &[&str]| words.iter().map(|word| word.len()).max().unwrap();
    assert!(MAX_STEM_CHARACTERS + longest(&ADJECTIVES) + longest(&NOUNS) + "---9".len() <= 63);

    long.data.set_genre(Genre::Metal);
    world.put(&long.without_version()).unwrap();
    settle(&world);
    assert_eq!(names(&world).len(), 3, "surplus is known by what is left of the name");
}

#[test]
fn the_moment_is_read_off_the_uid() {
    assert_eq!(created("01ARZ3NDEKTSV4RRFFQ69G5FAV"), 1_469_922_850_259);
    assert_eq!(created(""), 0);
}
