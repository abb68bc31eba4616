//! Forms of answers by the client: compression, the page at `/`, and pages of listed origins.

use std::io::Read as _;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::support::{
    Server, Setup,
    http::{ARTISTS, PROBLEM},
};

/// The encoding of an answer, and its decoded text.
async fn encoded(server: &Server, path: &str, accept: &str) -> (String, String) {
    let (head, body) = server.ask("GET", path).header("accept-encoding", accept).open().await;
    assert_eq!(head.status, 200, "{path}");
    let bytes = body.collect().await.unwrap().to_bytes();
    let encoding = head.headers.get("content-encoding").map_or("", |value| value.to_str().unwrap()).to_owned();
    let mut text = Vec::new();
    match encoding.as_str() {
        "gzip" => drop(flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap()),
        "br" => drop(brotli::Decompressor::new(&bytes[..], 4_096).read_to_end(&mut text).unwrap()),
        "zstd" => text = zstd::decode_all(&bytes[..]).unwrap(),
        "" => text = bytes.to_vec(),
        other => panic!("{other}"),
    }
    if !encoding.is_empty() {
        assert!(bytes.len() * 2 < text.len(), "{path} {encoding}: {} of {}", bytes.len(), text.len());
        assert!(!head.headers.contains_key("content-length"), "{head:?}");
        assert!(head.headers.get_all("vary").iter().any(|value| value == "accept-encoding"), "{head:?}");
    }
    (encoding, String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn large_answers_are_compressed_for_clients_that_accept_it() {
    let server = Server::start().await;
    for n in 0..200 {
        server.put(&format!("{ARTISTS}/a{n}"), json!({ "name": format!("Artist {n}") })).await.ok();
    }
    let search = format!("{ARTISTS}?page_size=100");
    for path in [ARTISTS, &search, "/v1/openapi.json", "/v1/types", "/metrics"] {
        let plain = server.fetch(path).await;
        assert_eq!(plain.header("content-encoding"), "");
        for accept in ["gzip", "br", "zstd", "gzip, deflate, br", "identity", "gzip;q=0"] {
            let (encoding, text) = encoded(&server, path, accept).await;
            let wanted = match accept {
                "gzip, deflate, br" => "br",
                "identity" | "gzip;q=0" => "",
                other => other,
            };
            assert_eq!(encoding, wanted, "{path} {accept}");
            assert!(path == "/metrics" || text == plain.body, "{path} {accept}");
        }
    }
    for path in ["/v1/version", "/healthz", &format!("{ARTISTS}/a1"), &format!("{ARTISTS}?name_prefix=a199")] {
        assert_eq!(encoded(&server, path, "gzip, br, zstd").await.0, "", "{path}");
    }
    // Events arrive one by one, and are not held back by an encoder.
    let (head, _) = server.ask("GET", &format!("{ARTISTS}/_watch")).header("accept-encoding", "gzip").open().await;
    assert!(!head.headers.contains_key("content-encoding"), "{head:?}");
    let head = server.ask("HEAD", ARTISTS).header("accept-encoding", "gzip").await_answer().await;
    assert_eq!((head.header("content-encoding"), head.body.as_str()), ("gzip", ""));
    assert_eq!(head.header("content-length"), "", "a length would be that of the plain text");
}

/// Answers beyond the number of encoders are whole, too.
#[tokio::test]
async fn many_compressed_answers_at_once_are_whole() {
    let server = Server::start().await;
    let plain = server.fetch("/v1/openapi.json").await.body;
    let all = (0..64).map(|_| encoded(&server, "/v1/openapi.json", "gzip"));
    for (_, text) in futures::future::join_all(all).await {
        assert!(text == plain);
    }
}

#[tokio::test]
async fn the_root_is_a_page_for_browsers_and_json_for_others() {
    let server = Server::start().await;
    let root = server.fetch("/").await.ok();
    assert_eq!(
        (&root["name"], &root["ready"], &root["links"]["openapi"]),
        (&json!("mortise"), &json!(true), &json!("/v1/openapi.json"))
    );
    assert_eq!(root["types"]["demo.v2.Artist"], ARTISTS);
    for path in root["links"].as_object().unwrap().values().filter_map(Value::as_str) {
        assert_eq!(server.fetch(path).await.code(), 200, "{path}");
    }
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = server.ask("GET", "/").header("accept", browser).await_answer().await;
    assert_eq!((page.code(), page.header("location")), (303, "/ui/"));
    assert_eq!(server.ask("POST", "/").await_answer().await.code(), 405);
}

#[tokio::test]
async fn strangers_see_no_types_at_the_root() {
    let server = Setup::new().acl().start().await;
    let root = server.fetch("/").await.ok();
    assert_eq!((root.get("types"), root.get("version")), (None, None), "{root}");
    let lost = server.fetch("/artists").await.problem(404, "no-route");
    assert!(!lost["detail"].as_str().unwrap().contains("did you mean"), "{lost}");
}

const LISTED: &str = "https://app.example.org";

#[tokio::test]
async fn pages_of_listed_origins_may_use_the_api() {
    let server =
        Setup::new().env("MORTISE_HTTP_ALLOWED_ORIGINS", format!("{LISTED}, http://localhost:3000")).start().await;
    let korn = format!("{ARTISTS}/korn");
    let preflight = async |origin: &str| {
        let asking = server.ask("OPTIONS", &korn).header("origin", origin).header("sec-fetch-site", "cross-site");
        asking.header("access-control-request-method", "PUT").await_answer().await
    };
    let answer = preflight(LISTED).await;
    assert_eq!((answer.code(), answer.header("access-control-allow-origin")), (204, LISTED));
    assert!(answer.header("access-control-allow-methods").contains("PATCH"), "{answer:?}");
    assert!(answer.header("access-control-allow-headers").contains("authorization"), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-credentials"), "");

    let from = |method: &str, path: &str, origin: &str| {
        let asking = server.ask(method, path).header("origin", origin).header("sec-fetch-site", "cross-site");
        asking.json(&json!({ "data": { "name": "Korn" } })).await_answer()
    };
    let put = from("PUT", &korn, LISTED).await;
    put.ok();
    assert_eq!(put.header("access-control-allow-origin"), LISTED);
    assert!(put.header("access-control-expose-headers").contains("etag"), "{put:?}");
    assert!(put.headers.get_all("vary").iter().any(|value| value == "origin"), "{put:?}");
    let missing = from("GET", &format!("{ARTISTS}/nobody"), "http://localhost:3000").await;
    missing.problem(404, "not-found");
    assert_eq!(missing.header("access-control-allow-origin"), "http://localhost:3000", "errors are readable, too");

    let unknown_method = from("PUT", ARTISTS, LISTED).await;
    unknown_method.problem(405, "method-not-allowed");
    assert_eq!(unknown_method.header("access-control-allow-origin"), LISTED, "{unknown_method:?}");

    for origin in ["https://evil.example", "http://app.example.org", "https://app.example.org:8443", "null"] {
        for method in ["GET", "PUT", "DELETE"] {
            let refused = from(method, &korn, origin).await;
            refused.problem(403, "cross-origin");
            assert_eq!(refused.header("access-control-allow-origin"), "", "{origin}");
        }
        assert_eq!(preflight(origin).await.code(), 403, "{origin}");
    }
    // A listed origin does not make another host ours.
    let rebound = server.ask("GET", &korn).header("host", "evil.example").header("origin", LISTED).await_answer().await;
    rebound.problem(403, "unknown-host");
    let plain = server.ask("GET", &korn).header("accept", PROBLEM).await_answer().await;
    assert_eq!(plain.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn without_the_setting_no_origin_is_allowed() {
    let server = Server::start().await;
    let asking = server.ask("OPTIONS", ARTISTS).header("origin", LISTED).header("access-control-request-method", "GET");
    let refused = asking.await_answer().await;
    refused.problem(403, "cross-origin");
    assert_eq!(refused.header("access-control-allow-origin"), "");
    assert_eq!(server.fetch(ARTISTS).await.headers.get("vary"), None);
}
