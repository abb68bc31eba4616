//! An honest plugin whose type has no hook at all: what benches measure those of `every-hook` against.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, proto::hashicorp::consul::internal::demo::v2::Artist};

static PLUGIN: Plugin = Plugin::new(
    "no-hook",
    "1.0.0",
    DESCRIPTORS,
    &[&ResourceType::<Artist>::new("no_hook", "v1", "Artist", Scope::Namespace)],
);
mortise_plugin::export!(PLUGIN);
