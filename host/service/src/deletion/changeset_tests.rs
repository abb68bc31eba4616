//! A deletion with its cascades is one changeset of every watch.

use std::time::Duration;

use mortise_resource::{
    data::{WatchResourcesRequest, WatchResourcesResponse},
    goten::WatchType,
    pb,
};

use super::test_graph::{Here, Node, id, node};
use crate::ResourcesChanges;

/// A number above that of one message, and above that of the changes that a watch examines without a pause.
const CASCADES: usize = 300;

async fn changeset(watch: &mut ResourcesChanges) -> Vec<WatchResourcesResponse> {
    let mut messages = Vec::new();
    loop {
        let message = watch.next().await.unwrap();
        let is_current = message.is_current;
        messages.push(message);
        if is_current {
            return messages;
        }
    }
}

async fn top(here: &Here, name: &str, cascades: usize) {
    here.write(node(name, &Node::default(), Vec::new())).await.unwrap();
    for n in 0..cascades {
        let data = Node { cascade: vec![name.to_owned()], ..Node::default() };
        here.write(node(&format!("{name}-{n}"), &data, Vec::new())).await.unwrap();
    }
}

async fn watch(here: &Here, kind: WatchType, chunk: i32) -> ResourcesChanges {
    let request = WatchResourcesRequest {
        resource_type: id("x").r#type,
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
        r#type: kind.into(),
        page_size: if kind == WatchType::Stateful { 500 } else { 0 },
        max_chunk_size: chunk,
        ..WatchResourcesRequest::default()
    };
    let mut watch = here.service.watch_resources(&here.caller, request).await.unwrap();
    changeset(&mut watch).await;
    watch
}

#[tokio::test]
async fn a_deletion_with_cascades_is_one_changeset() {
    let here = Here::new(Duration::from_secs(3_600), None);
    for (kind, chunk) in
        [(WatchType::Stateless, 0), (WatchType::Stateless, 7), (WatchType::Stateful, 0), (WatchType::Stateful, 7)]
    {
        let name = format!("top-{}-{chunk}", kind as i32);
        top(&here, &name, CASCADES).await;
        let mut watch = watch(&here, kind, chunk).await;
        here.delete(&name).await.unwrap();
        let messages = changeset(&mut watch).await;
        let changes: usize = messages.iter().map(|message| message.changes.len()).sum();
        assert_eq!(changes, CASCADES + 1, "{kind:?} {chunk}");
        let (last, parts) = messages.split_last().unwrap();
        let is_part = |message: &WatchResourcesResponse| {
            message.resume_token.is_empty() && message.page_token_change.is_none() && !message.changes.is_empty()
        };
        assert!(parts.iter().all(is_part), "{kind:?} {chunk}");
        assert_eq!(last.resume_token.is_empty(), kind == WatchType::Stateful);
        let most = if chunk == 0 { 100 } else { 7 };
        let is_small = messages.iter().all(|message| message.changes.len() <= most);
        assert!(is_small || (kind == WatchType::Stateful && chunk == 0), "{kind:?} {chunk}");
    }
}

/// A deletion changes a row of a small page, and removes another, so that the page is read again in between.
#[tokio::test]
async fn a_page_that_is_read_again_amid_a_commit_shows_no_part_of_it() {
    let here = Here::new(Duration::from_secs(3_600), None);
    for name in ["m", "n", "o", "p"] {
        here.write(node(name, &Node::default(), Vec::new())).await.unwrap();
    }
    here.write(node("a", &Node { unset: vec!["m".into()], ..Node::default() }, Vec::new())).await.unwrap();
    let request = WatchResourcesRequest {
        resource_type: id("x").r#type,
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
        page_size: 3,
        ..WatchResourcesRequest::default()
    };
    let mut watch = here.service.watch_resources(&here.caller, request).await.unwrap();
    changeset(&mut watch).await;
    here.delete("m").await.unwrap();
    // "a" changes, "m" goes, and "o" comes.
    let changes: usize = changeset(&mut watch).await.iter().map(|message| message.changes.len()).sum();
    assert_eq!(changes, 3);
}
