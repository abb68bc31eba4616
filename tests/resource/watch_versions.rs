//! Watches of one GroupVersion while a resource is written under another one: every kind of watch hears a deletion.

use std::process::Stdio;

use mortise_api::WatchServiceClient;
use mortise_resource::{
    data::{WatchResourceRequest, WatchResourcesRequest, resource_change::ChangeType},
    goten::WatchType,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::timeout,
};

use super::artist_v1;
use crate::support::{PATIENCE, Server, artist, gvk, http::Events, id, id_of, transcript::Transcript};

const V1: &str = "demo.v1.Artist";
const V2: &str = "demo.v2.Artist";

#[tokio::test]
async fn a_resource_that_leaves_its_group_version_is_deleted_for_watches_of_it() {
    let server = Server::start().await;
    let korn = server.write(artist_v1("korn")).await.unwrap();
    let mut watches = [server.watch(gvk(V1), None, "").await.unwrap(), server.watch(gvk(V2), None, "").await.unwrap()];
    assert_eq!(watches[0].snapshot().await, std::slice::from_ref(&korn));
    assert_eq!(watches[1].snapshot().await, []);

    let moved = server.write(artist("korn")).await.unwrap();
    assert_eq!(watches[0].deleted().await, korn, "as it was last stored");
    assert_eq!(watches[1].upsert().await, moved);
    let again = server.write(artist("korn")).await.unwrap();
    assert_eq!(watches[1].upsert().await, again);
    server.delete(&id_of(&again), "").await.unwrap();
    assert_eq!(watches[1].deleted().await, again);
    // The watch of the former version heard nothing of the rest, and of creations under the other one.
    server.write(artist("other")).await.unwrap();
    watches[0].shows_next(&server, artist_v1("marker")).await;
    // There and back.
    let there = server.write(artist("marker")).await.unwrap();
    let back = server.write(artist_v1("marker")).await.unwrap();
    watches[0].deleted().await;
    assert_eq!(watches[0].upsert().await, back);
    assert_eq!(watches[1].upsert().await.id.unwrap().name, "other");
    assert_eq!(watches[1].upsert().await, there);
    assert_eq!(watches[1].deleted().await, there);
}

#[tokio::test]
async fn so_it_is_over_http_on_the_command_line_and_for_queries() {
    let server = Server::start().await;
    server.write(artist_v1("korn")).await.unwrap();
    let mut streams = [
        Events::open(&server, "/api/demo/v1/artist?watch").await,
        Events::open(&server, "/api/demo/v1/artist/korn?watch").await,
        Events::open(&server, "/api/demo/v1/artist?watch&filter=id.name%3D%22korn%22").await,
    ];
    for stream in &mut streams {
        assert_eq!(stream.snapshot().await, ["korn"]);
    }
    let t = Transcript::new("watch_versions", &server);
    let mut lines = Vec::new();
    let mut children = Vec::new();
    for args in [&["get", V1, "--watch", "-o", "json"][..], &["get", V1, "korn", "--watch", "-o", "json"]] {
        let mut child = t.command(args).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        lines.push(BufReader::new(child.stdout.take().unwrap()).lines());
        children.push(child);
    }
    let mut clients = WatchServiceClient::new(server.channel().await);
    let of_type = |kind: WatchType| WatchResourcesRequest {
        r#type: kind.into(),
        resource_type: Some(gvk(V1)),
        page_size: if kind == WatchType::Stateful { 10 } else { 0 },
        ..WatchResourcesRequest::default()
    };
    let mut queries = Vec::new();
    for kind in [WatchType::Stateless, WatchType::Stateful] {
        let mut query = clients.watch_resources(of_type(kind)).await.unwrap().into_inner();
        while !timeout(PATIENCE, query.message()).await.unwrap().unwrap().unwrap().is_current {}
        queries.push(query);
    }
    let one = WatchResourceRequest { id: Some(id(V1, "korn")), ..WatchResourceRequest::default() };
    let mut one = clients.watch_resource(one).await.unwrap().into_inner();
    timeout(PATIENCE, one.message()).await.unwrap().unwrap().unwrap();
    let mut said = async |of: usize| -> (String, String) {
        let line = timeout(PATIENCE, lines[of].next_line()).await.expect("in time").unwrap().expect("it goes on");
        let line: Value = serde_json::from_str(&line).unwrap();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (word(&line["event"]), word(&line["resource"]["id"]["type"]["groupVersion"]))
    };
    for of in 0..2 {
        assert_eq!(said(of).await, ("present".to_owned(), "v1".to_owned()));
    }

    server.write(artist("korn")).await.unwrap();
    server.delete(&id(V2, "korn"), "").await.unwrap();
    for (n, stream) in streams.iter_mut().enumerate() {
        let sent = stream.next().await.unwrap();
        assert_eq!(sent.about(), ("delete", "korn".to_owned()), "{n}: {}", sent.data);
    }
    for of in 0..2 {
        assert_eq!(said(of).await, ("deleted".to_owned(), "v1".to_owned()));
    }
    for mut query in queries {
        let removed = loop {
            let message = timeout(PATIENCE, query.message()).await.unwrap().unwrap().unwrap();
            if let Some(change) = message.changes.into_iter().next() {
                break change;
            }
        };
        assert!(matches!(removed.change_type, Some(ChangeType::Removed(_))), "{removed:?}");
    }
    let gone = timeout(PATIENCE, one.message()).await.unwrap().unwrap().unwrap();
    let change = gone.change.and_then(|change| change.change_type);
    assert!(matches!(change, Some(ChangeType::Removed(_))), "{change:?}");
    drop(children);
}
