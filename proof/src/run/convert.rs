//! Resources on the wire, and their form in a record.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use mortise_plugin_demo::proto::hashicorp::consul::internal::demo::v2;
use mortise_proof::record::{
    DRAFT, Incarnation, Key, NAMESPACE, NODE, OnDelete, PARTITION, Reference, Scope, State, refers,
};
use mortise_resource::{meta, pb};
use mortise_test_guests::Node;
use prost::Message as _;

/// Kind of owners.
pub(crate) const ARTIST: &str = "Artist";
/// Kind of owned resources.
pub(crate) const ALBUM: &str = "Album";
/// The partition that always exists.
const DEFAULT_PARTITION: &str = "default";
/// Effects of deletions on referrers.
const ON_DELETE: [OnDelete; 5] =
    [OnDelete::Block, OnDelete::Unset, OnDelete::Cascade, OnDelete::LaterUnset, OnDelete::LaterCascade];
/// Finalizer of clients.
const FINALIZER: &str = "proof.example/held";

/// Returns the type of a kind.
pub(crate) fn type_of(kind: &str) -> pb::Type {
    let (group, version) = match kind {
        NAMESPACE | PARTITION => ("tenancy", "v2beta1"),
        NODE | DRAFT => ("references", "v1"),
        _ => ("demo", "v2"),
    };
    pb::Type { group: group.to_owned(), group_version: version.to_owned(), kind: kind.to_owned() }
}

/// Returns the tenancy of a namespace.
pub(crate) fn place(namespace: &str) -> pb::Tenancy {
    let (partition, namespace) = namespace.split_once('/').unwrap_or((DEFAULT_PARTITION, namespace));
    pb::Tenancy { partition: partition.to_owned(), namespace: namespace.to_owned() }
}

/// Returns the namespace of a tenancy.
pub(crate) fn namespace(partition: &str, namespace: &str) -> String {
    match partition {
        DEFAULT_PARTITION | "" => namespace.to_owned(),
        partition => format!("{partition}/{namespace}"),
    }
}

/// Returns the tenancy of a scope.
pub(crate) fn scope_place(scope: &Scope) -> pb::Tenancy {
    match (scope.kind.as_str(), scope.namespace.as_deref()) {
        (PARTITION, _) => pb::Tenancy::default(),
        (NAMESPACE, _) => place(""),
        (_, namespace) => place(namespace.unwrap_or("*/*")),
    }
}

/// Returns the id of a resource; an empty uid means any incarnation.
pub(crate) fn id(key: &Key, uid: &str) -> pb::Id {
    pb::Id {
        uid: uid.to_owned(),
        name: key.name.clone(),
        r#type: Some(type_of(&key.kind)),
        tenancy: Some(if key.kind == PARTITION { pb::Tenancy::default() } else { place(&key.namespace) }),
    }
}

/// Returns the name in an id.
pub(crate) fn key(id: &pb::Id) -> Key {
    Key {
        kind: id.r#type.as_ref().map(|kind| kind.kind.clone()).unwrap_or_default(),
        namespace: id.tenancy.as_ref().map(|place| namespace(&place.partition, &place.namespace)).unwrap_or_default(),
        name: id.name.clone(),
    }
}

fn incarnation(id: &pb::Id) -> Incarnation {
    Incarnation { key: key(id), uid: id.uid.clone() }
}

/// Returns the incarnation that an id names.
pub(crate) fn named(id: Option<&pb::Id>) -> Incarnation {
    incarnation(id.unwrap_or(&pb::Id::default()))
}

/// Makes a resource for a request.
pub(crate) fn resource(key: &Key, uid: &str, version: Option<u64>, content: &str) -> pb::Resource {
    referring(key, uid, version, content, &[])
}

/// Makes a resource with references for a request; they count for nodes and drafts.
pub(crate) fn referring(
    key: &Key,
    uid: &str,
    version: Option<u64>,
    content: &str,
    references: &[Reference],
) -> pb::Resource {
    const DEMO: &str = "hashicorp.consul.internal.demo.v2";
    let data = match key.kind.as_str() {
        ARTIST => Some(any(DEMO, "Artist", &v2::Artist { name: content.to_owned(), ..v2::Artist::default() })),
        ALBUM => Some(any(DEMO, "Album", &v2::Album { title: content.to_owned(), ..v2::Album::default() })),
        NODE | DRAFT => Some(any("mortise.test.v1", "Node", &node(content, references))),
        _ => None,
    };
    let version = version.map(|version| version.to_string()).unwrap_or_default();
    pb::Resource { id: Some(id(key, uid)), version, data, ..pb::Resource::default() }
}

/// Makes the data of a node.
fn node(content: &str, references: &[Reference]) -> Node {
    let mut node = Node { text: content.to_owned(), ..Node::default() };
    for Reference { on_delete, target } in references {
        let place = place(&target.namespace);
        let name = format!("{}/{}/{}", place.partition, place.namespace, target.name);
        field(&mut node, *on_delete).push(name);
    }
    node
}

/// Returns the field of the references with an effect.
fn field(node: &mut Node, on_delete: OnDelete) -> &mut Vec<String> {
    match on_delete {
        OnDelete::Block => &mut node.blocked_by,
        OnDelete::Unset => &mut node.unset_by,
        OnDelete::Cascade => &mut node.goes_with,
        OnDelete::LaterUnset => &mut node.unset_later,
        OnDelete::LaterCascade => &mut node.goes_later,
    }
}

/// Returns the references in the data of a node.
fn references(node: &mut Node) -> Vec<Reference> {
    let mut references = Vec::new();
    for on_delete in ON_DELETE {
        for name in std::mem::take(field(node, on_delete)) {
            let (place, name) = name.rsplit_once('/').unwrap_or_default();
            let (partition, within) = place.split_once('/').unwrap_or_default();
            let target = Key { kind: NODE.to_owned(), namespace: namespace(partition, within), name: name.to_owned() };
            references.push(Reference { on_delete, target });
        }
    }
    references.sort();
    references
}

fn any(package: &str, name: &str, message: &impl prost::Message) -> prost_types::Any {
    let type_url = format!("type.googleapis.com/{package}.{name}");
    prost_types::Any { type_url, value: message.encode_to_vec() }
}

/// Sets or ends the finalizer of a request.
pub(crate) fn hold(metadata: &mut BTreeMap<String, String>, holds: bool) {
    metadata.insert(meta::FINALIZERS.to_owned(), if holds { FINALIZER.to_owned() } else { String::new() });
}

/// Returns the path of the text in the data of a kind.
pub(crate) fn content_path(kind: &str) -> &'static str {
    match kind {
        ALBUM => "data.title",
        NODE | DRAFT => "data.text",
        _ => "data.name",
    }
}

/// Returns a status with a text.
pub(crate) fn status(generation: &str, content: &str) -> pb::Status {
    let condition = pb::Condition {
        r#type: "Seen".to_owned(),
        state: pb::condition::State::True.into(),
        message: content.to_owned(),
        ..pb::Condition::default()
    };
    pb::Status { observed_generation: generation.to_owned(), conditions: vec![condition], updated_at: None }
}

/// Returns the form of a resource in a record.
pub(crate) fn state(resource: &pb::Resource) -> State {
    let Incarnation { key, uid } = named(resource.id.as_ref());
    let bytes = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
    let (content, references) = match key.kind.as_str() {
        ARTIST => (v2::Artist::decode(bytes).unwrap_or_default().name, Vec::new()),
        ALBUM => (v2::Album::decode(bytes).unwrap_or_default().title, Vec::new()),
        NODE | DRAFT => {
            let mut node = Node::decode(bytes).unwrap_or_default();
            (std::mem::take(&mut node.text), references(&mut node))
        }
        _ => Default::default(),
    };
    // The host's finalizer holds what others refer to; the rules of references are about it.
    let has_finalizers = !refers(&key.kind) && meta::has_finalizers(&resource.metadata);
    let mut digest = DefaultHasher::new();
    resource.encode_to_vec().hash(&mut digest);
    let text = |status: &pb::Status| status.conditions.first().map(|first| first.message.clone()).unwrap_or_default();
    State {
        key,
        uid,
        version: resource.version.parse().unwrap_or_default(),
        generation: resource.generation.clone(),
        edition: resource.meta.as_ref().map(|meta| meta.generation).unwrap_or_default(),
        content,
        owner: resource.owner.as_ref().map(incarnation),
        is_marked: meta::is_marked(&resource.metadata),
        has_finalizers,
        statuses: resource.status.iter().map(|(entry, status)| (entry.clone(), text(status))).collect(),
        references,
        digest: digest.finish(),
    }
}
