use prost::Message as _;

use super::*;
use crate::{error::LoadError, manifest::document::Manifest};

const EVERYTHING: Exports = Exports {
    mutating: false,
    validating: false,
    authorizing: false,
    upgrading: false,
    configuring: false,
    controlling: true,
    mapping: true,
    initializing: true,
    planning: false,
    moving: false,
    importing: false,
    functions: false,
};

fn named(kind: &str) -> Option<wire::TypeName> {
    let (group, kind) = kind.split_once('.').unwrap_or(("own", kind));
    Some(wire::TypeName { group: group.into(), group_version: "v1".into(), kind: kind.into() })
}

fn watch(kind: &str, mapper: wire::watch::Mapper) -> wire::Watch {
    wire::Watch { r#type: named(kind), mapper: Some(mapper), indexes: Vec::new() }
}

fn index(name: &str, by: wire::index::By) -> wire::Index {
    wire::Index { name: name.into(), by: Some(by), in_tenancy: false }
}

fn controller(name: &str) -> wire::Controller {
    wire::Controller { name: name.into(), manages: named("Thing"), ..wire::Controller::default() }
}

/// Reads controllers of a plugin whose types are `own.v1.Thing`, which holds a `Condition`, and `own.v1.Part`, which
/// holds a `Tombstone`.
fn read_all(controllers: Vec<wire::Controller>, exports: Exports) -> Result<Vec<ControllerDecl>, String> {
    let own = |kind: &str, message: &str| wire::ResourceType {
        group: "own".into(),
        group_version: "v1".into(),
        kind: kind.into(),
        scope: wire::Scope::Namespace.into(),
        message: format!("hashicorp.consul.resource.{message}"),
        ..wire::ResourceType::default()
    };
    let manifest = wire::Manifest {
        name: "tested".into(),
        version: "1.0.0".into(),
        descriptors: Some(
            mortise_resource::descriptors::FileDescriptorSet::decode(mortise_resource::DESCRIPTORS).unwrap(),
        ),
        types: vec![own("Thing", "Condition"), own("Part", "Tombstone")],
        controllers,
        ..wire::Manifest::default()
    };
    let read = Manifest::read(&manifest.encode_to_vec(), exports);
    read.map(|manifest| manifest.controllers).map_err(|e| LoadError::from(e).to_string())
}

fn read_one(controller: wire::Controller) -> Result<ControllerDecl, String> {
    read_all(vec![controller], EVERYTHING).map(|mut all| all.remove(0))
}

#[test]
fn what_is_left_out_has_defaults() {
    let decl = read_one(controller("c")).unwrap();
    assert_eq!((decl.placement, decl.parallel, decl.initializes), (Placement::Singleton, 1, false));
    assert_eq!(decl.resync, Duration::from_secs(8 * 60 * 60));
    assert_eq!((decl.backoff_base, decl.backoff_max), (Duration::from_millis(5), Duration::from_secs(1_000)));
    assert_eq!(decl.manages.to_string(), "own.v1.Thing");
}

#[test]
fn what_is_given_is_taken() {
    use wire::{index::By, watch::Mapper as Wire};
    let decl = read_one(wire::Controller {
        indexes: vec![index("to", By::ReferenceField("resource".into())), index("kind", By::ValueField("type".into()))],
        watches: vec![
            watch("Part", Wire::Owner(true)),
            watch("other.One", Wire::SameName(true)),
            watch("other.Two", Wire::ReferenceField("spec.target".into())),
            watch("other.Three", Wire::Index("to".into())),
            wire::Watch { indexes: vec![index("mine", By::Owner(true))], ..watch("other.Four", Wire::Map(true)) },
        ],
        placement: wire::Placement::EachServer.into(),
        resync_ms: 5_000,
        parallel: 64,
        initializes: true,
        backoff_base_ms: 1_000,
        backoff_max_ms: 1_000,
        ..controller("c")
    })
    .unwrap();
    let mappers: Vec<_> = decl.watches.iter().map(|watch| watch.mapper.clone()).collect();
    let target = DataPath::new("spec.target").unwrap();
    let expected =
        [Mapper::Owner, Mapper::SameName, Mapper::Reference(target), Mapper::Index("to".into()), Mapper::Map];
    assert_eq!(mappers, expected);
    assert_eq!(decl.watches[4].indexes, [IndexDecl { name: "mine".into(), by: IndexBy::Owner, in_tenancy: false }]);
    assert_eq!((decl.placement, decl.parallel, decl.initializes), (Placement::EachServer, 64, true));
    assert_eq!((decl.resync, decl.backoff_max), (Duration::from_secs(5), Duration::from_secs(1)));
}

#[test]
fn every_fault_is_named() {
    use wire::{index::By, watch::Mapper as Wire};
    let c = || controller("c");
    let watches = |watches: Vec<wire::Watch>| wire::Controller { watches, ..c() };
    let indexes = |indexes: Vec<wire::Index>| wire::Controller { indexes, ..c() };
    let owner = |kind: &str| watch(kind, Wire::Owner(true));
    let many = |n: usize| (0..n).map(|n| owner(&format!("other.Kind{n}"))).collect::<Vec<_>>();
    let value = || By::ValueField("type".into());
    let in_tenancy = |by| wire::Index { in_tenancy: true, ..index("a", by) };
    for (wrong, says) in [
        (controller("No Name"), "controller \"No Name\": name: a controller's name must"),
        (wire::Controller { manages: None, ..c() }, "manages: a type is required"),
        (wire::Controller { manages: named("thing"), ..c() }, "manages: type own.v1.thing: kind must match"),
        (watches(many(17)), "watches: at most 16, got: 17"),
        (watches(vec![wire::Watch { r#type: None, ..owner("Part") }]), "watches: a type is required"),
        (watches(vec![owner("Thing")]), "watch of own.v1.Thing: is managed or watched already"),
        (watches(vec![owner("Part"), owner("Part")]), "watch of own.v1.Part: is managed or watched already"),
        (watches(vec![wire::Watch { mapper: None, ..owner("Part") }]), "watch of own.v1.Part: mapper: one is required"),
        (watches(vec![watch("Part", Wire::Owner(false))]), "mapper: one is required"),
        (watches(vec![watch("Part", Wire::Index("to".into()))]), "mapper: the controller has no index \"to\""),
        (
            wire::Controller {
                indexes: vec![index("kind", value())],
                ..watches(vec![watch("Part", Wire::Index("kind".into()))])
            },
            "mapper: index \"kind\" is not by reference",
        ),
        (
            watches(vec![watch("Part", Wire::ReferenceField("nothing".into()))]),
            "reference_field: \"nothing\": hashicorp.consul.resource.Tombstone has no field",
        ),
        (watches(vec![watch("other.One", Wire::ReferenceField("a..b".into()))]), "\"a..b\" is not a path"),
        (indexes((0..17).map(|n| index(&format!("i{n}"), value())).collect()), "indexes: at most 16, got: 17"),
        (indexes(vec![index("id", value())]), "index \"id\": its name must be"),
        (indexes(vec![index("Big", value())]), "index \"Big\": its name must be"),
        (indexes(vec![index("a", value()), index("a", value())]), "index \"a\": declared twice"),
        (indexes(vec![wire::Index { by: None, ..index("a", value()) }]), "index \"a\": its source is required"),
        (indexes(vec![index("a", By::ResourceName(false))]), "index \"a\": its source is required"),
        (indexes(vec![index("a", By::Metadata(false))]), "index \"a\": its source is required"),
        (
            indexes(vec![in_tenancy(By::Owner(true))]),
            "index \"a\": in_tenancy is for value_field, resource_name and metadata",
        ),
        (indexes(vec![in_tenancy(By::ReferenceField("resource".into()))]), "index \"a\": in_tenancy is for"),
        (indexes(vec![index("a", By::ReferenceField("type".into()))]), "reference_field: \"type\" is neither a "),
        (indexes(vec![index("a", By::ValueField("resource".into()))]), "value_field: \"resource\" is not a string"),
        (wire::Controller { parallel: 65, ..c() }, "parallel: at most 64, got: 65"),
        (wire::Controller { placement: 9, ..c() }, "placement: this host does not know 9"),
        (wire::Controller { resync_ms: 999, ..c() }, "resync_ms: must be 1000 to 2592000000"),
        (wire::Controller { resync_ms: u64::MAX, ..c() }, "resync_ms: must be"),
        (wire::Controller { backoff_base_ms: 2, backoff_max_ms: 1, ..c() }, "backoff: base must not be more than max"),
        (wire::Controller { backoff_max_ms: u64::MAX, ..c() }, "backoff: base must not be more than max"),
    ] {
        let fault = read_one(wrong).unwrap_err();
        assert!(fault.starts_with("manifest: controller ") && fault.contains(says), "{says}: {fault}");
    }
    assert!(read_one(watches(many(16))).is_ok());
}

#[test]
fn an_index_has_the_values_that_it_is_by() {
    use wire::index::By;
    let resource = pb::Resource {
        id: Some(pb::Id {
            name: "web-1".into(),
            tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: "n".into() }),
            ..pb::Id::default()
        }),
        metadata: [("app", "web"), ("cut", "a\0b"), ("tier", "")].map(|(k, v)| (k.into(), v.into())).into(),
        data: Some(prost_types::Any { type_url: String::new(), value: b"data".to_vec() }),
        ..pb::Resource::default()
    };
    let values = |by: By, in_tenancy: bool, resource: &pb::Resource| {
        let index = wire::Index { in_tenancy, ..index("a", by) };
        let decl = read_one(wire::Controller { indexes: vec![index], ..controller("c") }).unwrap();
        let field = |_: &DataPath, data: &[u8]| Ok::<_, ()>(vec![String::from_utf8(data.to_vec()).unwrap()]);
        decl.indexes[0].values(resource, field).unwrap()
    };
    let field = || By::ValueField("type".into());
    assert_eq!(values(By::ResourceName(true), false, &resource), ["web-1"]);
    assert_eq!(values(By::ResourceName(true), true, &resource), ["p/n/web-1"]);
    assert_eq!(values(By::Metadata(true), false, &resource), ["app=web", "tier="], "what has a zero byte is left out");
    assert_eq!(values(By::Metadata(true), true, &resource), ["p/n/app=web", "p/n/tier="]);
    assert_eq!(values(field(), false, &resource), ["data"]);
    assert_eq!(values(field(), true, &resource), ["p/n/data"]);
    assert!(values(By::Owner(true), false, &resource).is_empty());
    // A cluster-scoped resource has an empty tenancy, and one without data has no field.
    let bare = pb::Resource { id: Some(pb::Id { name: "x".into(), ..pb::Id::default() }), ..pb::Resource::default() };
    assert_eq!(values(By::ResourceName(true), true, &bare), ["//x"]);
    assert!(values(By::Metadata(true), true, &bare).is_empty() && values(field(), true, &bare).is_empty());
}

#[test]
fn exports_must_be_there() {
    use wire::watch::Mapper as Wire;
    let maps = wire::Controller { watches: vec![watch("Part", Wire::Map(true))], ..controller("c") };
    let initializes = wire::Controller { initializes: true, ..controller("c") };
    for (declared, exports, says) in [
        (controller("c"), Exports { controlling: false, ..EVERYTHING }, "does not export mortise:plugin/controlling"),
        (maps, Exports { mapping: false, ..EVERYTHING }, "does not export mortise:plugin/mapping"),
        (initializes, Exports { initializing: false, ..EVERYTHING }, "does not export mortise:plugin/initializing"),
    ] {
        let fault = read_all(vec![declared.clone()], exports).unwrap_err();
        assert!(fault.contains(says), "{fault}");
        assert!(read_all(vec![declared], EVERYTHING).is_ok());
    }
    assert!(read_all(Vec::new(), Exports::default()).is_ok());
}

#[test]
fn controllers_are_few_and_have_names_of_their_own() {
    let fault = read_all(vec![controller("c"), controller("c")], EVERYTHING).unwrap_err();
    assert!(fault.contains("controller \"c\": declared twice"), "{fault}");
    let many = |n: usize| (0..n).map(|n| controller(&format!("c{n}"))).collect();
    assert!(read_all(many(17), EVERYTHING).unwrap_err().contains("controllers: at most 16, got: 17"));
    assert_eq!(read_all(many(16), EVERYTHING).unwrap().len(), 16);
}

#[test]
fn two_controllers_may_not_feed_each_other() {
    use wire::watch::Mapper as Wire;
    let things = wire::Controller { watches: vec![watch("Part", Wire::Owner(true))], ..controller("things") };
    let parts = wire::Controller {
        manages: named("Part"),
        watches: vec![watch("Thing", Wire::SameName(true))],
        ..controller("parts")
    };
    for both in [vec![things.clone(), parts.clone()], vec![parts.clone(), things.clone()]] {
        let fault = read_all(both, EVERYTHING).unwrap_err();
        assert!(fault.contains("circular dependency between \"own/v1/part\" and \"own/v1/thing\""), "{fault}");
    }
    let others = wire::Controller { watches: vec![watch("other.One", Wire::SameName(true))], ..parts };
    assert!(read_all(vec![things, others], EVERYTHING).is_ok());
    let types = ["a", "b", "c"].map(|group| Gvk::new(group, "v1", "Kind"));
    let ring = [(&types[0], &types[1]), (&types[1], &types[2]), (&types[2], &types[0])];
    assert_eq!(find_cycle(ring), None, "longer circles are not looked for");
}
