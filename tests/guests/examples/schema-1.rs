//! Schema version 1 of `schema.v1.Thing`; validates that no text says it was upgraded, for nothing is above version 1.

use mortise_plugin::{Plugin, ResourceType, Scope, field};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "schema",
    "1.0.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("schema", "v1", "Thing", Scope::Namespace).validate(|thing, _, diagnostics| {
        if thing.data.text.starts_with("upgraded ") {
            diagnostics.error("nothing is upgraded yet").at(field("text"));
        }
    })],
);
mortise_plugin::export!(PLUGIN: validating);
