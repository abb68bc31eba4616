//! Schema version 3 of `schema.v1.Thing`, without an upgrade: may serve only if no older data is stored.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "schema",
    "3.0.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("schema", "v1", "Thing", Scope::Namespace).schema_version(3)],
);
mortise_plugin::export!(PLUGIN);
