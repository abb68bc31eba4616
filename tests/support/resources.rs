//! Short forms of the resources that tests write and read.

use std::collections::BTreeMap;

use mortise_resource::pb;
use prost::Message;

use super::{Server, name_rule};

/// A type from `group.version.Kind`, valid or not.
pub fn gvk(text: &str) -> pb::Type {
    let mut parts = text.splitn(3, '.').map(str::to_owned);
    let mut part = || parts.next().unwrap();
    pb::Type { group: part(), group_version: part(), kind: part() }
}

/// A tenancy; the server fills in empty units.
pub fn tenancy(partition: &str, namespace: &str) -> pb::Tenancy {
    pb::Tenancy { partition: partition.into(), namespace: namespace.into() }
}

/// A list of all artists.
pub fn list_artists() -> pb::ListRequest {
    pb::ListRequest { r#type: Some(gvk("demo.v2.Artist")), tenancy: Some(tenancy("*", "*")), ..Default::default() }
}

/// A watch of all artists.
pub fn watch_artists() -> pb::WatchListRequest {
    pb::WatchListRequest { r#type: Some(gvk("demo.v2.Artist")), tenancy: Some(tenancy("*", "*")), ..Default::default() }
}

/// An id; the server fills in its tenancy.
pub fn id(t: &str, name: &str) -> pb::Id {
    pb::Id { uid: String::new(), name: name.into(), r#type: Some(gvk(t)), tenancy: None }
}

/// An id in a place.
pub fn id_in(t: &str, name: &str, partition: &str, namespace: &str) -> pb::Id {
    pb::Id { tenancy: Some(tenancy(partition, namespace)), ..id(t, name) }
}

/// A message as data of a resource.
pub fn any(message_name: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any { type_url: format!("type.googleapis.com/{message_name}"), value: message.encode_to_vec() }
}

pub fn resource(id: pb::Id, data: Option<prost_types::Any>) -> pb::Resource {
    pb::Resource { id: Some(id), data, ..pb::Resource::default() }
}

/// A `demo.v2.Artist` with a valid name, in `default`.
pub fn artist(name: &str) -> pb::Resource {
    let data =
        demo::v2::Artist { name: format!("The {name}"), genre: demo::v2::Genre::Jazz.into(), ..Default::default() };
    resource(id("demo.v2.Artist", name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)))
}

/// A `demo.v2.Album`, owned by a resource if one is given.
pub fn album(name: &str, owner: Option<&pb::Id>) -> pb::Resource {
    let data = demo::v2::Album { title: name.into(), tracks: vec!["one".into()], ..Default::default() };
    let mut album = resource(id("demo.v2.Album", name), Some(any("hashicorp.consul.internal.demo.v2.Album", &data)));
    album.owner = owner.cloned();
    album
}

/// A resource without data: `demo.v1.Concept`.
pub fn concept(name: &str) -> pb::Resource {
    resource(id("demo.v1.Concept", name), None)
}

/// A `Thing` of a guest in `tests/guests`.
pub fn thing(group: &str, name: &str, thing: &mortise_test_guests::Thing) -> pb::Resource {
    resource(id(&format!("{group}.v1.Thing"), name), Some(any("mortise.test.v1.Thing", thing)))
}

/// The messages of the demo plugin.
pub mod demo {
    pub use mortise_plugin_demo::proto::hashicorp::consul::internal::demo::{v1, v2};
}

/// Metadata from pairs.
pub fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Creates a partition and a namespace in it (`default` ones are left alone).
pub async fn make_place(server: &Server, partition: &str, namespace: &str) {
    if partition != "default" {
        server.write(resource(id("tenancy.v2beta1.Partition", partition), None)).await.unwrap();
    }
    if namespace != "default" {
        let mut id = id("tenancy.v2beta1.Namespace", namespace);
        id.tenancy = Some(tenancy(partition, ""));
        server.write(resource(id, None)).await.unwrap();
    }
}

/// A resource's data.
pub fn decoded<M: Message + Default>(resource: &pb::Resource) -> M {
    M::decode(resource.data.as_ref().unwrap().value.as_slice()).unwrap()
}

/// Names that break the rule, each with one fault.
pub fn bad_names() -> Vec<String> {
    let mut all =
        ["-", "-a", "a-", "A", "kOrn", "a_b", "a.b", "a/b", "*", "é", " a", "a b", "a\n"].map(str::to_owned).to_vec();
    all.push("x".repeat(64));
    all
}

/// Names at the edges of the rule.
pub fn good_names() -> Vec<String> {
    let mut all = ["a", "0", "a--b", "0-0"].map(str::to_owned).to_vec();
    all.push("x".repeat(63));
    all
}

/// Ids of an unknown type with fewer and fewer faults, each with its error: a check in another order than type, name,
/// partition, namespace gives other errors.
pub fn id_stairs(prefix: &str) -> Vec<(pb::Id, String)> {
    let none =
        pb::Id { uid: "never looked at".into(), name: "Bad".into(), r#type: None, tenancy: Some(tenancy("P", "N")) };
    let typed = pb::Id { r#type: Some(gvk("nope.v1.Nope")), ..none.clone() };
    let named = pb::Id { name: "good".into(), ..typed.clone() };
    let placed = pb::Id { tenancy: Some(tenancy("p", "N")), ..named.clone() };
    vec![
        (none, format!("{prefix}.type is required")),
        (typed, format!("{prefix}.name invalid: {}", name_rule("Bad"))),
        (named, format!("{prefix}.tenancy.partition invalid: {}", name_rule("P"))),
        (placed, format!("{prefix}.tenancy.namespace invalid: {}", name_rule("N"))),
    ]
}

/// A `deny.v1.<kind>` with a text.
pub fn deny_thing(kind: &str, name: &str, text: &str) -> pb::Resource {
    let thing = mortise_test_guests::Thing { text: text.into(), ..Default::default() };
    resource(id(&format!("deny.v1.{kind}"), name), Some(any("mortise.test.v1.Thing", &thing)))
}

/// A plugin that serves types (namespace scope, data `mortise.test.v1.Thing`) without hooks: it stores resources that
/// another plugin's hooks would refuse, before that one is loaded on the same data directory.
pub fn hookless(types: &[&str]) -> Vec<u8> {
    let mut manifest = mortise_test_guests::good_manifest();
    let template = manifest.types.remove(0);
    manifest.types.extend(types.iter().map(|text| {
        let pb::Type { group, group_version, kind } = gvk(text);
        let mut one = template.clone();
        (one.group, one.group_version, one.kind) = (group, group_version, kind);
        one
    }));
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}

/// The resource with this tenancy.
pub fn at(mut resource: pb::Resource, partition: &str, namespace: &str) -> pb::Resource {
    resource.id.as_mut().unwrap().tenancy = Some(tenancy(partition, namespace));
    resource
}

/// The resource with this owner.
pub fn owned(mut resource: pb::Resource, owner: &pb::Id) -> pb::Resource {
    resource.owner = Some(owner.clone());
    resource
}

/// The resource with this metadata.
pub fn noted(mut resource: pb::Resource, pairs: &[(&str, &str)]) -> pb::Resource {
    resource.metadata = metadata(pairs);
    resource
}

/// The resource with these labels.
pub fn labelled(resource: pb::Resource, pairs: &[(&str, &str)]) -> pb::Resource {
    let meta = mortise_resource::goten::Meta { labels: metadata(pairs), ..Default::default() };
    pb::Resource { meta: Some(Box::new(meta)), ..resource }
}

/// The id of a resource from the server.
pub fn id_of(resource: &pb::Resource) -> pb::Id {
    resource.id.clone().unwrap()
}

/// Names, in the order given.
pub fn names(resources: &[pb::Resource]) -> Vec<String> {
    resources.iter().map(|r| id_of(r).name).collect()
}

/// `partition/namespace/name` of each, in the order given.
pub fn places(resources: &[pb::Resource]) -> Vec<String> {
    let place = |id: pb::Id| {
        let tenancy = id.tenancy.unwrap_or_default();
        format!("{}/{}/{}", tenancy.partition, tenancy.namespace, id.name)
    };
    resources.iter().map(|r| place(id_of(r))).collect()
}

/// Id of a deleted resource's tombstone, if its name is short.
pub fn tombstone_id(deleted: &pb::Id) -> pb::Id {
    let name = format!("tombstone-{}-{}", deleted.name, deleted.uid.to_lowercase());
    pb::Id { tenancy: deleted.tenancy.clone(), ..id("internal.v1.Tombstone", &name) }
}

/// A resource of a demo type with data where the type cannot do without: the right to read a label depends on it.
pub fn with_needed_data(t: &str) -> pb::Resource {
    match t {
        "demo.v1.RecordLabel" => label("x", "default"),
        _ => resource(id(t, "x"), None),
    }
}

/// A `demo.v1.RecordLabel` in a partition.
pub fn label(name: &str, partition: &str) -> pb::Resource {
    let data = demo::v1::RecordLabel { name: name.into(), ..Default::default() };
    let data = any("hashicorp.consul.internal.demo.v1.RecordLabel", &data);
    resource(id_in("demo.v1.RecordLabel", name, partition, ""), Some(data))
}
