//! Watches of one resource.

use mortise_resource::{
    data::{WatchResourceRequest, resource_change::ChangeType},
    goten::View,
    pb,
};
use tokio::time::timeout;
use tonic::Code;

use super::{CONCEPT, LONG, concept, watches};
use crate::support::{Server, id, id_of, refusal};

#[tokio::test]
async fn one_resource_is_watched_over_its_ends() {
    let server = Server::start().await;
    let request = |name: &str| WatchResourceRequest { id: Some(id(CONCEPT, name)), ..WatchResourceRequest::default() };
    let absent = watches(&server).await.watch_resource(request("c")).await;
    assert_eq!(refusal(absent.map(drop)).0, Code::NotFound);
    let first = server.write(concept("c", &[], &[])).await.unwrap();
    server.write(concept("c2", &[], &[])).await.unwrap();
    let mut whole = watches(&server).await.watch_resource(request("c")).await.unwrap().into_inner();
    let with_uid = WatchResourceRequest { id: first.id.clone(), ..WatchResourceRequest::default() };
    let mut this = watches(&server).await.watch_resource(with_uid).await.unwrap().into_inner();
    let masked = WatchResourceRequest { view: View::Name.into(), ..request("c") };
    let mut masked = watches(&server).await.watch_resource(masked).await.unwrap().into_inner();

    let changed = server.write(concept("c", &[], &[("k", "v")])).await.unwrap();
    server.write(concept("c2", &[], &[("k", "v")])).await.unwrap();
    server.delete(&id_of(&changed), "").await.unwrap();
    let again = server.write(concept("c", &[], &[])).await.unwrap();
    let uid = |resource: Option<pb::Resource>| resource.unwrap().id.unwrap().uid;
    let (old, new) = (first.id.clone().unwrap().uid, again.id.clone().unwrap().uid);
    for (stream, expected) in [
        (&mut whole, vec![format!("+{old}"), format!("~{old}"), format!("-{old}"), format!("+{new}")]),
        (&mut this, vec![format!("+{old}"), format!("~{old}"), format!("-{old}")]),
        (&mut masked, vec![format!("+{old}"), format!("-{old}"), format!("+{new}")]),
    ] {
        let mut told = Vec::new();
        for _ in &expected {
            let message = timeout(LONG, stream.message()).await.expect("a message in time");
            told.push(match message.unwrap().unwrap().change.unwrap().change_type.unwrap() {
                ChangeType::Added(added) => format!("+{}", uid(added.resource)),
                ChangeType::Modified(modified) => format!("~{}", uid(modified.resource)),
                ChangeType::Removed(removed) => format!("-{}", removed.name.unwrap().uid),
                ChangeType::Current(current) => panic!("{current:?}"),
            });
        }
        assert_eq!(told, expected);
    }
    assert!(server.stop().await.success());
    for stream in [&mut whole, &mut this, &mut masked] {
        assert!(stream.message().await.is_err(), "that was all, until the server stopped");
    }
}
