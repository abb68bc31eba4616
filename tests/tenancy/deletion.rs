//! Deletion of partitions and namespaces: everything in them is deleted, nothing else is, and new resources are refused
//! meanwhile.

use crate::support::{
    Server, Setup, artist, at, concept, eventually, gvk, id, id_in, id_of, invalid, is_gone, label, make_place, noted,
    owned, places, refusal, resource, tenancy, until_gone,
};
use mortise_resource::pb;
use tokio::task::JoinSet;
use tonic::Code;

const CONCEPT: &str = "demo.v1.Concept";
const LABEL: &str = "demo.v1.RecordLabel";
const NAMESPACE: &str = "tenancy.v2beta1.Namespace";

fn partition(name: &str) -> pb::Id {
    id("tenancy.v2beta1.Partition", name)
}

fn namespace(partition: &str, name: &str) -> pb::Id {
    id_in(NAMESPACE, name, partition, "")
}

async fn goes(server: &Server, id: &pb::Id) {
    until_gone(server, id).await;
}

async fn delete_all_of(server: &Server, unit: &pb::Id) {
    server.delete(unit, "").await.unwrap();
    goes(server, unit).await;
}

async fn concepts(server: &Server, partition: &str, namespace: &str) -> Vec<String> {
    places(&server.list(gvk(CONCEPT), tenancy(partition, namespace), "").await.unwrap())
}

async fn is_marked(server: &Server, id: &pb::Id) -> bool {
    server.read(id).await.unwrap().metadata.contains_key("deletionTimestamp")
}

/// Fills places with a few concepts each.
async fn furnish(server: &Server, where_to: &[(&str, &str)]) {
    for (p, n) in where_to {
        for name in ["a", "b", "c"] {
            server.write(at(concept(name), p, n)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_namespace_takes_its_content_and_nothing_else() {
    let server = Server::start().await;
    let kept = [("default", "default"), ("default", "n-1"), ("default", "n1"), ("p", "n"), ("p", "default")];
    for (p, n) in [("default", "n"), ("default", "n-1"), ("default", "n1"), ("p", "n")] {
        make_place(&server, p, n).await;
    }
    furnish(&server, &kept).await;
    furnish(&server, &[("default", "n")]).await;
    server.write(at(artist("korn"), "default", "n")).await.unwrap();
    server.write(label("n", "")).await.unwrap();
    server.write(resource(id("demo.v1.Executive", "n"), None)).await.unwrap();

    delete_all_of(&server, &namespace("default", "n")).await;
    assert!(concepts(&server, "default", "n").await.is_empty());
    assert!(server.list(gvk("demo.v2.Artist"), tenancy("*", "*"), "").await.unwrap().is_empty());
    for (p, n) in kept {
        assert_eq!(concepts(&server, p, n).await.len(), 3, "{p}/{n}");
    }
    for id in [id(LABEL, "n"), id("demo.v1.Executive", "n"), namespace("p", "n"), namespace("default", "n-1")] {
        assert!(!is_gone(&server, &id).await && !is_marked(&server, &id).await, "{}", id.name);
    }
    let gone = at(concept("x"), "default", "n");
    assert_eq!(refusal(server.write(gone).await), invalid("namespace not found: n"));
    let read = server.read(&id_in(CONCEPT, "a", "default", "n")).await;
    assert_eq!(refusal(read), (Code::NotFound, "namespace not found: n".to_owned()));
    // It can be created again, empty.
    make_place(&server, "default", "n").await;
    server.write(at(concept("new"), "default", "n")).await.unwrap();
    assert_eq!(concepts(&server, "default", "n").await, ["default/n/new"]);
}

#[tokio::test]
async fn a_partition_takes_its_namespaces_along() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    make_place(&server, "p-1", "n").await;
    server.write(resource(namespace("p", "m"), None)).await.unwrap();
    furnish(&server, &[("p", "n"), ("p", "m"), ("p", "default"), ("p-1", "n"), ("default", "default")]).await;
    for p in ["p", "p-1"] {
        server.write(label("x", p)).await.unwrap();
    }
    // A stored `default` namespace is deleted too.
    server.write(resource(namespace("p", "default"), None)).await.unwrap();

    delete_all_of(&server, &partition("p")).await;
    assert!(concepts(&server, "p", "*").await.is_empty());
    for t in [LABEL, NAMESPACE] {
        assert!(server.list(gvk(t), tenancy("p", ""), "").await.unwrap().is_empty(), "{t}");
    }
    assert_eq!(concepts(&server, "*", "*").await.len(), 6);
    assert!(!is_gone(&server, &namespace("p-1", "n")).await);
    assert_eq!(refusal(server.write(at(concept("x"), "p", "n")).await), invalid("partition not found: p"));
    make_place(&server, "p", "default").await;
    assert_eq!(refusal(server.write(at(concept("x"), "p", "n")).await), invalid("namespace not found: n"));
    assert!(concepts(&server, "p", "*").await.is_empty());
}

#[tokio::test]
async fn empty_units_and_many_at_once() {
    let server = Server::start().await;
    let mut deletions = JoinSet::new();
    for n in 0..20 {
        let name = format!("n-{n}");
        make_place(&server, "default", &name).await;
        let mut client = server.client();
        let id = Some(namespace("default", &name));
        deletions.spawn(async move { client.delete(pb::DeleteRequest { id, version: String::new() }).await });
    }
    assert!(deletions.join_all().await.iter().all(Result::is_ok));
    eventually("all are gone", || async {
        server.list(gvk(NAMESPACE), tenancy("*", ""), "").await.unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_version_counts_and_repeating_does_no_harm() {
    let server = Server::start().await;
    let old = server.write(resource(namespace("", "n"), None)).await.unwrap();
    let new = server.write(noted(resource(namespace("", "n"), None), &[("k", "v")])).await.unwrap();
    furnish(&server, &[("", "n")]).await;
    assert_eq!(refusal(server.delete(&namespace("", "n"), &old.version).await).0, Code::Aborted);
    server.delete(&pb::Id { uid: "other".into(), ..namespace("", "n") }, "").await.unwrap();
    assert!(!is_marked(&server, &namespace("", "n")).await);
    assert_eq!(concepts(&server, "", "n").await.len(), 3);
    server.delete(&id_of(&new), &new.version).await.unwrap();
    for _ in 0..5 {
        server.delete(&namespace("", "n"), "").await.unwrap();
    }
    goes(&server, &namespace("", "n")).await;
}

/// A namespace that is being deleted, and waits for `held` in it.
async fn held_namespace(server: &Server, p: &str, n: &str) -> pb::Resource {
    make_place(server, p, n).await;
    let held = noted(at(concept("held"), p, n), &[("finalizers", "one two")]);
    let held = id_of(&server.write(held).await.unwrap());
    furnish(server, &[(p, n)]).await;
    server.delete(&namespace(p, n), "").await.unwrap();
    eventually("the held resource is marked", || is_marked(server, &held)).await;
    eventually("the rest goes", || async { concepts(server, p, n).await.len() == 1 }).await;
    server.read(&held).await.unwrap()
}

#[tokio::test]
async fn a_child_with_a_finalizer_holds_it() {
    let server = Server::start().await;
    let held = held_namespace(&server, "p", "n").await;
    let unit = namespace("p", "n");
    assert!(is_marked(&server, &unit).await);

    // New resources are refused.
    let new = at(concept("new"), "p", "n");
    let expected = invalid(r#"tenancy marked for deletion: partition:"p" namespace:"n""#);
    assert_eq!(refusal(server.write(new.clone()).await), expected);
    assert_eq!(refusal(server.write(owned(new.clone(), &id_of(&held))).await), expected);
    assert_eq!(refusal(server.mutate_and_validate(new).await), invalid("tenancy marked for deletion: p/n"));
    // A held resource can be read, listed, given a status, and freed from finalizers, but not changed.
    assert_eq!(concepts(&server, "p", "n").await, ["p/n/held"]);
    let status = pb::Status { observed_generation: held.generation.clone(), ..Default::default() };
    let request =
        pb::WriteStatusRequest { id: held.id.clone(), key: "k".into(), status: Some(status), ..Default::default() };
    assert!(server.write_status(request).await.unwrap().status.contains_key("k"));
    let change = |pairs| noted(at(concept("held"), "p", "n"), pairs);
    let written = server.write(change(&[("finalizers", "one two"), ("k", "v")])).await;
    assert_eq!(refusal(written), invalid("cannot modify metadata"));
    let written = server.write(change(&[("finalizers", "one two three")])).await;
    assert_eq!(refusal(written), invalid("expected at least one finalizer to be removed"));
    server.write(change(&[("finalizers", "two")])).await.unwrap();
    assert!(is_marked(&server, &unit).await && is_marked(&server, &id_of(&held)).await);
    // Other places are not affected.
    server.write(at(concept("x"), "p", "default")).await.unwrap();
    // The unit itself cannot be restored.
    let written = server.write(resource(unit.clone(), None)).await;
    assert_eq!(refusal(written), invalid("cannot no-op write resource marked for deletion"));
    let mut rescued = server.read(&unit).await.unwrap();
    rescued.metadata.remove("deletionTimestamp");
    assert_eq!(refusal(server.write(rescued).await), invalid("cannot remove deletionTimestamp"));

    server.write(change(&[("finalizers", "")])).await.unwrap();
    goes(&server, &unit).await;
    assert!(concepts(&server, "p", "n").await.is_empty());
}

#[tokio::test]
async fn a_held_partition_closes_everything_in_it() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    let held = noted(at(concept("held"), "p", "default"), &[("finalizers", "one")]);
    let held = id_of(&server.write(held).await.unwrap());
    server.delete(&partition("p"), "").await.unwrap();
    let text = "tenancy marked for deletion:";
    let written = server.write(at(concept("x"), "p", "default")).await;
    assert_eq!(refusal(written), invalid(format!(r#"{text} partition:"p" namespace:"default""#)));
    let written = server.write(label("x", "p")).await;
    assert_eq!(refusal(written), invalid(format!(r#"{text} partition:"p""#)));
    let written = server.write(resource(namespace("p", "new"), None)).await;
    assert_eq!(refusal(written), invalid(format!(r#"{text} partition:"p""#)));
    let judged = server.mutate_and_validate(at(concept("x"), "p", "")).await;
    assert_eq!(refusal(judged), invalid(format!("{text} p/default")));
    goes(&server, &namespace("p", "n")).await;
    assert!(!is_gone(&server, &partition("p")).await && !is_gone(&server, &held).await);
    server.write(noted(at(concept("held"), "p", "default"), &[("finalizers", " ")])).await.unwrap();
    goes(&server, &partition("p")).await;
}

#[tokio::test]
async fn updates_are_refused_from_the_moment_it_is_marked() {
    let server = Server::start().await;
    make_place(&server, "default", "n").await;
    for n in 0..200 {
        let one = noted(at(concept(&format!("x-{n}")), "", "n"), &[("finalizers", "me")]);
        server.write(one).await.unwrap();
    }
    server.delete(&namespace("", "n"), "").await.unwrap();
    let mut tasks = JoinSet::new();
    for n in (0..200).rev() {
        let mut client = server.client();
        let resource = noted(at(concept(&format!("x-{n}")), "", "n"), &[("finalizers", "me"), ("k", "v")]);
        tasks.spawn(async move { client.write(pb::WriteRequest { resource: Some(resource) }).await });
    }
    let place = r#"partition:"default" namespace:"n""#;
    // The error depends on whether the resource itself is marked already.
    let expected = [
        invalid(format!("cannot write resource when tenancy marked for deletion: {place}")),
        invalid("cannot modify metadata"),
    ];
    for written in tasks.join_all().await {
        let found = refusal(written);
        assert!(expected.contains(&found), "{found:?}");
    }
}

#[tokio::test]
async fn its_own_finalizers_hold_it_too() {
    let server = Server::start().await;
    let unit = noted(resource(namespace("", "n"), None), &[("finalizers", "mine")]);
    server.write(unit.clone()).await.unwrap();
    furnish(&server, &[("", "n")]).await;
    server.delete(&namespace("", "n"), "").await.unwrap();
    eventually("it is emptied", || async { concepts(&server, "", "n").await.is_empty() }).await;
    let expected = invalid(r#"tenancy marked for deletion: partition:"default" namespace:"n""#);
    assert_eq!(refusal(server.write(at(concept("x"), "", "n")).await), expected);
    assert!(is_marked(&server, &namespace("", "n")).await);
    server.write(noted(unit, &[("finalizers", "")])).await.unwrap();
    goes(&server, &namespace("", "n")).await;
}

#[tokio::test]
async fn the_hosts_finalizer_cannot_be_removed() {
    let server = Server::start().await;
    server.write(noted(resource(namespace("", "n"), None), &[("finalizers", "")])).await.unwrap();
    let mut unit = server.read(&namespace("", "n")).await.unwrap();
    unit.metadata.clear();
    let unit = server.write(unit).await.unwrap();
    furnish(&server, &[("", "n")]).await;
    let held = noted(at(concept("held"), "", "n"), &[("finalizers", "me")]);
    let held = id_of(&server.write(held).await.unwrap());
    server.delete(&id_of(&unit), "").await.unwrap();
    eventually("only the held resource is left", || async { concepts(&server, "", "n").await.len() == 1 }).await;
    let marked = server.read(&namespace("", "n")).await.unwrap();
    for finalizers in ["", " "] {
        let mut bare = marked.clone();
        bare.metadata.insert("finalizers".into(), finalizers.into());
        assert_eq!(refusal(server.write(bare).await).0, Code::InvalidArgument);
    }
    assert!(!is_gone(&server, &held).await && !is_gone(&server, &namespace("", "n")).await);
}

#[tokio::test]
async fn marking_by_hand_is_deleting() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    furnish(&server, &[("p", "n")]).await;
    let unit = noted(resource(partition("p"), None), &[("deletionTimestamp", "2026-01-01T00:00:00Z")]);
    server.write(unit).await.unwrap();
    goes(&server, &partition("p")).await;
    assert!(concepts(&server, "*", "*").await.is_empty());
}

#[tokio::test]
async fn resources_elsewhere_that_its_content_owns_follow() {
    let server = Server::start().await;
    make_place(&server, "default", "n").await;
    make_place(&server, "p", "owned").await;
    let owner = id_of(&server.write(at(concept("owner"), "", "n")).await.unwrap());
    let child = id_of(&server.write(owned(concept("child"), &owner)).await.unwrap());
    // A unit can be owned, too.
    let unit = owned(resource(namespace("p", "owned"), None), &child);
    assert_eq!(refusal(server.write(unit).await), invalid("owner cannot be changed"));
    server.write(owned(resource(namespace("p", "follows"), None), &child)).await.unwrap();
    furnish(&server, &[("p", "follows"), ("p", "owned")]).await;
    delete_all_of(&server, &namespace("", "n")).await;
    goes(&server, &child).await;
    goes(&server, &namespace("p", "follows")).await;
    assert_eq!(concepts(&server, "*", "*").await, ["p/owned/a", "p/owned/b", "p/owned/c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_leave_no_orphan() {
    let server = Server::start().await;
    for (round, unit) in [namespace("p", "n"), partition("p"), namespace("p", "n"), partition("p")].iter().enumerate() {
        make_place(&server, "p", "n").await;
        let mut writers = JoinSet::new();
        for worker in 0..8 {
            let mut client = server.client();
            writers.spawn(async move {
                let mut written = 0;
                loop {
                    let resource = Some(at(concept(&format!("x-{round}-{worker}-{written}")), "p", "n"));
                    match client.write(pb::WriteRequest { resource }).await {
                        Ok(_) => written += 1,
                        Err(status) => break (written, status),
                    }
                }
            });
        }
        eventually("there is something", || async { concepts(&server, "p", "n").await.len() > 40 }).await;
        delete_all_of(&server, unit).await;
        assert!(concepts(&server, "p", "n").await.is_empty(), "it is gone, and with it everything in it");
        let outcomes = writers.join_all().await;
        assert!(outcomes.iter().map(|(written, _)| written).sum::<i32>() > 40);
        for (_, status) in outcomes {
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            let text = status.message();
            let allowed = [
                r#"tenancy marked for deletion: partition:"p" namespace:"n""#,
                "namespace not found: n",
                "partition not found: p",
            ];
            assert!(allowed.contains(&text), "{text}");
        }
        assert!(concepts(&server, "*", "*").await.is_empty());
        if round % 2 == 0 {
            delete_all_of(&server, &partition("p")).await;
        }
    }
}

#[tokio::test]
async fn it_goes_on_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Setup::new().data_dir(dir.path()).start().await;
    make_place(&server, "p", "n").await;
    make_place(&server, "default", "n").await;
    let mut tasks = JoinSet::new();
    for n in 0..400 {
        let mut client = server.client();
        let place = if n % 2 == 0 { "p" } else { "default" };
        let resource = Some(at(concept(&format!("x-{n}")), place, "n"));
        tasks.spawn(async move { client.write(pb::WriteRequest { resource }).await });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    let held = noted(at(concept("held"), "p", "n"), &[("finalizers", "me")]);
    let held = server.write(held).await.unwrap();
    server.delete(&namespace("", "n"), "").await.unwrap();
    server.delete(&partition("p"), "").await.unwrap();
    server.child.kill().await.unwrap();
    drop(server);

    let server = Setup::new().data_dir(dir.path()).start().await;
    goes(&server, &namespace("", "n")).await;
    eventually("only the held resource is left", || async { concepts(&server, "*", "*").await == ["p/n/held"] }).await;
    assert!(is_marked(&server, &partition("p")).await);
    let written = server.write(at(concept("x"), "p", "n")).await;
    assert_eq!(refusal(written), invalid(r#"tenancy marked for deletion: partition:"p" namespace:"n""#));
    let mut free = server.read(&id_of(&held)).await.unwrap();
    free.metadata.insert("finalizers".into(), String::new());
    server.write(free).await.unwrap();
    goes(&server, &partition("p")).await;
    assert!(concepts(&server, "*", "*").await.is_empty());
}
