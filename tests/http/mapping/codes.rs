//! Codes and headers of answers.

use serde_json::json;

use super::put_raw;
use crate::support::{
    Server, Setup, artist, eventually,
    http::{ARTISTS, PROBLEM},
    noted,
};

#[tokio::test]
async fn codes_are_consuls() {
    let server = Setup::new().guest("deny").guest("panic").tolerant().start().await;
    let denied = |why: &str| format!("rpc error: code = PermissionDenied desc = Permission denied: {why}");
    let put = server.put("/api/deny/v1/bycontent/x", json!({ "text": "frozen" })).await;
    assert_eq!(put.said(), (403, denied("this is frozen").as_str()));
    assert_eq!(server.fetch("/api/deny/v1/byid/secret-x").await.said(), (403, denied("this is secret").as_str()));
    assert_eq!(server.fetch("/api/deny/v1/byid?ns=nolist").await.said(), (403, denied("no lists here").as_str()));
    let plugin = server.put("/api/mortise/v1/plugin/demo", json!({})).await;
    assert_eq!(plugin.code(), 403, "{plugin:?}");
    let deleted = server.ask("DELETE", "/api/mortise/v1/plugin/demo").await_answer().await;
    assert_eq!(deleted.code(), 403, "{deleted:?}");

    let broken = server.put("/api/panicking/v1/thing/boom-mutate", json!({})).await;
    assert_eq!(broken.code(), 500, "{broken:?}");
    assert!(broken.said().1.starts_with("rpc error: code = Internal desc = "), "{broken:?}");
    let asked = server.ask("PUT", "/api/panicking/v1/thing/boom-mutate").header("accept", PROBLEM);
    let problem = asked.json(&json!({ "data": {} })).await_answer().await.problem(500, "internal");
    let blamed = &problem["plugin"];
    assert_eq!(
        (&blamed["plugin"], &blamed["version"], &blamed["kind"]),
        (&json!("panic"), &json!("0.1.0"), &json!("trap"))
    );
}

#[tokio::test]
async fn a_quarantined_hook_says_when_to_come_back() {
    let server = Setup::new().guest("panic").limit("quarantine_backoff_ms", 60_000).start().await;
    let body = json!({ "data": {} });
    let put = async || {
        server
            .ask("PUT", "/api/panicking/v1/thing/boom-mutate")
            .header("accept", PROBLEM)
            .json(&body)
            .await_answer()
            .await
    };
    eventually("the hook is quarantined", async || put().await.code() == 503).await;
    let answer = put().await;
    let problem = answer.problem(503, "unavailable");
    assert!(problem["plugin"]["retry_after_ms"].as_u64().is_some_and(|ms| ms <= 60_000), "{problem}");
    assert!((1..=60).contains(&answer.header("retry-after").parse::<u64>().unwrap()), "{answer:?}");
    let consul = server.put("/api/panicking/v1/thing/boom-mutate", json!({})).await;
    assert_eq!((consul.code(), consul.header("retry-after").is_empty()), (500, false));
}

#[tokio::test]
async fn warnings_are_headers() {
    let server = Server::start().await;
    let put =
        server.put("/api/demo/v2/album/old", json!({ "title": "x", "yearOfRelease": 1800, "tracks": [""] })).await;
    put.ok();
    let warnings: Vec<_> = put.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(
        warnings,
        [
            "299 mortise \"data.year_of_release: album.year_of_release is 1800, before there were recordings\"",
            "299 mortise \"data.tracks[0]: album.tracks has a track without a title\"",
        ]
    );
}

#[tokio::test]
async fn finalizers_defer_a_deletion() {
    let server = Server::start().await;
    server.write(noted(artist("held"), &[("finalizers", "hold")])).await.unwrap();
    let held = format!("{ARTISTS}/held");
    assert_eq!(server.ask("DELETE", &held).await_answer().await.code(), 204);
    let marked = server.fetch(&held).await.ok();
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let kept = server.put(&held, marked["data"].clone()).await;
    assert!(kept.said().1.ends_with("; write the names that stay, or an empty text"), "{kept:?}");
    let mut freed = marked.clone();
    freed["metadata"]["finalizers"] = json!("");
    assert_eq!(put_raw(&server, &held, &freed.to_string()).await.code(), 200);
    assert_eq!(server.fetch(&held).await.code(), 404);
}
