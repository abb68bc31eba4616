//! Adds an item to a resource called `boom` on each call, so it is not idempotent.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing, boom};

static PLUGIN: Plugin = Plugin::new(
    "mutate-twice",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("mutate_twice", "v1", "Thing", Scope::Namespace).mutate(|thing| {
        if boom(thing.id(), "mutate") {
            thing.data.items.push("again".to_owned());
        }
        Ok(())
    })],
);
mortise_plugin::export!(PLUGIN: mutating);
