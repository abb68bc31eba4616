//! Tokens and policies of several servers.

use mortise_resource::pb;
use tonic::Code;

use super::Shared;
use crate::support::{artist, gvk, id, id_of, tokens::Guarded, until};

const READERS: &str = "key_prefix \"resource/\" { policy = \"list\" }";

#[tokio::test]
async fn a_token_counts_on_every_server_until_it_is_revoked_on_one() {
    let Some(shared) = Shared::new() else { return };
    let first = Guarded::start(shared.setup()).await;
    let server = shared.setup().acl().start().await;
    assert!(!server.data_dir.join("bootstrap-token").exists(), "the store has a first token");
    let second = Guarded { server, management: first.management.clone() };
    first.policy("readers", READERS, Vec::new()).await;
    let secret = first.token("revoked", &["readers"], |_| {}).await;
    let stored = first.write(artist("korn")).await;
    let read = |secret: String| {
        let (second, id) = (&second, id_of(&stored));
        async move {
            let mut client = second.resources(&secret).await;
            client.read(pb::ReadRequest { id: Some(id) }).await.map(|answer| answer.into_inner().resource)
        }
    };
    let found = until("the other server knows the token", || read(secret.clone())).await;
    assert_eq!(found, Some(stored.clone()));

    let request = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let mut watch = second.resources(&secret).await.watch_list(request).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    // The watch ends by the change itself: nothing else happens, and no clock is waited for.
    first.delete(id("mortise.v1.Token", "revoked")).await;
    let end = loop {
        match watch.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the watch ended without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(end.code(), Code::Unauthenticated, "{end}");
    assert_eq!(read(secret).await.unwrap_err().code(), Code::Unauthenticated);
}
