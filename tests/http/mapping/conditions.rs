//! Conditions of requests: entity tags, and parameters that are refused.

use serde_json::json;

use crate::support::{Server, http::ARTISTS};

/// Sends a request with these headers; returns the code.
async fn code(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], name: &str) -> u16 {
    let mut asking = server.ask(method, path);
    for (name, value) in headers {
        asking = asking.header(name, value);
    }
    if method == "PUT" {
        asking = asking.json(&json!({ "data": { "name": name } }));
    }
    asking.await_answer().await.code()
}

#[tokio::test]
async fn a_read_has_a_tag_and_answers_304_while_the_client_has_the_version() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let put = server.put(&korn, json!({ "name": "Korn" })).await;
    let tag = format!("\"{}\"", put.ok()["version"].as_str().unwrap());
    assert_eq!(put.header("etag"), tag);
    assert_eq!(server.fetch(&korn).await.header("etag"), tag);
    for method in ["GET", "HEAD"] {
        for (name, value, wanted) in [
            ("if-none-match", &*tag, 304),
            ("if-none-match", "*", 304),
            ("if-none-match", "\"0\"", 200),
            ("if-match", &*tag, 200),
            ("if-match", "\"0\"", 412),
            ("if-match", "0", 400),
        ] {
            assert_eq!(code(&server, method, &korn, &[(name, value)], "").await, wanted, "{method} {name}: {value}");
        }
    }
    let known = server.ask("GET", &korn).header("if-none-match", &tag).await_answer().await;
    assert_eq!((known.header("etag"), known.said()), (&*tag, (304, "")));
    server.put(&korn, json!({ "name": "KoRn" })).await.ok();
    assert_eq!(code(&server, "GET", &korn, &[("if-none-match", &tag)], "").await, 200, "it has changed");
}

#[tokio::test]
async fn a_change_happens_only_if_its_conditions_hold() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let stored = async || match server.fetch(&korn).await {
        answer if answer.code() == 404 => None,
        answer => Some((answer.header("etag").to_owned(), answer.ok()["data"]["name"].as_str().unwrap().to_owned())),
    };
    for (name, value) in [("if-match", "\"1\""), ("if-match", "*"), ("if-match", "\"1\", \"2\"")] {
        for method in ["PUT", "DELETE"] {
            assert_eq!(code(&server, method, &korn, &[(name, value)], "x").await, 412, "{method} {name}: {value}");
        }
    }
    assert_eq!(stored().await, None, "nothing was created");
    assert_eq!(code(&server, "PUT", &korn, &[("if-none-match", "*")], "first").await, 200);
    let (first, name) = stored().await.unwrap();
    assert_eq!(name, "first");

    let weak = format!("W/{first}");
    let refused = [
        vec![("if-none-match", "*")],
        vec![("if-match", "\"0\"")],
        vec![("if-match", &weak)],
        vec![("if-none-match", &*first)],
        vec![("if-match", &first), ("if-none-match", "*")],
    ];
    for method in ["PUT", "DELETE"] {
        for headers in &refused {
            assert_eq!(code(&server, method, &korn, headers, "x").await, 412, "{method} {headers:?}");
        }
        for (name, value) in [("if-match", "0"), ("if-match", ""), ("if-none-match", "\"0"), ("if-match", "*, \"0\"")] {
            assert_eq!(code(&server, method, &korn, &[(name, value)], "x").await, 400, "{method} {name}: {value}");
        }
        let other = format!("{korn}?version=0");
        assert_eq!(code(&server, method, &other, &[("if-match", &first)], "x").await, 412, "{method} of two versions");
    }
    assert_eq!(stored().await.unwrap(), (first.clone(), name), "nothing has changed");

    assert_eq!(code(&server, "PUT", &korn, &[("if-match", &first)], "second").await, 200);
    assert_eq!(code(&server, "PUT", &korn, &[("if-match", &first)], "x").await, 412, "that version is gone");
    assert_eq!(code(&server, "PUT", &korn, &[("if-match", "*")], "third").await, 200);
    assert_eq!(code(&server, "PUT", &korn, &[("if-none-match", "\"0\"")], "fourth").await, 200);
    let (last, name) = stored().await.unwrap();
    assert_eq!(name, "fourth");
    let several = format!("\"0\", {last}");
    assert_eq!(code(&server, "DELETE", &korn, &[("if-match", &several)], "").await, 204);
    assert_eq!(stored().await, None);
    assert_eq!(code(&server, "DELETE", &korn, &[("if-none-match", "*")], "").await, 204, "nothing was there");

    let problem = server.ask("DELETE", &korn).header("if-match", "*").header("accept", "application/problem+json");
    problem.await_answer().await.problem(412, "precondition-failed");
}

/// A single client succeeds when many create a resource at once.
#[tokio::test]
async fn one_of_many_creations_succeeds() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let all = (0..16).map(|n| {
        let (server, korn) = (&server, &korn);
        async move { code(server, "PUT", korn, &[("if-none-match", "*")], &n.to_string()).await }
    });
    let mut codes = futures::future::join_all(all).await;
    codes.sort_unstable();
    assert_eq!((codes[0], codes[1..].iter().all(|code| *code == 412)), (200, true), "{codes:?}");
}

#[tokio::test]
async fn a_misspelt_parameter_of_a_change_is_refused() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    server.put(&korn, json!({ "name": "Korn" })).await.ok();
    let before = server.fetch(&korn).await.ok();
    for query in ["verison=0", "Version=0", "version=", "version", "version=0&version=0", "name_prefix=k", "limit=1"] {
        for (method, path) in [("PUT", "?"), ("DELETE", "?"), ("POST", "/_validate?")] {
            if method == "POST" && query.contains("version") && query != "verison=0" {
                continue;
            }
            let asking = server.ask(method, &format!("{korn}{path}{query}"));
            let asking = if method == "DELETE" { asking } else { asking.json(&json!({ "data": { "name": "x" } })) };
            assert_eq!(asking.await_answer().await.code(), 400, "{method} {query}");
        }
    }
    assert_eq!(server.fetch(&korn).await.ok(), before, "nothing has changed");
    let answer = server.ask("DELETE", &format!("{korn}?verison=0")).await_answer().await;
    let text = "parameter \"verison\" is unknown here; use partition, namespace, version, or leave it out";
    assert_eq!(answer.said(), (400, text));
}

#[tokio::test]
async fn names_of_other_apis_work_or_are_refused() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        server.put(&format!("{ARTISTS}/{name}"), json!({ "name": name })).await.ok();
    }
    let page = server.fetch(&format!("{ARTISTS}?limit=2")).await.ok();
    assert_eq!(page["resources"].as_array().unwrap().len(), 2);
    let token = page["nextPageToken"].as_str().unwrap();
    let rest = server.fetch(&format!("{ARTISTS}?limit=2&continue={token}")).await.ok();
    assert_eq!(rest["resources"].as_array().unwrap().len(), 1);
    let none = server.fetch(&format!("{ARTISTS}?labelSelector=env%3Dprod")).await.ok();
    assert_eq!(none["resources"], json!([]));
    for query in ["fieldSelector=metadata.name%3Da", "offset=1", "sort=name", "q=a", "watch&fieldSelector=a"] {
        assert_eq!(server.fetch(&format!("{ARTISTS}?{query}")).await.code(), 400, "{query}");
    }
}
