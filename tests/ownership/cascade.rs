//! Cascading deletion: resources that a deleted one owned follow it, and nothing else does.

use crate::support::{
    Server, Setup, album, any, artist, at, concept, eventually, gvk, id, id_in, id_of, is_gone, label, make_place,
    noted, owned, refusal, resource, tenancy, tombstone_id, tombstones, until_gone,
};
use mortise_resource::pb;
use tonic::Code;

/// A server with a short wait before the second pass.
async fn quick() -> Server {
    Setup::new().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300).start().await
}

/// Writes an owned resource, and returns its id.
async fn child(server: &Server, child: pb::Resource, owner: &pb::Id) -> pb::Id {
    id_of(&server.write(owned(child, owner)).await.unwrap())
}

async fn parent(server: &Server, resource: pb::Resource) -> pb::Id {
    id_of(&server.write(resource).await.unwrap())
}

async fn all_gone(server: &Server, ids: &[pb::Id]) {
    for id in ids {
        until_gone(server, id).await;
    }
}

/// Waits until the reaper has finished.
async fn settled(server: &Server) {
    eventually("no tombstone is left", || async { tombstones(server).await.is_empty() }).await;
}

/// A tombstone that a user could write.
fn by_hand(name: &str, owner: &pb::Id) -> pb::Resource {
    let content = pb::Tombstone { owner: Some(owner.clone()), ..Default::default() };
    let data = any("hashicorp.consul.resource.Tombstone", &content);
    resource(id_in("internal.v1.Tombstone", name, "default", "default"), Some(data))
}

#[tokio::test]
async fn children_and_grandchildren_follow_and_others_stay() {
    let server = quick().await;
    let korn = parent(&server, artist("korn")).await;
    let other = parent(&server, artist("other")).await;
    let first = child(&server, album("first", None), &korn).await;
    let second = child(&server, album("second", None), &korn).await;
    let grandchild = child(&server, concept("grandchild"), &first).await;
    let great = child(&server, concept("great-grandchild"), &grandchild).await;
    let stays = [child(&server, album("third", None), &other).await, parent(&server, album("nobodys", None)).await];
    server.delete(&korn, "").await.unwrap();
    all_gone(&server, &[first, second, grandchild, great]).await;
    settled(&server).await;
    for id in stays.iter().chain([&other]) {
        assert!(!is_gone(&server, id).await, "{}", id.name);
    }
}

#[tokio::test]
async fn a_long_line_goes_to_its_end() {
    let server = quick().await;
    let mut line = vec![parent(&server, concept("g0")).await];
    for generation in 1..40 {
        let next = child(&server, concept(&format!("g{generation}")), line.last().unwrap()).await;
        line.push(next);
    }
    server.delete(&line[0], "").await.unwrap();
    all_gone(&server, &line).await;
    settled(&server).await;
}

#[tokio::test]
async fn names_of_63_characters_are_no_obstacle() {
    let server = quick().await;
    let name = |c: &str| c.repeat(63);
    let owner = parent(&server, concept(&name("a"))).await;
    let one = child(&server, concept(&name("b")), &owner).await;
    let two = child(&server, concept(&format!("{}-{}", "b".repeat(25), "c".repeat(37))), &owner).await;
    let below = child(&server, concept(&name("d")), &one).await;
    server.delete(&owner, "").await.unwrap();
    all_gone(&server, &[one, two, below]).await;
    settled(&server).await;
}

#[tokio::test]
async fn owners_and_children_of_every_scope() {
    let server = quick().await;
    make_place(&server, "default", "far").await;
    make_place(&server, "away", "off").await;
    for owner in
        [at(concept("owner"), "away", "off"), label("owner", "away"), resource(id("demo.v1.Executive", "owner"), None)]
    {
        let owner = parent(&server, owner).await;
        let mut children = Vec::new();
        for one in [
            album("near", None),
            at(album("far", None), "default", "far"),
            at(concept("off"), "away", "off"),
            label("label", "away"),
            resource(id("demo.v1.Executive", "boss"), None),
        ] {
            children.push(child(&server, one, &owner).await);
        }
        server.delete(&owner, "").await.unwrap();
        all_gone(&server, &children).await;
    }
    settled(&server).await;
}

#[tokio::test]
async fn a_child_with_finalizers_is_marked_and_goes_when_they_do() {
    let server = quick().await;
    let korn = parent(&server, artist("korn")).await;
    let held = child(&server, noted(album("held", None), &[("finalizers", "me")]), &korn).await;
    let free = child(&server, album("free", None), &korn).await;
    let below = child(&server, concept("below"), &held).await;
    server.delete(&korn, "").await.unwrap();
    all_gone(&server, &[free]).await;
    settled(&server).await;
    let marked = server.read(&held).await.unwrap();
    assert!(marked.metadata.contains_key("deletionTimestamp"));
    assert!(!is_gone(&server, &below).await, "what it owns stays as long as it does");
    let mut freed = album("held", None);
    freed.owner.clone_from(&marked.owner);
    server.write(noted(freed, &[("finalizers", "")])).await.unwrap();
    all_gone(&server, &[held, below]).await;
    settled(&server).await;
}

#[tokio::test]
async fn the_second_pass_finds_children_that_came_meanwhile() {
    let server = Setup::new().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 5000).start().await;
    let korn = parent(&server, artist("korn")).await;
    server.delete(&korn, "").await.unwrap();
    let tombstone = tombstone_id(&korn);
    eventually("the first pass", || async { !server.read(&tombstone).await.unwrap().status.is_empty() }).await;
    // With a uid, the owner's existence is not checked.
    let late = child(&server, album("late", None), &korn).await;
    assert!(!is_gone(&server, &late).await);
    all_gone(&server, &[late, tombstone]).await;
    settled(&server).await;
}

#[tokio::test]
async fn a_new_incarnation_keeps_its_children() {
    let server = quick().await;
    let old = parent(&server, artist("korn")).await;
    let lost = child(&server, album("lost", None), &old).await;
    server.delete(&old, "").await.unwrap();
    let new = parent(&server, artist("korn")).await;
    let kept = child(&server, album("kept", None), &pb::Id { uid: String::new(), ..new.clone() }).await;
    all_gone(&server, &[lost]).await;
    settled(&server).await;
    assert!(!is_gone(&server, &kept).await && !is_gone(&server, &new).await);
}

#[tokio::test]
async fn deletions_that_did_not_happen_cost_no_children() {
    let server = quick().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let korn_id = id_of(&korn);
    let kept = child(&server, album("kept", None), &korn_id).await;
    // Difference 2.
    let cas = "CAS operation failed because the given version doesn't match what is stored";
    for id in [&korn_id, &id("demo.v2.Artist", "korn")] {
        assert_eq!(refusal(server.delete(id, "0").await), (Code::Aborted, cas.to_owned()));
    }
    server.delete(&pb::Id { uid: "other".into(), ..korn_id.clone() }, "").await.unwrap();
    assert!(tombstones(&server).await.is_empty());
    // The removal of a later deletion's child shows that the reaper had its chance.
    let marker = parent(&server, concept("marker")).await;
    let follows = child(&server, concept("follows"), &marker).await;
    server.delete(&marker, "").await.unwrap();
    all_gone(&server, &[follows]).await;
    settled(&server).await;
    assert!(!is_gone(&server, &kept).await && !is_gone(&server, &korn_id).await);
}

#[tokio::test]
async fn a_tombstone_by_hand_harms_no_children_of_the_living() {
    let server = quick().await;
    let korn = parent(&server, artist("korn")).await;
    let kept = child(&server, album("kept", None), &korn).await;
    server.write(by_hand("mine", &korn)).await.unwrap();
    server.write(by_hand(&tombstone_id(&korn).name, &korn)).await.unwrap();
    // Another GroupVersion names the same resource.
    let v1 = pb::Id { r#type: Some(gvk("demo.v1.Artist")), ..korn.clone() };
    server.write(by_hand("other-version", &v1)).await.unwrap();
    settled(&server).await;
    assert!(!is_gone(&server, &kept).await && !is_gone(&server, &korn).await);
    server.delete(&korn, "").await.unwrap();
    all_gone(&server, &[kept]).await;
}

#[tokio::test]
async fn a_tombstone_by_hand_works_for_the_dead() {
    let server = quick().await;
    let nobody = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id_in("no.v1.Such", "x", "p", "n") };
    let orphan = child(&server, concept("orphan"), &nobody).await;
    server.write(by_hand("mine", &nobody)).await.unwrap();
    all_gone(&server, &[orphan]).await;
    settled(&server).await;
}

#[tokio::test]
async fn a_tombstone_by_hand_in_place_of_the_real_one_saves_no_child() {
    let server = Server::start().await;
    let korn = parent(&server, artist("korn")).await;
    let lost = child(&server, album("lost", None), &korn).await;
    let nobody = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..korn.clone() };
    let squatter = tombstone_id(&korn);
    server.write(by_hand(&squatter.name, &nobody)).await.unwrap();
    eventually("it is worked off", || async { !server.read(&squatter).await.unwrap().status.is_empty() }).await;
    server.delete(&korn, "").await.unwrap();
    all_gone(&server, &[lost]).await;
}

#[tokio::test]
async fn a_tombstone_by_hand_during_the_deletion_saves_no_child() {
    let server = quick().await;
    for round in 0..40 {
        let korn = parent(&server, concept("korn")).await;
        let lost = child(&server, concept(&format!("lost-{round}")), &korn).await;
        server.write(by_hand(&tombstone_id(&korn).name, &korn)).await.unwrap();
        server.delete(&korn, "").await.unwrap();
        all_gone(&server, &[lost]).await;
    }
    settled(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn children_by_the_owners_name_are_written_while_it_lives_or_not_at_all() {
    // The second pass is half a minute away: the first must suffice.
    let server = Server::start().await;
    for round in 0..5 {
        let korn = parent(&server, artist("korn")).await;
        let mut writers = tokio::task::JoinSet::new();
        for worker in 0..8 {
            let mut client = server.client();
            let owner = pb::Id { uid: String::new(), ..korn.clone() };
            writers.spawn(async move {
                for n in 0.. {
                    let resource = Some(owned(concept(&format!("c-{round}-{worker}-{n}")), &owner));
                    if let Err(status) = client.write(pb::WriteRequest { resource }).await {
                        return (n, status);
                    }
                }
                unreachable!()
            });
        }
        eventually("there are children", || async { concepts(&server).await > 20 }).await;
        server.delete(&korn, "").await.unwrap();
        for (_, status) in writers.join_all().await {
            let expected = (Code::InvalidArgument, "resource.owner does not exist");
            assert_eq!((status.code(), status.message()), expected);
        }
        eventually("no child is left", || async { concepts(&server).await == 0 }).await;
    }
}

#[tokio::test]
async fn a_forged_first_pass_only_costs_time() {
    let server = Setup::new().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 5000).start().await;
    let nobody = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id_in("no.v1.Such", "x", "p", "n") };
    let tombstone = server.write(by_hand("mine", &nobody)).await.unwrap();
    eventually("the first pass", || async {
        server.read(&id_of(&tombstone)).await.is_ok_and(|t| !t.status.is_empty())
    })
    .await;
    let orphan = child(&server, concept("orphan"), &nobody).await;
    // Any user may write a status, including this one.
    let condition = pb::Condition { r#type: "FirstPassCompleted".into(), ..Default::default() };
    let mut status = pb::Status { observed_generation: tombstone.generation.clone(), ..Default::default() };
    for state in [pb::condition::State::False, pb::condition::State::True] {
        status.conditions = vec![pb::Condition { state: state.into(), ..condition.clone() }];
        let request = pb::WriteStatusRequest {
            id: tombstone.id.clone(),
            version: String::new(),
            key: "consul.io/reaper-controller".into(),
            status: Some(status.clone()),
        };
        // The cascade may already be over.
        let _ = server.write_status(request).await;
    }
    all_gone(&server, &[orphan]).await;
    settled(&server).await;
}

/// Writes many children of one owner, from several concurrent tasks.
async fn litter(server: &Server, owner: &pb::Id, count: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..16 {
        let (mut client, owner) = (server.client(), owner.clone());
        tasks.spawn(async move {
            for n in (worker..count).step_by(16) {
                let resource = Some(owned(concept(&format!("child-{n}")), &owner));
                client.write(pb::WriteRequest { resource }).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

async fn concepts(server: &Server) -> usize {
    server.list(gvk("demo.v1.Concept"), tenancy("*", "*"), "").await.unwrap().len()
}

#[tokio::test]
async fn a_thousand_children() {
    let server = quick().await;
    let korn = parent(&server, artist("korn")).await;
    litter(&server, &korn, 1000).await;
    assert_eq!(server.list_by_owner(&korn).await.unwrap().len(), 1000);
    server.delete(&korn, "").await.unwrap();
    eventually("all are gone", || async { concepts(&server).await == 0 }).await;
    assert!(server.list_by_owner(&korn).await.unwrap().is_empty());
    settled(&server).await;
}

#[tokio::test]
async fn it_goes_on_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let setup = |wait| Setup::new().data_dir(dir.path()).env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", wait);
    let mut server = setup(60_000).start().await;
    let korn = parent(&server, artist("korn")).await;
    litter(&server, &korn, 300).await;
    let below =
        child(&server, concept("below"), &id_of(&server.read(&id("demo.v1.Concept", "child-7")).await.unwrap())).await;
    server.delete(&korn, "").await.unwrap();
    server.child.kill().await.unwrap();
    drop(server);

    let mut server = setup(60_000).start().await;
    assert!(is_gone(&server, &korn).await);
    eventually("all are gone", || async { concepts(&server).await == 0 }).await;
    all_gone(&server, &[below]).await;
    let tombstone = tombstone_id(&korn);
    eventually("the first pass", || async { server.read(&tombstone).await.is_ok_and(|t| !t.status.is_empty()) }).await;
    // Written between the two passes.
    let late = child(&server, album("late", None), &korn).await;
    server.child.kill().await.unwrap();
    drop(server);

    // The second pass is due from here on.
    let server = setup(1000).start().await;
    all_gone(&server, &[late, tombstone]).await;
    settled(&server).await;
}

#[tokio::test]
async fn owners_deleted_all_at_once() {
    let server = quick().await;
    let mut lost = Vec::new();
    let mut owners = Vec::new();
    for n in 0..60 {
        let owner = parent(&server, artist(&format!("owner-{n}"))).await;
        lost.push(child(&server, concept(&format!("child-{n}")), &owner).await);
        owners.push(owner);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for id in owners {
        let mut client = server.client();
        tasks.spawn(async move { client.delete(pb::DeleteRequest { id: Some(id), version: String::new() }).await });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    all_gone(&server, &lost).await;
    settled(&server).await;
}

/// Difference from Consul: `default` always exists, even if a resource claims to own it.
#[tokio::test]
async fn no_cascade_takes_a_default_unit() {
    let server = quick().await;
    make_place(&server, "q", "n").await;
    let boss = parent(&server, resource(id("demo.v1.Executive", "boss"), None)).await;
    let units = [
        id("tenancy.v2beta1.Partition", "default"),
        id_in("tenancy.v2beta1.Namespace", "default", "default", ""),
        id_in("tenancy.v2beta1.Namespace", "default", "q", ""),
    ];
    for unit in &units {
        let stored = server.read(unit).await.ok();
        let written = resource(unit.clone(), stored.and_then(|stored| stored.data));
        child(&server, written, &boss).await;
    }
    let goes = child(&server, resource(id_in("tenancy.v2beta1.Namespace", "owned", "q", ""), None), &boss).await;
    let kept = [concept("keep"), at(concept("keep"), "q", "default")];
    for one in &kept {
        server.write(one.clone()).await.unwrap();
    }
    server.delete(&boss, "").await.unwrap();
    all_gone(&server, &[goes]).await;
    settled(&server).await;
    for unit in &units {
        assert!(!server.read(unit).await.unwrap().metadata.contains_key("deletionTimestamp"), "{unit:?}");
    }
    for one in kept {
        server.write(one).await.unwrap();
    }
    // Together with its partition it is deleted.
    server.delete(&id("tenancy.v2beta1.Partition", "q"), "").await.unwrap();
    all_gone(&server, &[id("tenancy.v2beta1.Partition", "q"), units[2].clone()]).await;
}

/// Writes the largest resource that is accepted, filled up by its metadata.
async fn filled_to_the_limit(server: &Server, one: pb::Resource, pairs: &[(&str, &str)]) -> pb::Resource {
    for size in (19_000..20_000).rev() {
        let pad = "x".repeat(size);
        let padded = noted(one.clone(), &[pairs, &[("pad", pad.as_str())]].concat());
        if let Ok(stored) = server.write(padded).await {
            return stored;
        }
    }
    panic!("nothing is taken");
}

/// A deletion needs a mark, and there is room for it; a child that cannot be deleted does not keep its siblings.
#[tokio::test]
async fn the_largest_resource_can_be_deleted_in_every_way() {
    let server = Setup::new()
        .env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300)
        .env("MORTISE_STORE_MAX_RESOURCE_BYTES", 20_000)
        .start()
        .await;
    make_place(&server, "default", "n").await;
    let boss = parent(&server, concept("boss")).await;
    let held = [("finalizers", "f")];
    let by_hand = id_of(&filled_to_the_limit(&server, concept("by-hand"), &held).await);
    let owned_one = id_of(&filled_to_the_limit(&server, owned(concept("a-child"), &boss), &held).await);
    let sibling = child(&server, concept("b-child"), &boss).await;
    let placed = id_of(&filled_to_the_limit(&server, at(concept("placed"), "default", "n"), &held).await);
    let place = id_in("tenancy.v2beta1.Namespace", "full", "default", "");
    let place = id_of(&filled_to_the_limit(&server, resource(place, None), &[]).await);

    server.delete(&by_hand, "").await.unwrap();
    server.delete(&boss, "").await.unwrap();
    server.delete(&id_in("tenancy.v2beta1.Namespace", "n", "default", ""), "").await.unwrap();
    server.delete(&place, "").await.unwrap();
    all_gone(&server, &[sibling, place]).await;
    for id in [by_hand, owned_one, placed] {
        let marked = async || server.read(&id).await.unwrap().metadata.contains_key("deletionTimestamp");
        eventually("it is marked", marked).await;
        let mut stored = server.read(&id).await.unwrap();
        stored.metadata.insert("finalizers".into(), String::new());
        server.write(stored).await.unwrap();
        assert!(is_gone(&server, &id).await);
    }
}

/// Resources above a lowered limit can still shrink and be deleted.
#[tokio::test]
async fn resources_over_a_lowered_limit_can_shrink_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    let pad = "x".repeat(30_000);
    let pairs = [("finalizers", "f g"), ("pad", pad.as_str())];
    server.write(noted(concept("large"), &pairs)).await.unwrap();
    assert!(server.stop().await.success());
    let server = Setup::new().data_dir(dir.path()).env("MORTISE_STORE_MAX_RESOURCE_BYTES", 20_000).start().await;
    let large = id("demo.v1.Concept", "large");
    let grown = noted(concept("large"), &[pairs.as_slice(), &[("more", "y")]].concat());
    assert_eq!(refusal(server.write(grown).await).0, Code::InvalidArgument);
    let shorter = [("finalizers", "f g"), ("pad", &pad[1..])];
    server.write(noted(concept("large"), &shorter)).await.unwrap();
    server.delete(&large, "").await.unwrap();
    for left in ["g", ""] {
        let mut stored = server.read(&large).await.unwrap();
        stored.metadata.insert("finalizers".into(), left.into());
        server.write(stored).await.unwrap();
    }
    assert!(is_gone(&server, &large).await);
}
