//! Watches by callers with limited rights.

use std::collections::BTreeMap;

use mortise_api::WatchServiceClient;
use mortise_resource::data::{self, WatchResourceRequest, WatchResourcesRequest};
use tokio::time::timeout;
use tonic::Code;

use super::{CONCEPT, Client, LONG, PageClient, concept, stateful, stateless, watches};
use crate::support::{Setup, id, names, noted, refusal, tokens::Guarded};

/// A watch sends no resource that the caller may not read, and starts again when the caller's rights change.
#[tokio::test]
async fn unreadable_resources_are_not_sent() {
    let guarded = Guarded::start(Setup::new()).await;
    let refused = watches(&guarded.server).await.watch_resources(stateless("")).await;
    assert_eq!(refusal(refused.map(drop)).0, Code::PermissionDenied);
    let watches = async |secret: &str| WatchServiceClient::new(guarded.channel(secret).await);
    let refused = watches("nobody").await.watch_resources(stateless("")).await;
    assert_eq!(refusal(refused.map(drop)).0, Code::Unauthenticated);

    let rule = |verbs: &[&str], prefix: &str| data::TypeRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        types: vec!["demo/*".into()],
        name_prefixes: [prefix].into_iter().filter(|prefix| !prefix.is_empty()).map(str::to_owned).collect(),
        ..data::TypeRule::default()
    };
    guarded.policy("mine", "", vec![rule(&["list"], ""), rule(&["read"], "mine")]).await;
    let secret = guarded.token("reader", &["mine"], |_| {}).await;
    for name in ["mine-1", "other-1"] {
        guarded.write(concept(name, &[("env", "prod")], &[])).await;
    }
    let open = async |request| {
        let stream = watches(&secret).await.watch_resources(request).await.unwrap().into_inner();
        Client { stream, has: BTreeMap::new(), token: String::new(), came: Vec::new(), messages: 0 }
    };
    let filter = r#"meta.labels.env = "prod""#;
    let mut client = open(stateless(filter)).await;
    assert_eq!(client.current().await, ["mine-1"]);
    let stream = watches(&secret).await.watch_resources(stateful(filter, "", 10)).await.unwrap().into_inner();
    let mut page =
        PageClient { stream, request: stateful(filter, "", 10), rows: Vec::new(), tokens: Default::default() };
    page.current().await;
    assert_eq!(names(&page.rows), ["mine-1"]);
    // A resource comes, is changed, leaves the filter, and goes, without any message.
    let other = concept("other-2", &[("env", "prod")], &[]);
    guarded.write(other.clone()).await;
    guarded.write(noted(other, &[("k", "v")])).await;
    guarded.write(concept("other-2", &[("env", "test")], &[])).await;
    guarded.delete(id(CONCEPT, "other-1")).await;
    guarded.write(concept("mine-2", &[("env", "prod")], &[])).await;
    assert_eq!(client.current().await, ["mine-2"]);
    page.current().await;
    assert_eq!(names(&page.rows), ["mine-1", "mine-2"]);
    // A replay sends none either.
    let token = client.token.clone();
    guarded.delete(id(CONCEPT, "other-2")).await;
    guarded.write(concept("mine-1", &[("env", "test")], &[])).await;
    assert_eq!(client.current().await, ["-mine-1"]);
    let resumed = WatchResourcesRequest { resume_token: token.clone(), ..stateless(filter) };
    assert_eq!(open(resumed.clone()).await.current().await, ["-mine-1"]);
    // A token of another caller is useless.
    let mut client = WatchServiceClient::new(guarded.channel(&guarded.management).await);
    let mut stream = client.watch_resources(resumed.clone()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap().is_hard_reset);
    let single = WatchResourceRequest { id: Some(id(CONCEPT, "other-2")), ..WatchResourceRequest::default() };
    let refused = watches(&secret).await.watch_resource(single).await;
    assert_eq!(refusal(refused.map(drop)).0, Code::PermissionDenied);

    // After a change of rights, the sent state may contain too much or too little.
    let mut client = open(stateless(filter)).await;
    client.current().await;
    guarded.policy("mine", "", vec![rule(&["list"], ""), rule(&["read"], "mine"), rule(&["read"], "other")]).await;
    let ended = timeout(LONG, client.stream.message()).await.unwrap();
    assert_eq!(refusal(ended).0, Code::Aborted);
    let mut again = open(resumed).await;
    assert!(again.message().await.is_hard_reset);
    assert_eq!(again.current().await, ["mine-2"]);
}
