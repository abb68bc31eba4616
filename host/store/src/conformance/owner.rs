//! Tests of ListByOwner.

use mortise_resource::pb;

use super::fixtures::{delete, id, name, numbered, resource, resource_in, tenancy, type_of, ulid, write};
use crate::Backend;

fn owned(resource: pb::Resource, owner: &pb::Resource) -> pb::Resource {
    pb::Resource { owner: Some(id(owner)), ..resource }
}

async fn children<B: Backend>(store: &B, owner: &pb::Id) -> Vec<pb::Resource> {
    store.list_by_owner(owner).await.unwrap()
}

/// Children have exactly the owner's uid; its GroupVersion does not matter; every other part of the id does.
pub async fn exactly_this_incarnation<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    let child = write(store, &owned(resource("child"), &owner)).await;
    write(store, &owned(resource("other"), &resource("owner"))).await;
    write(store, &resource("orphan")).await;
    assert_eq!(children(store, &id(&owner)).await, std::slice::from_ref(&child));

    let mut later = id(&owner);
    later.r#type = Some(type_of("v2", "A"));
    assert_eq!(children(store, &later).await, [child]);

    let changes: [fn(&mut pb::Id); 5] = [
        |id| id.uid = ulid(),
        |id| id.uid.clear(),
        |id| id.name.push('x'),
        |id| id.r#type = Some(type_of("v1", "B")),
        |id| id.tenancy = Some(tenancy("default", "other")),
    ];
    for change in changes {
        let mut other = id(&owner);
        change(&mut other);
        assert_eq!(children(store, &other).await, [], "{other:?}");
    }
}

/// Children may have other types and tenancies.
pub async fn children_of_every_type_and_tenancy<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    for (kind, namespace) in [("A", "default"), ("A", "other"), ("B", "default"), ("C", "")] {
        let child = resource_in(type_of("v1", kind), tenancy("default", namespace), "child");
        write(store, &owned(child, &owner)).await;
    }
    let listed = children(store, &id(&owner)).await;
    let mut kinds: Vec<_> = listed.iter().map(|r| id(r).r#type.unwrap().kind).collect();
    kinds.sort();
    assert_eq!(kinds, ["A", "A", "B", "C"]);
}

/// Children are found after their owner was deleted, and when another resource has its name.
pub async fn survives_the_deletion_of_the_owner<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    let child = write(store, &owned(resource("child"), &owner)).await;
    delete(store, &owner).await;
    assert_eq!(children(store, &id(&owner)).await, std::slice::from_ref(&child));
    let successor = write(store, &resource("owner")).await;
    assert_eq!(children(store, &id(&owner)).await, [child]);
    assert_eq!(children(store, &id(&successor)).await, []);
}

/// A deleted child is not listed, even when another child with its name follows.
pub async fn goes_with_the_child<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    let child = write(store, &owned(resource("child"), &owner)).await;
    delete(store, &child).await;
    assert_eq!(children(store, &id(&owner)).await, []);
    write(store, &resource("child")).await;
    assert_eq!(children(store, &id(&owner)).await, []);
}

/// Updates and status writes keep the child on the list, in its newest state.
pub async fn updates_keep_the_child<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    let mut child = write(store, &owned(resource("child"), &owner)).await;
    for n in 1..5 {
        child = write(store, &numbered(child, n)).await;
        assert_eq!(children(store, &id(&owner)).await, std::slice::from_ref(&child));
    }
}

/// A store does not check whether an owner may change; when it does, the list follows.
pub async fn follows_a_change_of_owner<B: Backend>(store: &B) {
    let first = write(store, &resource("first")).await;
    let second = write(store, &resource("second")).await;
    let child = write(store, &owned(resource("child"), &first)).await;
    let child = write(store, &owned(child, &second)).await;
    assert_eq!(children(store, &id(&first)).await, []);
    let listed: Vec<_> = children(store, &id(&second)).await.iter().map(name).collect();
    assert_eq!(listed, ["child"]);
    write(store, &pb::Resource { owner: None, ..child }).await;
    assert_eq!(children(store, &id(&second)).await, []);
}
