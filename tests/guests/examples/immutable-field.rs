//! Its fields `number` and `inner.text` cannot be changed once the resource exists; it has no hooks.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "immutable-field",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("immutable_field", "v1", "Thing", Scope::Namespace)
        .immutable(&["number", "inner.text"])],
);
mortise_plugin::export!(PLUGIN);
