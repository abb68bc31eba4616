//! Extensions of Consul's mapping in HTTP: dry runs, the types, and the API's own description.

use crate::support::{
    Server, Setup, eventually, gvk,
    http::{ARTISTS, Answer, PROBLEM},
    id, make_place,
    plugins::Plugins as _,
    tenancy,
};
use mortise_resource::data;
use serde_json::{Value, json};

async fn dry(server: &Server, path: &str, body: &Value) -> Answer {
    server.ask("POST", &format!("{path}/_validate")).json(body).await_answer().await
}

#[tokio::test]
async fn a_dry_run_returns_the_resource_and_stores_nothing() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let body = json!({ "data": { "name": "Korn" }, "metadata": { "a": "b" } });
    let answer = dry(&server, &korn, &body).await.ok();
    assert_eq!(
        answer,
        json!({
            "resource": {
                "data": { "genre": "GENRE_DISCO", "name": "Korn" },
                "id": {
                    "name": "korn",
                    "tenancy": { "namespace": "default", "partition": "default" },
                    "type": { "group": "demo", "groupVersion": "v2", "kind": "Artist" },
                },
                "metadata": { "a": "b" },
            },
            "warnings": [],
        })
    );
    assert_eq!(server.fetch(&korn).await.code(), 404);
    make_place(&server, "p", "n").await;
    let there = server.ask("POST", &format!("{korn}/_validate?partition=p&ns=n")).json(&body).await_answer().await.ok();
    assert_eq!(there["resource"]["id"]["tenancy"], json!({ "namespace": "n", "partition": "p" }));
    assert!(server.list(gvk("demo.v2.Artist"), tenancy("*", "*"), "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_dry_run_brings_warnings() {
    let server = Server::start().await;
    let body = json!({ "data": { "title": "x", "yearOfRelease": 1800 } });
    let answer = dry(&server, "/api/demo/v2/album/x", &body).await.ok();
    assert_eq!(
        answer["warnings"],
        json!([{
            "path": "data.year_of_release",
            "summary": "album.year_of_release is 1800, before there were recordings",
            "detail": "Leave it out if the year is not known.",
            "severity": "warning",
        }])
    );
}

#[tokio::test]
async fn a_dry_run_is_refused_with_problems() {
    let server = Setup::new().guest("deny").start().await;
    let korn = format!("{ARTISTS}/korn");
    let problem = dry(&server, &korn, &json!({ "data": {} })).await.problem(400, "invalid-argument");
    assert_eq!(problem["violations"], json!([{ "path": "data.name", "summary": "artist.name required" }]));
    assert_eq!(problem["instance"], format!("{korn}/_validate"));
    let problem = dry(&server, &korn, &json!({ "data": { "nome": "x" } })).await.problem(400, "malformed-body");
    assert_eq!(problem["violations"][0]["path"], "data.nome");
    dry(&server, &korn, &json!({})).await.problem(400, "malformed-body");
    dry(&server, &format!("{ARTISTS}/KORN"), &json!({ "data": { "name": "x" } }))
        .await
        .problem(400, "invalid-argument");
    dry(&server, ARTISTS, &json!({ "data": { "name": "x" } })).await.problem(400, "invalid-argument");
    let frozen = json!({ "data": { "text": "frozen" } });
    dry(&server, "/api/deny/v1/bycontent/x", &frozen).await.problem(403, "permission-denied");
    let nowhere =
        server.ask("POST", &format!("{korn}/_validate?partition=nope")).json(&json!({ "data": { "name": "x" } }));
    nowhere.await_answer().await.problem(400, "invalid-argument");
    let text =
        server.ask("POST", &format!("{korn}/_validate")).header("accept", "text/plain").json(&json!({ "data": {} }));
    assert_eq!(
        text.await_answer().await.said(),
        (400, "rpc error: code = InvalidArgument desc = artist.name required")
    );
}

fn named<'a>(types: &'a Value, name: &str) -> Option<&'a Value> {
    types["types"].as_array().unwrap().iter().find(|t| t["name"] == name)
}

#[tokio::test]
async fn types_are_described() {
    let server = Server::start().await;
    let types = server.fetch("/v1/types").await.ok();
    let artist = named(&types, "demo.v2.Artist").unwrap();
    assert_eq!(
        artist,
        &json!({
            "name": "demo.v2.Artist", "group": "demo", "groupVersion": "v2", "kind": "Artist", "path": ARTISTS,
            "scope": "namespace", "message": "hashicorp.consul.internal.demo.v2.Artist", "schemaVersion": 1, "plugin": "demo",
            "pluginVersion": artist["pluginVersion"], "orphaned": false, "shortNames": ["artist", "artists"],
            "printerColumns": [{ "name": "ARTIST", "path": "data.name" }, { "name": "GENRE", "path": "data.genre" }],
            "immutableFields": [],
        })
    );
    assert!(artist["pluginVersion"].as_str().is_some_and(|version| !version.is_empty()));
    for (name, scope, plugin) in [
        ("demo.v1.Executive", "cluster", json!("demo")),
        ("demo.v1.RecordLabel", "partition", json!("demo")),
        ("internal.v1.Tombstone", "undefined", Value::Null),
        ("mortise.v1.Plugin", "cluster", Value::Null),
        ("tenancy.v2beta1.Namespace", "partition", Value::Null),
    ] {
        let found = named(&types, name).unwrap();
        assert_eq!((&found["scope"], &found["plugin"]), (&json!(scope), &plugin), "{name}");
        assert_eq!(server.fetch(found["path"].as_str().unwrap()).await.code(), 200, "{name}");
        let one = server.fetch(&format!("/v1/types/{name}")).await.ok();
        assert_eq!(one["schema"]["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        let mut summary = one.clone();
        summary.as_object_mut().unwrap().remove("schema");
        assert_eq!(&summary, found, "{name}");
    }
    let one = server.fetch("/v1/types/demo.v2.Artist").await.ok();
    let properties = &one["schema"]["$defs"]["hashicorp.consul.internal.demo.v2.Artist"]["properties"];
    assert_eq!(
        properties["groupMembers"],
        json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "Instrument by member." })
    );
    assert_eq!(properties["@unknown"]["contentEncoding"], "base64", "fields of a newer version are printed so");
    for unknown in ["demo.v2.artist", "demo.v2", "demo.v9.Artist", "%ff", "x"] {
        let problem = server.fetch(&format!("/v1/types/{unknown}")).await;
        assert!(matches!(problem.code(), 400 | 404), "{problem:?}");
    }
    for path in ["/v1/types/%C3%90", "/v1/types/a%20b", "/v1/types/{x}|"] {
        let problem = server.fetch(path).await.problem(404, "not-found");
        assert_eq!(problem["instance"], path.replace("{x}|", "%7Bx%7D%7C"), "a reference, as RFC 3986 has it");
    }
    server.fetch("/v1/types/%ff").await.problem(404, "not-found");
    server.fetch("/v1/nope").await.problem(404, "no-route");
    let problem = server.fetch("/v1/types/demo.v9.Artist").await.problem(404, "not-found");
    assert_eq!(problem["detail"], "resource type demo.v9.Artist not registered; GET /v1/types lists registered types");
}

#[tokio::test]
async fn the_description_follows_the_plugins() {
    let server = Setup::new().limit("plugin_rescan_ms", 200).start().await;
    let things = "/api/prior/v1/thing";
    let before = server.fetch("/v1/openapi.json").await;
    assert_eq!(before.ok()["openapi"], "3.1.0");
    assert_eq!(server.fetch("/v1/openapi.json").await.body, before.body);
    assert!(before.json()["paths"].get(things).is_none());
    server.install("prior", &std::fs::read(mortise_test_guests::component("prior")).unwrap()).await.unwrap();
    let with = server.fetch("/v1/openapi.json").await.ok();
    for path in [things.to_owned(), format!("{things}/{{name}}"), format!("{things}/{{name}}/_validate")] {
        assert!(with["paths"].get(&path).is_some(), "{path}");
    }
    assert!(named(&server.fetch("/v1/types").await.ok(), "prior.v1.Thing").is_some());

    server.put(&format!("{things}/one"), json!({})).await.ok();
    let mut plugins = server.plugins().await;
    plugins.remove(data::RemoveRequest { name: "prior".into() }).await.unwrap();
    let types = server.fetch("/v1/types").await.ok();
    let orphan = named(&types, "prior.v1.Thing").unwrap();
    assert_eq!((&orphan["orphaned"], &orphan["plugin"]), (&json!(true), &json!("prior")));
    server.delete(&id("prior.v1.Thing", "one"), "").await.unwrap();
    eventually("the type is gone", async || named(&server.fetch("/v1/types").await.ok(), "prior.v1.Thing").is_none())
        .await;
    assert!(server.fetch("/v1/openapi.json").await.ok()["paths"].get(things).is_none());
}

/// The document has each type of the server, with a path that is served, and all answers of each operation.
#[tokio::test]
async fn every_type_is_in_the_document() {
    let server = Server::start().await;
    let document = server.fetch("/v1/openapi.json").await.ok();
    let types = server.fetch("/v1/types").await.ok();
    for t in types["types"].as_array().unwrap() {
        let (name, path) = (t["name"].as_str().unwrap(), t["path"].as_str().unwrap());
        let list = &document["paths"][path]["get"];
        assert_eq!(list["operationId"], format!("{name}.list"));
        assert!(list["responses"]["200"]["content"].get("application/json").is_some(), "{name}");
        for (path, verb) in [(format!("{path}/_watch"), "watch"), (format!("{path}/{{name}}/_watch"), "follow")] {
            let watch = &document["paths"][path]["get"];
            assert_eq!(watch["operationId"], format!("{name}.{verb}"));
            assert!(watch["responses"]["200"]["content"].get("text/event-stream").is_some(), "{name}");
        }
        let item = &document["paths"][format!("{path}/{{name}}")];
        for (method, success) in [("get", "200"), ("put", "200"), ("patch", "200"), ("delete", "204")] {
            assert!(item[method]["responses"].get(success).is_some(), "{name}: {method}");
            for code in ["400", "401", "403", "404", "429", "500"] {
                assert!(item[method]["responses"].get(code).is_some(), "{name}: {method} {code}");
            }
        }
    }
}

#[tokio::test]
async fn each_group_has_a_document() {
    let server = Server::start().await;
    let whole = server.fetch("/v1/openapi.json").await.ok();
    let demo = server.fetch("/v1/openapi/demo.json").await.ok();
    let paths = |document: &Value| document["paths"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let of_demo: Vec<_> = paths(&whole).into_iter().filter(|path| path.starts_with("/api/demo/")).collect();
    assert_eq!(paths(&demo), of_demo);
    for path in of_demo {
        assert_eq!(demo["paths"][&path], whole["paths"][&path], "{path}");
    }
    assert_eq!(demo["components"]["securitySchemes"], whole["components"]["securitySchemes"]);
    for unknown in ["nope.json", "demo", "demo.yaml", "%ff.json"] {
        let problem = server.fetch(&format!("/v1/openapi/{unknown}")).await.problem(404, "not-found");
        assert!(problem["detail"].as_str().unwrap().contains("/v1/openapi/demo.json"), "{problem}");
    }
}

#[tokio::test]
async fn the_version_has_a_path() {
    let server = Server::start().await;
    let version = server.fetch("/v1/version").await.ok();
    assert_eq!(version, json!({ "name": "mortise", "version": env!("CARGO_PKG_VERSION") }));
}

#[tokio::test]
async fn errors_of_ours_are_problems_unless_text_is_preferred() {
    let server = Server::start().await;
    let text = server.ask("GET", "/v1/types/nope").header("accept", "text/plain").await_answer().await;
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    for accept in ["*/*", "application/json", PROBLEM] {
        server.ask("GET", "/v1/types/nope").header("accept", accept).await_answer().await.problem(404, "not-found");
    }
}
