//! Parameters of requests: places, prefixes, versions; tokens.

use serde_json::{Value, json};

use crate::support::{Server, artist, http::ARTISTS, make_place, name_rule};

#[tokio::test]
async fn places_are_parameters() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    for (query, partition, namespace) in [
        ("", "default", "default"),
        ("?partition=&namespace=", "default", "default"),
        ("?partition=p", "p", "default"),
        ("?partition=p&namespace=n", "p", "n"),
        ("?partition=p&ns=n", "p", "n"),
        ("?partition=p&ns=other&namespace=n", "p", "n"),
        ("?partition=p&partition=q&ns=n&peer=x&peer_name=y&dc=z", "p", "n"),
    ] {
        let path = format!("{ARTISTS}/korn{query}");
        let put = server.put(&path, json!({ "name": "K" })).await.ok();
        assert_eq!(put["id"]["tenancy"], json!({ "partition": partition, "namespace": namespace }), "{query}");
        assert_eq!(server.fetch(&path).await.ok(), put, "{query}");
        let list = server.fetch(&format!("{ARTISTS}{query}")).await.ok();
        assert_eq!(list["resources"], json!([put]), "{query}");
    }
    assert_eq!(
        server.fetch(&format!("{ARTISTS}?partition=*&namespace=*")).await.ok()["resources"].as_array().unwrap().len(),
        3
    );
    assert_eq!(
        server.fetch(&format!("{ARTISTS}?partition=p&ns=%2A")).await.ok()["resources"].as_array().unwrap().len(),
        2
    );

    let path = format!("{ARTISTS}/korn?partition=p&ns=n");
    assert_eq!(server.ask("DELETE", &path).await_answer().await.code(), 204);
    assert_eq!(server.fetch(&path).await.code(), 404);
    assert_eq!(server.fetch(&format!("{ARTISTS}/korn?partition=p")).await.code(), 200, "the neighbour is still there");

    for (path, code, text) in [
        ("korn?partition=nope", 404, "NotFound desc = partition not found: nope".to_owned()),
        ("korn?partition=p&ns=nope", 404, "NotFound desc = namespace not found: nope".to_owned()),
        ("korn?partition=*", 400, format!("InvalidArgument desc = id.tenancy.partition invalid: {}", name_rule("*"))),
        ("korn?ns=N", 400, format!("InvalidArgument desc = id.tenancy.namespace invalid: {}", name_rule("N"))),
    ] {
        let text = format!("rpc error: code = {text}");
        assert_eq!(server.fetch(&format!("{ARTISTS}/{path}")).await.said(), (code, text.as_str()));
    }
    let text = "rpc error: code = InvalidArgument desc = partition not found: nope";
    assert_eq!(server.put(&format!("{ARTISTS}/korn?partition=nope"), json!({ "name": "K" })).await.said(), (400, text));
    assert_eq!(server.fetch(&format!("{ARTISTS}?partition=nope")).await.ok(), json!({ "resources": [] }));
}

#[tokio::test]
async fn units_that_the_scope_lacks_are_refused() {
    let server = Server::start().await;
    for (path, text) in [
        ("recordlabel/x?ns=n", "partition scoped resource demo.v1.RecordLabel cannot have a namespace. got: n"),
        ("recordlabel?ns=n", "partition scoped type demo.v1.RecordLabel cannot have a namespace. got: n"),
        ("executive/x?partition=default", "cluster scoped resource demo.v1.Executive cannot have a partition: default"),
        ("executive/x?ns=n", "cluster scoped resource demo.v1.Executive cannot have a namespace: n"),
    ] {
        let text = format!("rpc error: code = InvalidArgument desc = {text}");
        assert_eq!(server.fetch(&format!("/api/demo/v1/{path}")).await.said(), (400, text.as_str()), "{path}");
    }
    let put = server.put("/api/demo/v1/executive/boss?partition=default", json!({})).await;
    assert_eq!(put.code(), 400, "a cluster-scoped type is written without tenancy only");
    let boss = server.put("/api/demo/v1/executive/boss", json!({ "position": "CEO" })).await.ok();
    assert_eq!(boss["id"].get("tenancy"), Some(&json!({})));
    let label = server.put("/api/demo/v1/recordlabel/x", json!({ "name": "x" })).await.ok();
    assert_eq!(label["id"]["tenancy"], json!({ "partition": "default" }));
}

#[tokio::test]
async fn lists_by_prefix_and_by_group_version() {
    let server = Server::start().await;
    for name in ["korn", "koala", "abba"] {
        server.write(artist(name)).await.unwrap();
    }
    let list = async |query: &str| -> Vec<String> {
        let list = server.fetch(&format!("{ARTISTS}{query}")).await.ok();
        let name = |r: &Value| r["id"]["name"].as_str().unwrap().to_owned();
        list["resources"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(list("").await, ["abba", "koala", "korn"]);
    assert_eq!(list("?name_prefix=ko").await, ["koala", "korn"]);
    assert_eq!(list("?name_prefix=korn&consistent").await, ["korn"]);
    assert!(list("?name_prefix=x").await.is_empty());
    let text = "rpc error: code = InvalidArgument desc = name_prefix invalid: must be lowercase alphanumeric, got: Ko";
    assert_eq!(server.fetch(&format!("{ARTISTS}?name_prefix=Ko")).await.said(), (400, text));

    assert_eq!(server.fetch("/api/demo/v1/artist").await.ok(), json!({ "resources": [] }), "those are of v2");
    let other = server.fetch("/api/demo/v1/artist/korn").await;
    let text = "rpc error: code = InvalidArgument desc = resource was requested with GroupVersion=\"v1\", but stored with \
                GroupVersion=\"v2\"";
    assert_eq!(other.said(), (400, text));
    let deleted = server.ask("DELETE", "/api/demo/v1/artist/korn").await_answer().await;
    let text = "rpc error: code = InvalidArgument desc = failed read: resource was requested with GroupVersion=\"v1\", but \
                stored with GroupVersion=\"v2\"";
    assert_eq!(deleted.said(), (400, text));
    assert_eq!(list("?name_prefix=korn").await, ["korn"]);
}

#[tokio::test]
async fn a_version_makes_a_write_conditional() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let aborted = "rpc error: code = Aborted desc = CAS operation failed because the given version doesn't match what is \
                   stored";
    let data = json!({ "name": "Korn" });
    assert_eq!(
        server.put(&format!("{korn}?version=1"), data.clone()).await.said(),
        (409, aborted),
        "nothing is stored"
    );
    let first = server.put(&korn, data.clone()).await.ok();
    let version = first["version"].as_str().unwrap();
    let second = server.put(&format!("{korn}?version={version}"), json!({ "name": "KoRn" })).await.ok();
    assert_eq!(second["id"]["uid"], first["id"]["uid"]);
    assert_ne!(second["version"], first["version"]);
    assert_eq!(server.put(&format!("{korn}?version={version}"), data.clone()).await.said(), (409, aborted));
    assert_eq!(server.fetch(&korn).await.ok()["data"]["name"], "KoRn");
    server.put(&korn, data).await.ok();

    // Consul ignores the parameter here.
    let gone = server.ask("DELETE", &format!("{korn}?version={version}")).await_answer().await;
    assert_eq!(gone.said(), (409, aborted));
    let version = server.fetch(&korn).await.ok()["version"].as_str().unwrap().to_owned();
    let gone = server.ask("DELETE", &format!("{korn}?version={version}")).await_answer().await;
    assert_eq!(gone.code(), 204);
}

/// Without access control, tokens are accepted where Consul's clients put them, and change nothing.
#[tokio::test]
async fn tokens_are_taken() {
    let server = Server::start().await;
    for (header, value, query) in
        [("x-consul-token", "t", ""), ("authorization", "Bearer t", ""), ("x-other", "", "?token=t")]
    {
        let path = format!("{ARTISTS}/korn{query}");
        let put = server.ask("PUT", &path).header(header, value).json(&json!({ "data": { "name": "K" } }));
        put.await_answer().await.ok();
    }
}
