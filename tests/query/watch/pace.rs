//! Watches that evaluate every change: their caller pays, and they lose nothing.

use mortise_resource::{
    data::{WatchResourceRequest, resource_change::ChangeType},
    goten::View,
    pb,
};
use tokio::time::timeout;

use super::{CONCEPT, Client, LONG, PageClient, concept, stateful, stateless, watches};
use crate::support::{Server, any, artist, demo, gvk, id, id_of, tenancy};

/// Waits of watches for their caller's share.
async fn paced(server: &Server) -> f64 {
    server.metric("mortise_watches_paced_total").await.unwrap_or_default()
}

/// Each write concerns every watch, but the store cannot look up their condition.
#[tokio::test]
async fn watches_that_evaluate_every_change_wait_for_their_callers_share_and_lose_nothing() {
    let server = Server::start().await;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut client = Client::open(&server, stateless(r#"NOT metadata.n = "none""#)).await.unwrap();
        client.current().await;
        crowd.push(client);
    }
    let mut page = PageClient::open(&server, stateful(r#"NOT metadata.n = "none""#, "name", 1)).await;
    page.current().await;
    for n in 1..=60 {
        server.write(concept("c", &[], &[("n", &n.to_string())])).await.unwrap();
    }
    for client in &mut crowd {
        while client.has.get("c").is_none_or(|has| has.metadata["n"] != "60") {
            client.current().await;
        }
    }
    while page.rows.first().is_none_or(|row| row.metadata["n"] != "60") {
        page.current().await;
    }
    assert!(paced(&server).await > 100.0, "waits for 12,000 evaluations");
}

/// A list of another GroupVersion skips each change.
#[tokio::test]
async fn watches_that_skip_changes_lose_nothing() {
    let server = Server::start().await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut watch = server.watch(gvk("demo.v1.Artist"), Some(tenancy("*", "*")), "").await.unwrap();
        watch.snapshot().await;
        crowd.push(watch);
    }
    for n in 0..60 {
        server.write(artist(&format!("a{n}"))).await.unwrap();
    }
    let data =
        any("hashicorp.consul.internal.demo.v1.Artist", &demo::v1::Artist { name: "One".into(), ..Default::default() });
    let one = pb::Resource { id: Some(id("demo.v1.Artist", "one")), data: Some(data), ..pb::Resource::default() };
    server.write(one).await.unwrap();
    for watch in &mut crowd {
        assert_eq!(watch.upsert().await.id.unwrap().name, "one");
    }
}

/// Changes elsewhere do not wake a watch, so there is nothing to pay for.
#[tokio::test]
async fn watches_of_other_places_cost_their_caller_nothing() {
    let server = Server::start().await;
    let mut crowd = Vec::new();
    for (within, prefix) in
        [(tenancy("*", "*"), "z"), (tenancy("default", "elsewhere"), ""), (tenancy("*", "elsewhere"), "")]
    {
        for _ in 0..70 {
            let mut watch = server.watch(gvk("demo.v2.Artist"), Some(within.clone()), prefix).await.unwrap();
            watch.snapshot().await;
            crowd.push(watch);
        }
    }
    for n in 0..60 {
        server.write(artist(&format!("a{n}"))).await.unwrap();
    }
    server.write(artist("z")).await.unwrap();
    for watch in crowd.iter_mut().take(70) {
        assert_eq!(watch.upsert().await.id.unwrap().name, "z");
    }
    assert!(paced(&server).await < 1.0);
}

/// The mask hides each change, so only the removal is sent.
#[tokio::test]
async fn watches_of_one_resource_wait_for_their_callers_share_and_lose_nothing() {
    let server = Server::start().await;
    let first = server.write(concept("c", &[], &[])).await.unwrap();
    let request =
        WatchResourceRequest { id: Some(id(CONCEPT, "c")), view: View::Name.into(), ..WatchResourceRequest::default() };
    let mut client = watches(&server).await;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut stream = client.watch_resource(request.clone()).await.unwrap().into_inner();
        stream.message().await.unwrap().expect("the resource");
        crowd.push(stream);
    }
    for n in 0..60 {
        server.write(concept("c", &[], &[("n", &n.to_string())])).await.unwrap();
    }
    server.delete(&id_of(&first), "").await.unwrap();
    for stream in &mut crowd {
        let message = timeout(LONG, stream.message()).await.expect("a message in time").unwrap().unwrap();
        assert!(matches!(message.change.unwrap().change_type, Some(ChangeType::Removed(_))));
    }
    assert!(paced(&server).await > 100.0, "waits for 12,000 evaluations");
}
