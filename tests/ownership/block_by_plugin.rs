//! Protection from deletion that a type's plugin sets: by its mutate hook, and by its controllers.

use mortise_api::QueryServiceClient;
use mortise_resource::{
    data::UpdateRequest,
    goten::{Lifecycle, Meta},
    pb,
};
use mortise_test_guests::Thing;
use prost_types::FieldMask;
use tonic::Code;

use crate::support::{Server, Setup, artist, eventually, id, id_of, refusal, thing};

const THING: &str = "changes.v1.Thing";

fn said(name: &str, text: &str, items: &[&str]) -> pb::Resource {
    let items = items.iter().map(|item| (*item).to_owned()).collect();
    thing("changes", name, &Thing { text: text.into(), items, ..Thing::default() })
}

fn is_blocked(resource: &pb::Resource) -> bool {
    resource.meta.as_ref().and_then(|meta| meta.lifecycle).is_some_and(|lifecycle| lifecycle.block_deletion)
}

fn blocking() -> Option<Box<Meta>> {
    let lifecycle = Some(Lifecycle { block_deletion: true, ..Lifecycle::default() });
    Some(Box::new(Meta { lifecycle, ..Meta::default() }))
}

async fn is_refused(server: &Server, name: &str) -> bool {
    match server.delete(&id(THING, name), "").await {
        Ok(()) => false,
        refused => {
            let (code, text) = refusal(refused);
            assert_eq!(code, Code::FailedPrecondition, "{text}");
            assert!(text.contains("meta.lifecycle.block_deletion of changes.v1.Thing"), "{text}");
            true
        }
    }
}

#[tokio::test]
async fn a_mutate_hook_holds_a_deletion_back() {
    let server = Setup::new().guest("changes").start().await;
    assert!(is_blocked(&server.write(said("a", "block", &[])).await.unwrap()), "of a new resource");
    assert!(is_refused(&server, "a").await);
    // A hook that says nothing keeps the protection.
    assert!(is_blocked(&server.write(said("a", "other", &[])).await.unwrap()));
    assert!(!is_blocked(&server.write(said("a", "free", &[])).await.unwrap()));
    assert!(is_blocked(&server.write(said("a", "block", &[])).await.unwrap()), "of a stored one");
    server.write(said("a", "free", &[])).await.unwrap();
    assert!(!is_refused(&server, "a").await);
}

/// The hook runs once, so a write that loses to others and tries again keeps the protection that it asked for.
#[tokio::test]
async fn a_mutate_hook_holds_a_deletion_back_also_when_writes_conflict() {
    let server = Setup::new().guest("changes").start().await;
    for round in 0..8 {
        server.write(said("a", "free", &[])).await.unwrap();
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..16 {
            let mut client = server.client();
            let resource = said("a", if writer == 8 { "block" } else { "other" }, &[]);
            writers.spawn(async move {
                let written = client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap();
                assert!(writer != 8 || is_blocked(&written.into_inner().resource.unwrap()), "round {round}");
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer.unwrap();
        }
        assert!(is_blocked(&server.read(&id(THING, "a")).await.unwrap()), "round {round}");
    }
}

/// A hook that protects what is protected already means it: a write that lost to the end of the protection protects
/// again, and the other way round.
#[tokio::test]
async fn the_last_hook_decides_about_the_protection_whatever_came_before() {
    let server = Setup::new().guest("changes").start().await;
    let words = ["block", "free", "other"];
    for round in 0..8 {
        server.write(said("a", words[round % 2], &[])).await.unwrap();
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..18 {
            let (mut client, word) = (server.client(), words[writer % 3]);
            writers.spawn(async move {
                let resource = Some(said("a", word, &[]));
                let written = client.write(pb::WriteRequest { resource }).await.unwrap().into_inner().resource.unwrap();
                (written.version.parse::<u64>().unwrap(), word, is_blocked(&written))
            });
        }
        let mut all = writers.join_all().await;
        all.sort_unstable();
        let mut expected = round % 2 == 0;
        for (version, word, blocked) in all {
            expected = if word == "other" { expected } else { word == "block" };
            assert_eq!(blocked, expected, "round {round}: {word} at {version}");
        }
        assert_eq!(is_blocked(&server.read(&id(THING, "a")).await.unwrap()), expected, "round {round}");
    }
}

#[tokio::test]
async fn a_controller_holds_a_deletion_back() {
    let server = Setup::new().guest("changes").start().await;
    server.write(said("a", "x", &["block"])).await.unwrap();
    eventually("it is protected", async || is_blocked(&server.read(&id(THING, "a")).await.unwrap())).await;
    assert!(is_refused(&server, "a").await);
    server.write(said("a", "x", &["free"])).await.unwrap();
    eventually("it is free", async || !is_blocked(&server.read(&id(THING, "a")).await.unwrap())).await;
    assert!(!is_refused(&server, "a").await);
}

#[tokio::test]
async fn a_client_that_sets_the_protection_in_vain_is_warned() {
    let server = Setup::new().guest("changes").start().await;
    let warned = |warnings: &[mortise_resource::Diagnostic]| {
        warnings
            .iter()
            .any(|one| one.path == "meta.lifecycle.block_deletion" && one.summary.contains("mortise protect"))
    };
    for resource in [said("a", "x", &[]), artist("korn")] {
        let written = server.write_full(pb::Resource { meta: blocking(), ..resource.clone() }).await.unwrap();
        assert!(warned(&written.warnings), "{:?}", written.warnings);
        let stored = written.resource.unwrap();
        assert!(!is_blocked(&stored));
        let update_mask = Some(FieldMask { paths: vec!["meta.lifecycle.blockDeletion".to_owned()] });
        let request = UpdateRequest {
            resource: Some(pb::Resource { id: resource.id.clone(), meta: blocking(), ..pb::Resource::default() }),
            update_mask,
            ..UpdateRequest::default()
        };
        let updated = QueryServiceClient::new(server.channel().await).update(request).await.unwrap().into_inner();
        assert!(warned(&updated.warnings), "{:?}", updated.warnings);
        assert!(!is_blocked(&server.read(&id_of(&stored)).await.unwrap()));
    }
    // What is protected already is not set in vain.
    let protected = server.write(said("b", "block", &[])).await.unwrap();
    let again = pb::Resource { meta: protected.meta, ..said("b", "y", &[]) };
    let again = server.write_full(again).await.unwrap();
    assert!(!warned(&again.warnings), "{:?}", again.warnings);
}
