//! Watches by content: pages with positions, all matching resources with resume tokens, and one resource.

mod access;
mod all_matching;
mod one_resource;
mod pace;
mod page;

use std::{collections::BTreeMap, time::Duration};

use mortise_api::{QueryServiceClient, WatchServiceClient};
use mortise_resource::{
    data::{ResourceChange, SearchRequest, WatchResourcesRequest, WatchResourcesResponse, resource_change::ChangeType},
    goten::{Meta, WatchType},
    pb,
};
use tokio::time::timeout;
use tonic::{Status, Streaming, transport::Channel};

use crate::support::{Server, gvk, noted};

const CONCEPT: &str = "demo.v1.Concept";
/// Time limit for expected messages.
const LONG: Duration = Duration::from_secs(30);

async fn watches(server: &Server) -> WatchServiceClient<Channel> {
    WatchServiceClient::new(server.channel().await)
}

fn stateless(filter: &str) -> WatchResourcesRequest {
    WatchResourcesRequest {
        r#type: WatchType::Stateless.into(),
        resource_type: Some(gvk(CONCEPT)),
        filter: filter.into(),
        ..WatchResourcesRequest::default()
    }
}

/// A concept, whose data is a message without fields; queries use its meta and metadata.
fn concept(name: &str, labels: &[(&str, &str)], metadata: &[(&str, &str)]) -> pb::Resource {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let meta = Meta { labels, ..Meta::default() };
    noted(pb::Resource { meta: Some(Box::new(meta)), ..crate::support::concept(name) }, metadata)
}

/// A watch of all matching resources, and its client's state.
struct Client {
    stream: Streaming<WatchResourcesResponse>,
    has: BTreeMap<String, pb::Resource>,
    token: String,
    /// Names in messages since the last current one; removed names with a minus.
    came: Vec<String>,
    /// Messages since then.
    messages: usize,
}

impl Client {
    async fn open(server: &Server, request: WatchResourcesRequest) -> Result<Self, Status> {
        let stream = watches(server).await.watch_resources(request).await?.into_inner();
        Ok(Self { stream, has: BTreeMap::new(), token: String::new(), came: Vec::new(), messages: 0 })
    }

    async fn message(&mut self) -> WatchResourcesResponse {
        let message = timeout(LONG, self.stream.message()).await.expect("a message comes").unwrap().unwrap();
        assert_eq!(message.snapshot_size, -1, "{message:?}");
        assert_eq!(message.page_token_change, None);
        assert_eq!(message.is_current, !message.resume_token.is_empty(), "{message:?}");
        let kinds = [message.is_current, message.is_soft_reset, message.is_hard_reset];
        assert!(kinds.iter().filter(|is| **is).count() <= 1, "{message:?}");
        message
    }

    /// Reads up to a message that is current and not a reset.
    async fn current(&mut self) -> Vec<String> {
        self.came.clear();
        self.messages = 0;
        loop {
            let message = self.message().await;
            assert!(!message.is_hard_reset && !message.is_soft_reset);
            self.messages += 1;
            for change in &message.changes {
                match change.change_type.as_ref().unwrap() {
                    ChangeType::Current(current) => {
                        let resource = current.resource.clone().unwrap();
                        let name = resource.id.as_ref().unwrap().name.clone();
                        self.came.push(name.clone());
                        self.has.insert(name, resource);
                    }
                    ChangeType::Removed(removed) => {
                        let name = removed.name.as_ref().unwrap().name.clone();
                        assert_eq!(removed.view_index, 0);
                        self.came.push(format!("-{name}"));
                        self.has.remove(&name);
                    }
                    other => panic!("{other:?} in STATELESS"),
                }
            }
            if message.is_current {
                self.token = message.resume_token;
                return self.came.clone();
            }
        }
    }
}

fn stateful(filter: &str, order_by: &str, page_size: i32) -> WatchResourcesRequest {
    WatchResourcesRequest {
        r#type: WatchType::Stateful.into(),
        resource_type: Some(gvk(CONCEPT)),
        filter: filter.into(),
        order_by: order_by.into(),
        page_size,
        ..WatchResourcesRequest::default()
    }
}

/// A watch of a page, and its client's state.
struct PageClient {
    stream: Streaming<WatchResourcesResponse>,
    request: WatchResourcesRequest,
    rows: Vec<pb::Resource>,
    tokens: (String, String),
}

impl PageClient {
    async fn open(server: &Server, request: WatchResourcesRequest) -> Self {
        let stream = watches(server).await.watch_resources(request.clone()).await.unwrap().into_inner();
        Self { stream, request, rows: Vec::new(), tokens: Default::default() }
    }

    /// Reads up to a message that is current. Returns the number of messages.
    async fn current(&mut self) -> usize {
        for messages in 1.. {
            let message = timeout(LONG, self.stream.message()).await.expect("a message comes").unwrap().unwrap();
            assert!(message.snapshot_size == -1 && message.resume_token.is_empty());
            assert!(!message.is_hard_reset && !message.is_soft_reset);
            for change in message.changes {
                self.apply(change);
            }
            if let Some(tokens) = message.page_token_change {
                assert!(message.is_current);
                self.tokens = (tokens.prev_page_token, tokens.next_page_token);
            }
            if message.is_current {
                return messages;
            }
        }
        unreachable!()
    }

    fn apply(&mut self, change: ResourceChange) {
        let at = |index: i32| usize::try_from(index).unwrap();
        match change.change_type.unwrap() {
            ChangeType::Added(added) => self.rows.insert(at(added.view_index), added.resource.unwrap()),
            ChangeType::Removed(removed) => {
                let gone = self.rows.remove(at(removed.view_index));
                assert_eq!(gone.id, removed.name);
            }
            ChangeType::Modified(modified) => {
                let old = self.rows.remove(at(modified.previous_view_index));
                assert_eq!(old.id, modified.name);
                self.rows.insert(at(modified.view_index), modified.resource.unwrap());
            }
            ChangeType::Current(current) => panic!("{current:?} in STATEFUL"),
        }
    }

    /// The page of a search, with its tokens.
    async fn page(&self, server: &Server) -> (Vec<pb::Resource>, (String, String)) {
        let request = SearchRequest {
            r#type: self.request.resource_type.clone(),
            filter: self.request.filter.clone(),
            order_by: self.request.order_by.clone(),
            page_size: self.request.page_size,
            page_token: self.request.page_token.clone(),
            field_mask: self.request.field_mask.clone(),
            view: self.request.view,
            ..SearchRequest::default()
        };
        let answer = QueryServiceClient::new(server.channel().await).search(request).await.unwrap().into_inner();
        (answer.resources, (answer.prev_page_token, answer.next_page_token))
    }
}
