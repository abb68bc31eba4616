//! Secrets of tokens, and the first token.

use mortise_api::AuthServiceClient;
use mortise_resource::{data, pb};
use sha2::{Digest as _, Sha256};
use tonic::{Code, service::interceptor::InterceptedService};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::letter;
use crate::support::{tokens::*, *};

/// A second token with one secret is refused. A token also has a default place.
#[tokio::test]
async fn secrets_are_one_tokens_and_tokens_have_a_place() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut space = id("tenancy.v2beta1.Namespace", "blue");
    space.tenancy = Some(tenancy("default", ""));
    guarded.write(resource(space, None)).await;
    let one = guarded.token("one", &["global-management"], |token| token.namespace = "blue".into()).await;
    let hash = Sha256::digest(one.as_bytes()).to_vec();
    let who = async |secret: &str| {
        let mut auth = AuthServiceClient::new(guarded.channel(secret).await);
        auth.who_am_i(data::WhoAmIRequest {}).await.map(|answer| answer.into_inner().accessor_id)
    };
    assert_eq!(who(&one).await.unwrap(), "one");
    let two = data::Token { secret_sha256: hash, ..data::Token::default() };
    let two = resource(id("mortise.v1.Token", "two"), Some(any("mortise.v1.Token", &two)));
    let mut manager = guarded.resources(&guarded.management).await;
    assert_eq!(refusal(manager.write(pb::WriteRequest { resource: Some(two) }).await).0, Code::InvalidArgument);
    assert_eq!(who(&one).await.unwrap(), "one");

    let mut client = guarded.resources(&one).await;
    let written = client.write(pb::WriteRequest { resource: Some(artist("korn")) }).await.unwrap().into_inner();
    assert_eq!(id_of(&written.resource.unwrap()).tenancy, Some(tenancy("default", "blue")));
    assert!(client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "korn")) }).await.is_ok());
    let request = |tenancy| pb::ListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy),
        name_prefix: String::new(),
    };
    let listed = client.list(request(tenancy("", ""))).await.unwrap().into_inner().resources;
    assert_eq!(places(&listed), ["default/blue/korn"]);
    assert!(client.list(request(tenancy("default", "default"))).await.unwrap().into_inner().resources.is_empty());
}

/// Checks of health take any token, which a channel sends with them, so its calls show why the token is refused.
#[tokio::test]
async fn health_is_answered_whatever_the_token() {
    let guarded = Guarded::start(Setup::new()).await;
    let channel = guarded.channel("wrong").await;
    let mut health = HealthClient::new(channel.clone());
    let answer = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let refused = AuthServiceClient::new(channel).who_am_i(data::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

/// The secret is in nothing that the server stores, returns or logs; its hash is useless.
#[tokio::test]
async fn secrets_are_in_nothing_that_the_server_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new().data_dir(&dir.path().join("data"));
    let guarded = Guarded::start(setup.env("MORTISE_LOG_LEVEL", "debug").env("MORTISE_LOG_SPANS", true)).await;
    let secret = guarded.token("kept", &["global-management"], |_| {}).await;
    let mut client = guarded.resources(&secret).await;
    client.write(pb::WriteRequest { resource: Some(artist("korn")) }).await.unwrap();
    let _ = client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "none")) }).await;
    let hash: String = Sha256::digest(secret.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        letter(guarded.resources(&hash).await.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "korn")) }).await),
        'U'
    );
    let log = guarded.server.log();
    assert!(!log.contains(&secret) && !log.contains(&guarded.management), "the log has a secret");
    guarded.server.stop().await;
    let (mut files, mut bytes) = (0, 0);
    let mut folders = vec![dir.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "bootstrap-token" {
                let content = std::fs::read(entry.path()).unwrap();
                let has = |secret: &str| content.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!has(&secret) && !has(&guarded.management), "{:?}", entry.path());
                files += 1;
                bytes += content.len();
            }
        }
    }
    assert!(files > 0 && bytes > 0);
    println!("{files} files with {bytes} bytes looked through");
}

/// A start that was interrupted between the file and the token is completed; a store with tokens gets no further one.
#[tokio::test]
async fn the_first_token_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("bootstrap-token"), "left-behind\n").unwrap();
    let setup = || Setup::new().serve().acl().data_dir(&data);
    let server = setup().start().await;
    let who = async |server: &Server, secret: &str| {
        let channel = InterceptedService::new(server.channel().await, As(Some(secret.parse().unwrap())));
        AuthServiceClient::new(channel)
            .who_am_i(data::WhoAmIRequest {})
            .await
            .map(|answer| answer.into_inner().accessor_id)
    };
    assert_eq!(who(&server, "left-behind").await.unwrap(), "bootstrap");
    server.stop().await;
    std::fs::remove_file(data.join("bootstrap-token")).unwrap();
    let server = setup().start().await;
    assert!(!data.join("bootstrap-token").exists());
    assert_eq!(who(&server, "left-behind").await.unwrap(), "bootstrap");
    server.stop().await;
    // With access control off, every caller may do everything, and the token stays.
    let server = Setup::new().serve().data_dir(&data).start().await;
    assert!(server.read(&id("mortise.v1.Token", "bootstrap")).await.is_ok());
}
