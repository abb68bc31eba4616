//! Types whose data refers to other resources, in every way and with every behaviour;
//! `tests/guests/proto/mortise/test/v1/node.proto` declares them. It has no hooks of writes.
//!
//! A `Draft` becomes a `Node` by a move, and a `Node` a `Draft`; either move appends `~` to the text. A `Node` is
//! imported with its external id as the text.

use mortise_plugin::{Context, Diagnostics, Import, Kind, Move, Plugin, ResourceType, Scope, pb, prost::Message as _};
use mortise_test_guests::{DESCRIPTORS, Hub, Node};

const NODE: Kind<Node> = Kind::new("references", "v1", "Node");
const DRAFT: Kind<Node> = Kind::new("references", "v1", "Draft");
const HUB: Kind<Hub> = Kind::new("references", "v1", "Hub");

static PLUGIN: Plugin = Plugin::new(
    "references",
    "0.1.0",
    DESCRIPTORS,
    &[
        &ResourceType::of(NODE, Scope::Namespace).moves_from(&[("references", "v1", "Draft")], move_to).import(import),
        &ResourceType::of(DRAFT, Scope::Namespace).moves_from(&[("references", "v1", "Node")], move_to),
        &ResourceType::of(HUB, Scope::Cluster),
    ],
);
mortise_plugin::export!(PLUGIN: moving, importing);

fn move_to(old: &pb::Resource, _: u32, _: Option<&[u8]>) -> Result<Move<Node>, Diagnostics> {
    let data = old.data.as_ref().map_or(&[][..], |any| any.value.as_slice());
    let mut node = Node::decode(data).map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
    node.text.push('~');
    Ok(Move::new(node))
}

fn import(_: &Context<'_>, external_id: &str, _: &pb::Tenancy) -> Result<Import<Node>, Diagnostics> {
    Ok(Import::new("imported", Node { text: external_id.to_owned(), ..Node::default() }))
}
