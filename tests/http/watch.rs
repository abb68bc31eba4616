//! Watches over HTTP: server-sent events, of collections and of items. Watches in general: `resource/watch_list.rs`.

use crate::support::{
    Server, Setup, album, artist, at, eventually,
    http::{ARTISTS, Events, PROBLEM},
    id, id_of, make_place,
    plugins::Plugins as _,
};
use serde_json::json;

#[tokio::test]
async fn the_snapshot_its_end_and_every_change() {
    let server = Server::start().await;
    server.write(artist("a")).await.unwrap();
    let b = server.write(artist("b")).await.unwrap();
    let mut events = Events::open(&server, &format!("{ARTISTS}?watch")).await;
    let first = events.next().await.unwrap();
    assert_eq!(first.about(), ("upsert", "a".to_owned()));
    assert_eq!(first.json(), server.fetch(&format!("{ARTISTS}/a")).await.ok(), "the form of a GET");
    assert!(!first.data.contains('\n'));
    assert_eq!(first.id, first.json()["version"].as_str().unwrap());
    assert_eq!(events.next().await.unwrap().about(), ("upsert", "b".to_owned()));
    let end = events.next().await.unwrap();
    assert_eq!((end.event.as_str(), end.data.as_str(), end.id.as_str()), ("end-of-snapshot", "{}", ""));

    server.put(&format!("{ARTISTS}/c"), json!({ "name": "C" })).await.ok();
    let created = events.next().await.unwrap();
    assert_eq!(created.about(), ("upsert", "c".to_owned()));
    server.put(&format!("{ARTISTS}/c"), json!({ "name": "CC" })).await.ok();
    let updated = events.next().await.unwrap();
    assert_eq!(updated.json()["data"]["name"], "CC");
    assert_ne!(updated.id, created.id);
    server.delete(&id_of(&b), "").await.unwrap();
    let deleted = events.next().await.unwrap();
    assert_eq!(deleted.about(), ("delete", "b".to_owned()));
    assert_eq!(deleted.id, b.version, "with what was stored last");
    server.write(album("of-another-type", None)).await.unwrap();
    server.write(artist("last")).await.unwrap();
    assert_eq!(events.next().await.unwrap().about(), ("upsert", "last".to_owned()));
}

#[tokio::test]
async fn places_and_prefixes_count() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    for (name, p, n) in [("korn", "default", "default"), ("abba", "default", "default"), ("korn", "p", "n")] {
        server.write(at(artist(name), p, n)).await.unwrap();
    }
    for (query, expected) in [
        ("watch", vec!["abba", "korn"]),
        ("watch&name_prefix=ko", vec!["korn"]),
        ("watch&name_prefix=x", vec![]),
        ("watch&partition=p&ns=n", vec!["korn"]),
        ("watch&partition=*&namespace=*", vec!["abba", "korn", "korn"]),
        ("partition=nope&watch=true", vec![]),
    ] {
        let mut events = Events::open(&server, &format!("{ARTISTS}?{query}")).await;
        let mut found = events.snapshot().await;
        found.sort();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test]
async fn a_watch_has_a_path_of_its_own() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server.write(artist(name)).await.unwrap();
    }
    for (path, expected) in [
        ("_watch", vec!["a", "b"]),
        ("_watch?name_prefix=b", vec!["b"]),
        ("_watch?filter=id.name%20%3D%20%22a%22", vec!["a"]),
        ("a/_watch", vec!["a"]),
        ("c/_watch", vec![]),
    ] {
        let mut events = Events::open(&server, &format!("{ARTISTS}/{path}")).await;
        assert_eq!(events.snapshot().await, expected, "{path}");
    }
    let put = server.put(&format!("{ARTISTS}/a/_watch"), json!({ "name": "x" })).await;
    put.problem(405, "method-not-allowed");
    assert_eq!(put.header("allow"), "GET, HEAD, OPTIONS");
}

/// A browser's `EventSource` that reconnects sends the last id, and has to forget what it knew.
#[tokio::test]
async fn a_client_that_comes_back_is_reset_first() {
    let server = Server::start().await;
    server.write(artist("a")).await.unwrap();
    for path in [format!("{ARTISTS}?watch"), format!("{ARTISTS}/a/_watch")] {
        let (head, _) = server.ask("GET", &path).open().await;
        assert_eq!(head.headers["x-accel-buffering"], "no");
        let mut events = Events::again(&server, &path, "7").await;
        let first = events.next().await.unwrap();
        assert_eq!((first.event.as_str(), first.data.as_str(), first.id.as_str()), ("reset", "{}", ""));
        assert_eq!(events.snapshot().await, ["a"]);
    }
}

#[tokio::test]
async fn an_item_is_watched_before_it_is_there_and_after() {
    let server = Server::start().await;
    server.write(artist("korn-longer")).await.unwrap();
    let mut events = Events::open(&server, &format!("{ARTISTS}/korn?watch=1")).await;
    assert!(events.snapshot().await.is_empty(), "another name with the same beginning is another resource");
    let korn = server.write(artist("korn")).await.unwrap();
    assert_eq!(events.next().await.unwrap().about(), ("upsert", "korn".to_owned()));
    server.write(artist("korn-longer")).await.unwrap();
    server.delete(&id_of(&korn), "").await.unwrap();
    assert_eq!(events.next().await.unwrap().about(), ("delete", "korn".to_owned()));
    server.delete(&id("demo.v2.Artist", "korn-longer"), "").await.unwrap();
    server.write(artist("korn")).await.unwrap();
    assert_eq!(events.next().await.unwrap().about(), ("upsert", "korn".to_owned()));
    let mut again = Events::open(&server, &format!("{ARTISTS}/korn?watch&name_prefix=x")).await;
    assert_eq!(again.snapshot().await, ["korn"], "a prefix is for collections");
}

#[tokio::test]
async fn an_invalid_watch_is_a_problem() {
    let server = Setup::new().guest("deny").start().await;
    for (path, code, name) in [
        (format!("{ARTISTS}?watch&name_prefix=Ko"), 400, "invalid-argument"),
        (format!("{ARTISTS}?watch&partition=P"), 400, "invalid-argument"),
        (format!("{ARTISTS}/KORN?watch"), 400, "invalid-argument"),
        (format!("{ARTISTS}/korn?watch&partition=*"), 400, "invalid-argument"),
        ("/api/demo/v1/executive/x?watch&ns=n".to_owned(), 400, "invalid-argument"),
        ("/api/demo/v1/recordlabel?watch&ns=n".to_owned(), 400, "invalid-argument"),
        ("/api/deny/v1/byid?watch&ns=nolist".to_owned(), 403, "permission-denied"),
    ] {
        server.fetch(&path).await.problem(code, name);
        let text = server.ask("GET", &path).header("accept", "text/plain").await_answer().await;
        assert_eq!((text.code(), text.header("content-type")), (code, "text/plain; charset=utf-8"), "{path}");
    }
    let nowhere = server.ask("GET", "/api/nope/v1/nope?watch").header("accept", PROBLEM).await_answer().await;
    nowhere.problem(404, "no-route");
    for no in ["watch=false", "watch=0"] {
        server.fetch(&format!("{ARTISTS}?{no}")).await.ok();
    }
    let head = server.ask("HEAD", &format!("{ARTISTS}?watch")).await_answer().await;
    assert_eq!((head.code(), head.header("content-type")), (200, "text/event-stream"));
}

#[tokio::test]
async fn watches_are_limited_together_with_those_of_grpc() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_WATCHES", 2).start().await;
    // The host has watches of its own, so the number left is not exact; but it is low.
    let mut open = Vec::new();
    let refused = loop {
        let (head, body) = server.ask("GET", &format!("{ARTISTS}?watch")).open().await;
        if head.status != 200 {
            break head;
        }
        open.push(body);
        assert!(open.len() <= 2);
    };
    assert_eq!(refused.status, 429);
    let problem = server.fetch(&format!("{ARTISTS}?watch")).await.problem(429, "resource-exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("service.max_watches"), "{problem}");
    server.fetch(ARTISTS).await.ok();
    drop(open);
    eventually("a place is free again", async || {
        server.ask("GET", &format!("{ARTISTS}?watch")).open().await.0.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_watch_says_that_it_is_alive() {
    let server = Setup::new().env("MORTISE_HTTP_KEEP_ALIVE_MS", 100).start().await;
    let mut events = Events::open(&server, &format!("{ARTISTS}?watch")).await;
    events.snapshot().await;
    eventually("it says so twice", async || {
        assert!(events.is_quiet().await);
        events.comments >= 2
    })
    .await;
    server.write(artist("korn")).await.unwrap();
    assert_eq!(events.next().await.unwrap().about().1, "korn");
}

#[tokio::test]
async fn a_stopping_server_says_so_and_ends_the_stream() {
    let server = Setup::new().long_grace().start().await;
    let mut events = Events::open(&server, &format!("{ARTISTS}?watch")).await;
    events.snapshot().await;
    server.signal("TERM");
    let last = events.next().await.unwrap();
    assert_eq!((last.event.as_str(), &last.json()["type"]), ("closed", &json!("urn:mortise:problem:unavailable")));
    assert_eq!((&last.json()["status"], &last.json()["instance"]), (&json!(503), &json!(ARTISTS)));
    assert_eq!(events.next().await, None);
    let mut server = server;
    assert!(server.ended().await.success());
}

/// A client that does not read falls behind; it gets an error when it reads again, or is disconnected.
#[tokio::test]
async fn a_slow_client_gets_an_error() {
    // The client reads nothing for as long as the writes below take.
    let setup = Setup::new().limit("watch_buffer", 4).env("MORTISE_HTTP_STALL_TIMEOUT_MS", 3_600_000);
    let server = setup.env("MORTISE_STORE_HISTORY_EVENTS", 4).start().await;
    let mut events = Events::open(&server, &format!("{ARTISTS}?watch")).await;
    events.snapshot().await;
    // Until every buffer on the way is full, and four events more.
    let text = "x".repeat(200_000);
    for count in 0..120 {
        let data = json!({ "name": format!("{text}{count}") });
        server.put(&format!("{ARTISTS}/korn"), data).await.ok();
    }
    let last = loop {
        let sent = events.next().await.expect("an error before the end");
        if sent.event != "upsert" {
            break sent;
        }
    };
    assert_eq!((last.event.as_str(), &last.json()["type"]), ("closed", &json!("urn:mortise:problem:aborted")));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn clients_that_read_nothing_are_cut_off() {
    let server =
        Setup::new().env("MORTISE_HTTP_STALL_TIMEOUT_MS", 300).env("MORTISE_SERVICE_MAX_WATCHES", 200).start().await;
    let open = |metrics: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix("mortise_http_connections ")).unwrap();
        line.parse().unwrap()
    };
    let (head, body) = server.ask("GET", &format!("{ARTISTS}?watch")).open().await;
    assert_eq!(head.status, 200);
    let text = "x".repeat(500_000);
    for count in 0..60 {
        let data = json!({ "name": format!("{text}{count}") });
        server.put(&format!("{ARTISTS}/korn"), data).await.ok();
    }
    // The asking connection is open, and perhaps one that has not ended yet.
    eventually("the connection is closed", async || open(&server.fetch("/metrics").await.body) <= 1.0).await;
    drop(body);
}

/// A reload and watches: those of a new type begin; those of a removed plugin's type end together with the type.
#[tokio::test]
async fn watches_of_types_that_come_and_go() {
    let server = Setup::new().limit("plugin_rescan_ms", 200).start().await;
    let things = "/api/prior/v1/thing";
    assert_eq!(server.fetch(&format!("{things}?watch")).await.code(), 404);
    server.install("prior", &std::fs::read(mortise_test_guests::component("prior")).unwrap()).await.unwrap();
    let mut events = Events::open(&server, &format!("{things}?watch")).await;
    assert!(events.snapshot().await.is_empty());
    server.put(&format!("{things}/one"), json!({ "text": "hello", "number": "7" })).await.ok();
    let sent = events.next().await.unwrap();
    assert_eq!(sent.json()["data"], json!({ "text": "hello", "number": "7" }));
    let mut plugins = server.plugins().await;
    plugins.remove(mortise_resource::data::RemoveRequest { name: "prior".into() }).await.unwrap();
    assert_eq!(server.ask("DELETE", &format!("{things}/one")).await_answer().await.code(), 204);
    let last = loop {
        let sent = events.next().await.expect("an event before the end");
        if sent.event != "upsert" {
            break sent;
        }
    };
    assert!(matches!(last.event.as_str(), "delete" | "closed"), "{last:?}");
}
