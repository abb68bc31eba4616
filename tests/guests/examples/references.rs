//! Types whose data refers to other resources, in every way and with every behaviour;
//! `tests/guests/proto/mortise/test/v1/node.proto` declares them. It has no hooks.

use mortise_plugin::{Kind, Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Hub, Node};

const NODE: Kind<Node> = Kind::new("references", "v1", "Node");
const HUB: Kind<Hub> = Kind::new("references", "v1", "Hub");

static PLUGIN: Plugin = Plugin::new(
    "references",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(NODE, Scope::Namespace), &ResourceType::of(HUB, Scope::Cluster)],
);
mortise_plugin::export!(PLUGIN);
