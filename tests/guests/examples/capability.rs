//! Requests a capability that no host has.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "capability",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("capability", "v1", "Thing", Scope::Namespace)],
)
.capabilities(&["teleport"]);
mortise_plugin::export!(PLUGIN);
