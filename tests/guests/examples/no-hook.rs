//! An honest plugin whose type has no hooks: the baseline for benches of `every-hook`.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, proto::hashicorp::consul::internal::demo::v2::Artist};

static PLUGIN: Plugin = Plugin::new(
    "no-hook",
    "1.0.0",
    DESCRIPTORS,
    &[&ResourceType::<Artist>::new("no_hook", "v1", "Artist", Scope::Namespace)],
);
mortise_plugin::export!(PLUGIN);
