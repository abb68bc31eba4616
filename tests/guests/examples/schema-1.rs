//! Schema version 1 of `schema.v1.Thing`; refuses the text of an upgraded thing, since version 1 upgrades nothing.

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
