//! Streams, watches and uploads of callers whose rights change or end, and bounds on open calls.

use std::time::{Duration, SystemTime};

use mortise_api::{PluginServiceClient, ServerServiceClient};
use mortise_resource::{
    data,
    pb::{self, watch_event::Event},
};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::{allow, letter};
use crate::support::{tokens::*, *};

/// Watches on a connection of a client with many, fewer than the streams that a server allows on one.
const WATCHES_OF_A_CONNECTION: usize = 90;

/// A token is revoked during open watches, a backup and a stream of logs.
#[tokio::test]
async fn streams_of_a_revoked_token_end_within_a_second() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("readers", "operator = \"write\"\nkey_prefix \"resource/\" { policy = \"list\" }", vec![]).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let other = guarded.token("other", &["readers"], |_| {}).await;
    // Enough data that the backup is not sent at once.
    for number in 0..200 {
        let mut large = artist(&format!("a-{number}"));
        large.metadata = metadata(&[("pad", &"x".repeat(20_000))]);
        guarded.write(large).await;
    }
    let watch = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: "b".into(),
        after: None,
    };
    let mut watches = Vec::new();
    for number in 0..101 {
        let mut client = guarded.resources(if number == 0 { &other } else { &reader }).await;
        let mut stream = client.watch_list(watch.clone()).await.unwrap().into_inner();
        stream.message().await.unwrap();
        watches.push(stream);
    }
    let channel = guarded.channel(&reader).await;
    let mut plugins = PluginServiceClient::new(channel.clone());
    let follow = data::LogsRequest { name: "demo".into(), follow: true, ..Default::default() };
    let mut logs = plugins.logs(follow).await.unwrap().into_inner();
    let mut backup =
        ServerServiceClient::new(channel).backup(data::BackupRequest::default()).await.unwrap().into_inner();
    backup.message().await.unwrap();
    let mut others = watches.remove(0);

    guarded.delete(id("mortise.v1.Token", "reader")).await;
    // The time starts at the acknowledgement, since the disk's time to make the deletion durable does not count.
    let begun = Instant::now();
    let mut codes = Vec::new();
    for watch in &mut watches {
        codes.push(timeout(PATIENCE, watch.message()).await.expect("the watch ends").unwrap_err().code());
    }
    let logs = timeout(PATIENCE, async {
        loop {
            if let Err(status) = logs.message().await {
                return status.code();
            }
        }
    });
    codes.push(logs.await.expect("the log ends"));
    let backup = timeout(PATIENCE, async {
        loop {
            match backup.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the backup was sent as a whole"),
                Err(status) => return status.code(),
            }
        }
    });
    codes.push(backup.await.expect("the backup ends"));
    println!("{} streams ended after {:?}", codes.len(), begun.elapsed());
    assert_eq!(codes.len(), 102);
    assert!(codes.iter().all(|code| *code == Code::Unauthenticated), "{codes:?}");
    // A second, with room for a slow machine: without the revocation none of them ends.
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert_eq!(
        refusal(guarded.resources(&reader).await.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "a-1")) }).await)
            .0,
        Code::Unauthenticated
    );
    // Callers that were not revoked continue.
    guarded.write(artist("b-new")).await;
    let event = timeout(PATIENCE, others.message()).await.unwrap().unwrap().unwrap();
    assert!(matches!(event.event, Some(Event::Upsert(_))));
}

/// A thousand watches of two tokens with the same rights share the decision about each event. One token is revoked: its
/// watch ends as one that shares nothing does, and the others miss no event and get none twice.
#[tokio::test]
async fn a_revoked_token_leaves_a_thousand_watches_of_the_same_rights() {
    const OTHERS: usize = 999;
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("readers", "", vec![allow(&["read", "list"], &["demo/Artist"])]).await;
    let revoked = guarded.token("revoked", &["readers"], |_| {}).await;
    let stays = guarded.token("stays", &["readers"], |_| {}).await;
    let request = || pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let mut ends = guarded.resources(&revoked).await.watch_list(request()).await.unwrap().into_inner();
    let mut clients = Vec::new();
    for _ in 0..OTHERS.div_ceil(WATCHES_OF_A_CONNECTION) {
        clients.push(guarded.resources(&stays).await);
    }
    let mut others = Vec::new();
    for number in 0..OTHERS {
        let client = &mut clients[number / WATCHES_OF_A_CONNECTION];
        others.push(Watch(client.watch_list(request()).await.unwrap().into_inner()));
    }
    ends.message().await.unwrap();
    for watch in &mut others {
        assert!(watch.snapshot().await.is_empty());
    }
    guarded.write(artist("before")).await;
    assert!(matches!(ends.message().await.unwrap().unwrap().event, Some(Event::Upsert(_))));

    guarded.delete(id("mortise.v1.Token", "revoked")).await;
    let begun = Instant::now();
    let ended = timeout(PATIENCE, ends.message()).await.expect("the watch ends").unwrap_err();
    println!("the watch of the revoked token ended after {:?}", begun.elapsed());
    assert_eq!(ended.code(), Code::Unauthenticated);
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    guarded.write(artist("after")).await;
    for watch in &mut others {
        assert_eq!(id_of(&watch.upsert().await).name, "before");
        assert_eq!(id_of(&watch.upsert().await).name, "after");
    }
}

/// An open watch whose caller's rights change starts again, or ends.
#[tokio::test]
async fn a_watch_follows_what_its_caller_may_see() {
    let guarded = Guarded::start(Setup::new()).await;
    let only_korn = |deny: bool| {
        let mut named = allow(&["read"], &["demo/Artist"]);
        named.names = vec!["korn".into()];
        named.deny = deny;
        vec![allow(&["list"], &["demo/Artist"]), named]
    };
    guarded.policy("p", "", only_korn(false)).await;
    let secret = guarded.token("t", &["p"], |_| {}).await;
    guarded.write(artist("korn")).await;
    guarded.write(artist("limp")).await;
    let mut client = guarded.resources(&secret).await;
    let request = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let mut watch = Watch(client.watch_list(request.clone()).await.unwrap().into_inner());
    assert_eq!(names(&watch.snapshot().await), ["korn"]);

    // A status of the policy has no effect, and neither has another policy.
    guarded.policy("other", "operator = \"write\"", vec![]).await;
    guarded.policy("p", "", only_korn(false)).await;
    guarded.write(artist("korn")).await;
    assert_eq!(id_of(&watch.upsert().await).name, "korn", "it goes on");
    guarded.policy("p", "", vec![allow(&["read", "list"], &["demo/Artist"])]).await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::Aborted);
    let mut watch = Watch(client.watch_list(request.clone()).await.unwrap().into_inner());
    assert_eq!(names(&watch.snapshot().await), ["korn", "limp"]);

    let mut denied = allow(&["read"], &["*"]);
    denied.name_prefixes = vec!["k".into()];
    denied.deny = true;
    guarded.policy("p", "", vec![allow(&["read", "list"], &["*"]), denied]).await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::Aborted);
    let mut watch = Watch(client.watch_list(request.clone()).await.unwrap().into_inner());
    assert_eq!(names(&watch.snapshot().await), ["limp"]);

    guarded.delete(id("mortise.v1.Policy", "p")).await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(refusal(client.watch_list(request).await).0, Code::PermissionDenied);
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_up() {
    let guarded = Guarded::start(Setup::new()).await;
    let soon = SystemTime::now() + Duration::from_secs(5);
    let secret = guarded.token("brief", &["global-management"], |token| token.expires_at = Some(soon.into())).await;
    let mut client = guarded.resources(&secret).await;
    let request = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let mut watch = Watch(client.watch_list(request).await.unwrap().into_inner());
    watch.snapshot().await;
    assert_eq!(watch.next().await.unwrap_err().code(), Code::Unauthenticated);
    let late = SystemTime::now().duration_since(soon).unwrap();
    assert!(late < PATIENCE / 2, "{late:?}");
    assert_eq!(letter(client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "x")) }).await), 'U');
}

#[tokio::test]
async fn a_caller_has_so_many_watches_and_calls_open_and_no_other_is_hurt() {
    let setup = Setup::new().env("MORTISE_SERVICE_CALLER_WATCHES", 3).env("MORTISE_GRPC_CALLER_STREAMS", 5);
    let guarded = Guarded::start(setup).await;
    guarded.policy("operators", "operator = \"write\"\nkey_prefix \"\" { policy = \"write\" }", Vec::new()).await;
    let (one, other) =
        (guarded.token("one", &["operators"], |_| {}).await, guarded.token("other", &["operators"], |_| {}).await);
    let request = || pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("default", "default")),
        name_prefix: String::new(),
        after: None,
    };
    // Several connections, since the limit counts by caller.
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(guarded.resources(&one).await.watch_list(request()).await.unwrap().into_inner());
    }
    let (code, text) = refusal(guarded.resources(&one).await.watch_list(request()).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text, "the caller has 3 watches open already (limit service.caller_watches)");
    open.push(guarded.resources(&other).await.watch_list(request()).await.unwrap().into_inner());
    // Two log followers more make five calls; any further call is refused.
    let mut followers = Vec::new();
    for _ in 0..2 {
        let mut plugins = PluginServiceClient::new(guarded.channel(&one).await);
        let follow = data::LogsRequest { name: "demo".into(), follow: true, ..data::LogsRequest::default() };
        followers.push(plugins.logs(follow).await.unwrap().into_inner());
    }
    let read = || pb::ReadRequest { id: Some(id("demo.v2.Artist", "absent")) };
    let (code, text) = refusal(guarded.resources(&one).await.read(read()).await);
    assert_eq!(
        (code, &*text),
        (Code::ResourceExhausted, "the caller has 5 calls open already (limit grpc.caller_streams)")
    );
    assert_eq!(refusal(guarded.resources(&other).await.read(read()).await).0, Code::NotFound);
    drop(followers);
    drop(open);
    eventually("there is room again", async || {
        let mut client = guarded.resources(&one).await;
        refusal(client.read(read()).await).0 == Code::NotFound && client.watch_list(request()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn an_upload_ends_when_its_token_is_revoked_and_installs_nothing() {
    // Built before the connections: a build may take long, and an idle connection would be closed meanwhile.
    let bytes = std::fs::read(mortise_test_guests::component("panic")).unwrap();
    let guarded = Guarded::start(Setup::new()).await;
    let secret = guarded.token("uploader", &["global-management"], |_| {}).await;
    let mut plugins = PluginServiceClient::new(guarded.channel(&secret).await);
    let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let (send, messages) = tokio::sync::mpsc::channel(4);
    let first = data::InstallRequest {
        name: "panic.wasm".into(),
        sha256,
        chunk: bytes[..100].to_vec(),
        ..data::InstallRequest::default()
    };
    send.send(first).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(messages);
    let uploading = tokio::spawn(async move { plugins.install(stream).await.map(drop) });
    // It waits for the rest when its token goes.
    eventually("it has begun", async || {
        let page = guarded.server.ask("GET", "/metrics").header("x-consul-token", &guarded.management);
        page.await_answer().await.body.contains("method=\"mortise.v1.PluginService/Install\"} 1\n")
    })
    .await;
    guarded.delete(id("mortise.v1.Token", "uploader")).await;
    let status = timeout(PATIENCE, uploading).await.unwrap().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    drop(send);
    // Without a policy, a caller learns nothing about types.
    let mut management = guarded.resources(&guarded.management).await;
    let status = management.read(pb::ReadRequest { id: Some(id("panic.v1.Thing", "x")) }).await.unwrap_err();
    assert_eq!(status.message(), "resource type panic.v1.Thing not registered");
}
