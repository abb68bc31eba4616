//! Its manifest declares validation, but it does not export `validating`.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "missing-hook",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("missing_hook", "v1", "Thing", Scope::Namespace).validate(|_, _, _| {})],
);
mortise_plugin::export!(PLUGIN);
