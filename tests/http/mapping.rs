//! Consul's HTTP mapping: routes, methods, parameters, bodies, codes. Watches: `watch.rs`; extensions of Consul's API:
//! `types.rs`; limits and unusual clients: `limits.rs`.

use crate::support::{
    Server, Setup, album, artist, bad_names, concept, demo, gvk,
    http::{ARTISTS, Answer, PROBLEM},
    id, id_of, label, make_place, name_rule, noted, owned,
    plugins::Plugins as _,
    tenancy,
};
use serde_json::{Value, json};
use tonic::Code;

const NO_SCHEMA: (u16, &str) = (400, "Request body didn't follow the resource schema");
const NO_FORMAT: (u16, &str) = (400, "Request body format is invalid");

async fn put_raw(server: &Server, path: &str, body: &str) -> Answer {
    server.ask("PUT", path).body(body.to_owned()).await_answer().await
}

#[tokio::test]
async fn put_resources_can_be_read_listed_and_deleted() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let put = server.put(&korn, json!({ "name": "Korn", "genre": "GENRE_METAL" })).await;
    let printed = put.ok();
    let stored = server.read(&id("demo.v2.Artist", "korn")).await.unwrap();
    let uid = id_of(&stored).uid;
    assert_eq!(
        printed,
        json!({
            "data": { "name": "Korn", "genre": "GENRE_METAL" },
            "generation": stored.generation,
            "id": {
                "name": "korn",
                "tenancy": { "namespace": "default", "partition": "default" },
                "type": { "group": "demo", "groupVersion": "v2", "kind": "Artist" },
                "uid": uid,
            },
            "version": stored.version,
        })
    );
    assert_eq!(server.fetch(&korn).await.body, put.body);
    let list = server.fetch(ARTISTS).await;
    assert_eq!(list.ok(), json!({ "resources": [printed] }));

    let deleted = server.ask("DELETE", &korn).await_answer().await;
    assert_eq!(deleted.said(), (204, ""));
    assert_eq!(server.fetch(&korn).await.said(), (404, "rpc error: code = NotFound desc = resource not found"));
    assert_eq!(server.ask("DELETE", &korn).await_answer().await.said(), (204, ""), "also what is not there");
    assert_eq!(server.fetch(ARTISTS).await.said(), (200, "{\n  \"resources\": []\n}"));
}

/// Consul prints keys in alphabetical order, indented by two blanks a level.
#[tokio::test]
async fn the_form_is_consuls() {
    let server = Server::start().await;
    let put =
        server.put(&format!("{ARTISTS}/korn"), json!({ "name": "K", "groupMembers": { "b": "1", "a": "2" } })).await;
    let stored = server.read(&id("demo.v2.Artist", "korn")).await.unwrap();
    let item = format!(
        "{{\n  \"data\": {{\n    \"genre\": \"GENRE_DISCO\",\n    \"groupMembers\": {{\n      \"a\": \"2\",\n      \"b\": \"1\"\n    }},\n    \
         \"name\": \"K\"\n  }},\n  \"generation\": \"{}\",\n  \"id\": {{\n    \"name\": \"korn\",\n    \"tenancy\": {{\n      \
         \"namespace\": \"default\",\n      \"partition\": \"default\"\n    }},\n    \"type\": {{\n      \"group\": \"demo\",\n      \
         \"groupVersion\": \"v2\",\n      \"kind\": \"Artist\"\n    }},\n    \"uid\": \"{}\"\n  }},\n  \"version\": \"{}\"\n}}",
        stored.generation,
        id_of(&stored).uid,
        stored.version
    );
    assert_eq!(put.body, item);
    let list = server.fetch(ARTISTS).await;
    assert_eq!(list.body, format!("{{\n  \"resources\": [\n    {}\n  ]\n}}", item.replace('\n', "\n    ")));
}

#[tokio::test]
async fn every_type_has_its_routes_in_lower_case() {
    let server = Server::start().await;
    for t in [
        "demo/v1/executive",
        "demo/v1/recordlabel",
        "demo/v1/artist",
        "demo/v1/album",
        "demo/v1/concept",
        "demo/v2/artist",
        "demo/v2/album",
        "demo/v2/festival",
        "internal/v1/tombstone",
        "mortise/v1/plugin",
        "mortise/v1/value",
        "tenancy/v2beta1/partition",
        "tenancy/v2beta1/namespace",
    ] {
        let list = server.fetch(&format!("/api/{t}")).await.ok();
        assert!(list["resources"].is_array(), "{t}");
        assert_eq!(server.fetch(&format!("/api/{t}/nobody")).await.code(), 404, "{t}");
    }
    for wrong in [
        "/api/demo/v2/Artist",
        "/api/Demo/v2/artist",
        "/api/demo/V2/artist/korn",
        "/api/demo/v2/ARTIST/korn",
        "/api/demo/v3/artist",
        "/api/demo/v2",
        "/api/demo",
        "/api",
        "/api/",
        "/demo/v2/artist",
        "/",
        "/nowhere",
    ] {
        let (code, text) = (server.fetch(wrong).await.code(), server.fetch(wrong).await.body);
        assert_eq!(code, 404, "{wrong}");
        assert!(text.contains(wrong) && text.contains("/v1/types"), "{wrong}: {text}");
    }
}

#[tokio::test]
async fn tombstones_are_resources_too() {
    let server = Server::start().await;
    let written = server.write(artist("korn")).await.unwrap();
    server.delete(&id_of(&written), "").await.unwrap();
    let place = "partition=default&namespace=default";
    let list = server.fetch(&format!("/api/internal/v1/tombstone?{place}")).await.ok();
    let tombstone = &list["resources"][0];
    assert_eq!(tombstone["data"]["owner"]["uid"], id_of(&written).uid);
    let name = tombstone["id"]["name"].as_str().unwrap();
    let found = server.fetch(&format!("/api/internal/v1/tombstone/{name}?{place}")).await.ok();
    // The reaper may have written to it in between.
    assert_eq!((&found["id"], &found["data"]), (&tombstone["id"], &tombstone["data"]));
    let nowhere = server.fetch(&format!("/api/internal/v1/tombstone/{name}")).await;
    assert_eq!(nowhere.code(), 404, "the place of a tombstone is not filled in");
}

#[tokio::test]
async fn routes_follow_the_plugins() {
    let server = Setup::new().limit("plugin_rescan_ms", 200).start().await;
    let things = "/api/prior/v1/thing";
    assert_eq!(server.fetch(things).await.code(), 404);
    server.install("prior", &std::fs::read(mortise_test_guests::component("prior")).unwrap()).await.unwrap();
    assert_eq!(server.fetch(things).await.ok(), json!({ "resources": [] }));
    server.put(&format!("{things}/one"), json!({})).await.ok();

    let mut plugins = server.plugins().await;
    plugins.remove(mortise_resource::data::RemoveRequest { name: "prior".into() }).await.unwrap();
    assert_eq!(server.fetch(&format!("{things}/one")).await.code(), 200, "what is stored stays readable");
    let refused = server.put(&format!("{things}/one"), json!({})).await;
    assert_eq!(refused.code(), 500, "Consul has no code of its own for FailedPrecondition");
    assert!(refused.body.starts_with("rpc error: code = FailedPrecondition desc = type prior.v1.Thing is read-only"));
    let body = json!({ "data": {} });
    let put = server.ask("PUT", &format!("{things}/one")).json(&body).header("accept", PROBLEM);
    put.await_answer().await.problem(409, "failed-precondition");
    assert_eq!(server.ask("DELETE", &format!("{things}/one")).await_answer().await.code(), 204);
    crate::support::eventually("the route goes", async || server.fetch(things).await.code() == 404).await;
}

#[tokio::test]
async fn the_last_element_is_the_name() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    for path in ["korn", "korn/", "a/korn", "a/b/korn//", "k%6frn", "%6b%6f%72%6e"] {
        assert_eq!(server.fetch(&format!("{ARTISTS}/{path}")).await.ok()["id"]["name"], "korn", "{path}");
    }
    let bad = |name: &str| format!("rpc error: code = InvalidArgument desc = id.name invalid: {}", name_rule(name));
    for (path, name) in [
        ("", ""),
        ("KORN", "KORN"),
        ("a%2Fkorn", "a/korn"),
        ("k%C3%B6rn", "körn"),
        ("ko%20rn", "ko rn"),
        ("ko+rn", "ko+rn"),
        ("%ff", "\u{fffd}"),
        ("%00", "\0"),
        ("%zz", "%zz"),
        ("..", ".."),
    ] {
        let answer = server.fetch(&format!("{ARTISTS}/{path}")).await;
        assert_eq!(answer.said(), (400, bad(name).as_str()), "{path}");
    }
    let body = put_raw(&server, &format!("{ARTISTS}/"), r#"{"data": {"name": "x"}}"#).await;
    let missing = format!("rpc error: code = InvalidArgument desc = resource.id.name invalid: {}", name_rule(""));
    assert_eq!(body.said(), (400, missing.as_str()));
    for name in bad_names() {
        let encoded: String = name.bytes().map(|b| format!("%{b:02x}")).collect();
        let answer = server.put(&format!("{ARTISTS}/{encoded}"), json!({ "name": "x" })).await;
        assert_eq!(answer.code(), 400, "{name:?}: {answer:?}");
        assert!(answer.body.ends_with(&name_rule(&name)), "{answer:?}");
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_the_allowed_ones() {
    let server = Server::start().await;
    let item = format!("{ARTISTS}/korn");
    let dry = format!("{item}/_validate");
    for (path, allowed) in [
        (ARTISTS, "GET, HEAD, OPTIONS"),
        (&item, "GET, HEAD, PUT, DELETE, OPTIONS"),
        (&dry, "POST, OPTIONS"),
        ("/v1/types", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
    ] {
        for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "TRACE", "PROPFIND"] {
            if !allowed.contains(method) {
                let answer = server.ask(method, path).await_answer().await;
                assert_eq!(answer.said(), (405, ""), "{method} {path}");
                assert_eq!(answer.header("allow"), allowed, "{method} {path}");
            }
        }
        let options = server.ask("OPTIONS", path).await_answer().await;
        assert_eq!((options.said(), options.header("allow")), ((204, ""), allowed), "{path}");
        assert_eq!(options.header("access-control-allow-origin"), "", "no page of another origin may write");
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    for path in [&format!("{ARTISTS}/korn"), ARTISTS, "/healthz", "/v1/types", &format!("{ARTISTS}/nobody")] {
        let (get, head) = (server.fetch(path).await, server.ask("HEAD", path).await_answer().await);
        assert_eq!((head.code(), head.body.as_str()), (get.code(), ""), "{path}");
        for name in ["content-type", "content-length"] {
            assert_eq!(head.header(name), get.header(name), "{path}: {name}");
        }
        assert_eq!(head.header("content-length"), get.body.len().to_string(), "{path}");
    }
}

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
        ("?partition=p&partition=q&ns=n&peer=x&peer_name=y&dc=z&unknown", "p", "n"),
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
    assert_eq!(deleted.said(), (400, text), "over gRPC this is Internal, but no server broke");
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

#[tokio::test]
async fn metadata_and_owner_stand_in_the_body() {
    let server = Server::start().await;
    let owner = id_of(&server.write(artist("korn")).await.unwrap());
    let body = |owner: Value| json!({ "data": { "title": "Issues", "yearOfRelease": 1999 }, "metadata": { "b": "2", "a": "1" }, "owner": owner });
    let by_name = json!({
        "name": "korn",
        "type": { "group": "demo", "group_version": "v2", "kind": "Artist" },
        "tenancy": { "partition": "default", "namespace": "default" },
    });
    let put = server.ask("PUT", "/api/demo/v2/album/issues").json(&body(by_name)).await_answer().await.ok();
    assert_eq!(put["metadata"], json!({ "a": "1", "b": "2" }));
    assert_eq!(put["owner"]["uid"], owner.uid);
    let by_uid = put["owner"].clone();
    assert_eq!(by_uid["type"]["groupVersion"], "v2");
    let again = server.ask("PUT", "/api/demo/v2/album/issues").json(&body(by_uid)).await_answer().await.ok();
    assert_eq!(again["owner"], put["owner"]);

    let read = server.fetch("/api/demo/v2/album/issues").await.body;
    let back = put_raw(&server, "/api/demo/v2/album/issues", &read).await.ok();
    assert_eq!(back["data"], again["data"], "what was read can be written: other keys are ignored");
    let refused = server.put("/api/demo/v2/album/issues", json!({ "title": "x" })).await;
    assert_eq!(refused.said(), (400, "rpc error: code = InvalidArgument desc = owner cannot be changed"));
    let stored = server.read(&id("demo.v2.Album", "issues")).await.unwrap();
    assert_eq!(crate::support::decoded::<demo::v2::Album>(&stored).year_of_release, 1999);
    let nobody = json!({ "data": {}, "owner": {} });
    let refused = server.ask("PUT", "/api/demo/v2/album/x").json(&nobody).await_answer().await;
    assert_eq!(refused.said(), (400, "rpc error: code = InvalidArgument desc = resource.owner.type is required"));
}

#[tokio::test]
async fn bodies_of_the_wrong_format_are_refused() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    for body in [
        "",
        " ",
        "nonsense",
        "[]",
        "7",
        "\"x\"",
        "{",
        "{\"data\": {\"name\": \"x\"}",
        "{\"data\": {\"name\": \"x\"}} {}",
        "{\"data\": {\"name\": \"x\"},}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": []}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": {\"a\": 1}}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": {\"a\": null}}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": {\"a\": \"1\", \"a\": \"2\"}}",
        "{\"data\": {\"name\": \"x\"}, \"data\": {\"name\": \"y\"}}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": {\"name\": \"a\", \"name\": \"b\"}}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": \"korn\"}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": {\"nome\": \"korn\"}}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": {\"type\": {\"kind\": 7}}}",
        "{\"data\": nope}",
    ] {
        assert_eq!(put_raw(&server, &korn, body).await.said(), NO_FORMAT, "{body}");
    }
    let deep = format!("{{\"data\": {{\"name\": {}1{}}}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(put_raw(&server, &korn, &deep).await.code(), 400);
    let latin = server.ask("PUT", &korn).body(&b"{\"data\": {\"name\": \"K\xf6rn\"}}"[..]).await_answer().await;
    assert_eq!(latin.said(), NO_FORMAT);
    assert_eq!(server.fetch(&korn).await.code(), 404, "nothing is stored");
}

#[tokio::test]
async fn data_that_is_not_of_the_type_is_refused() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    for body in [
        "null",
        "{}",
        "{\"metadata\": {}}",
        "{\"data\": null}",
        "{\"data\": 7}",
        "{\"data\": \"x\"}",
        "{\"data\": [{\"name\": \"x\"}]}",
        "{\"data\": {\"name\": 7}}",
        "{\"data\": {\"name\": \"x\", \"nome\": \"y\"}}",
        "{\"data\": {\"name\": \"x\", \"@type\": \"type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist\"}}",
        "{\"data\": {\"name\": \"x\", \"genre\": \"GENRE_NOISE\"}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": {\"a\": 1}}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": []}}",
        "{\"data\": {\"name\": \"x\", \"name\": \"y\"}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": {}, \"group_members\": {}}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": {\"a\": \"1\", \"a\": \"1\"}}}",
    ] {
        assert_eq!(put_raw(&server, &korn, body).await.said(), NO_SCHEMA, "{body}");
    }
    for (data, ok) in [
        ("{\"yearOfRelease\": 1e3}", true),
        ("{\"yearOfRelease\": \"1999\"}", true),
        ("{\"yearOfRelease\": 1.5}", false),
    ] {
        let put = put_raw(&server, "/api/demo/v2/album/x", &format!("{{\"data\": {data}}}")).await;
        assert_eq!(put.code() == 200, ok, "{data}: {put:?}");
    }
    assert_eq!(server.fetch(&korn).await.code(), 404, "nothing is stored");
}

#[tokio::test]
async fn problems_name_the_field() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    for (body, path) in [
        ("{\"data\": {\"name\": 7}}", "data.name"),
        ("{\"data\": {\"name\": \"x\", \"genre\": \"GENRE_NOISE\"}}", "data.genre"),
        ("{\"data\": {\"groupMembers\": {\"drums\": 1}}}", "data.group_members[\"drums\"]"),
        ("{\"data\": {\"group_members\": {\"drums\": 1}}}", "data.group_members[\"drums\"]"),
        ("{\"data\": null}", "data"),
        ("{\"data\": {}, \"metadata\": {\"a\": 1}}", "metadata.a"),
        ("{\"data\": {}, \"owner\": {\"type\": {\"groupVersion\": 1}}}", "owner.type.group_version"),
    ] {
        let answer = server.ask("PUT", &korn).header("accept", PROBLEM).body(body).await_answer().await;
        let problem = answer.problem(400, "malformed-body");
        assert_eq!(problem["violations"][0]["path"], path, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().starts_with("Request body "), "{problem}");
        assert_eq!(problem["instance"], korn);
    }
    let festival = "{\"data\": {\"artists\": [{\"name\": \"a\"}, {\"groupMembers\": {\"x\": []}}]}}";
    let answer =
        server.ask("PUT", "/api/demo/v2/festival/x").header("accept", PROBLEM).body(festival).await_answer().await;
    assert_eq!(answer.problem(400, "malformed-body")["violations"][0]["path"], "data.artists[1].group_members[\"x\"]");

    let nameless = server.ask("PUT", &korn).header("accept", PROBLEM).json(&json!({ "data": {} })).await_answer().await;
    let problem = nameless.problem(400, "invalid-argument");
    assert_eq!(problem["detail"], "artist.name required");
    assert_eq!(problem["violations"], json!([{ "path": "data.name", "summary": "artist.name required" }]));
    assert_eq!(
        server.put(&korn, json!({})).await.said(),
        (400, "rpc error: code = InvalidArgument desc = artist.name required")
    );
}

#[tokio::test]
async fn problems_are_sent_to_clients_that_prefer_them() {
    let server = Server::start().await;
    let path = format!("{ARTISTS}/nobody");
    for (accept, problem) in [
        ("*/*", false),
        ("text/plain", false),
        ("text/html, */*;q=0.8", false),
        ("text/plain, application/problem+json;q=0.5", false),
        ("application/problem+json", true),
        ("application/problem+json, */*", true),
        ("application/json", true),
        ("application/json;q=0.9, text/plain;q=0.1", true),
    ] {
        let answer = server.ask("GET", &path).header("accept", accept).await_answer().await;
        assert_eq!(answer.code(), 404);
        if problem {
            assert_eq!(answer.problem(404, "not-found")["detail"], "resource not found");
        } else {
            assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{accept}");
            assert_eq!(answer.body, "rpc error: code = NotFound desc = resource not found");
        }
    }
    let nowhere = server.ask("GET", "/api/nope/v1/nope").header("accept", PROBLEM).await_answer().await;
    nowhere.problem(404, "no-route");
}

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
    assert!(broken.body.starts_with("rpc error: code = Internal desc = "), "{broken:?}");
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
    crate::support::eventually("the hook is quarantined", async || put().await.code() == 503).await;
    let answer = put().await;
    let problem = answer.problem(503, "unavailable");
    assert!(problem["plugin"]["retry_after_ms"].as_u64().is_some_and(|ms| ms <= 60_000), "{problem}");
    assert!((1..=60).contains(&answer.header("retry-after").parse::<u64>().unwrap()), "{answer:?}");
    let consul = server.put("/api/panicking/v1/thing/boom-mutate", json!({})).await;
    assert_eq!((consul.code(), consul.header("retry-after").is_empty()), (500, false));
}

#[tokio::test]
async fn resources_without_data_and_with_status_are_printed() {
    let server = Server::start().await;
    let written = server.write(concept("bare")).await.unwrap();
    let bare = server.fetch("/api/demo/v1/concept/bare").await.ok();
    assert!(bare.get("data").is_none(), "{bare}");
    assert_eq!(server.fetch("/api/demo/v1/concept").await.ok()["resources"], json!([bare]));

    let status = mortise_resource::pb::Status {
        observed_generation: written.generation.clone(),
        conditions: vec![mortise_resource::pb::Condition {
            r#type: "Accepted".into(),
            state: 1,
            reason: "Fine".into(),
            message: "<&>".into(),
            resource: None,
        }],
        updated_at: None,
    };
    let request = mortise_resource::pb::WriteStatusRequest {
        id: written.id.clone(),
        version: String::new(),
        key: "tester".into(),
        status: Some(status),
    };
    server.write_status(request).await.unwrap();
    let printed = server.fetch("/api/demo/v1/concept/bare").await.ok();
    let status = &printed["status"]["tester"];
    assert_eq!(status["observedGeneration"], written.generation);
    assert_eq!(
        status["conditions"],
        json!([{ "type": "Accepted", "state": "STATE_TRUE", "reason": "Fine", "message": "<&>" }])
    );
    assert!(status["updatedAt"].as_str().unwrap().ends_with('Z'), "{status}");
    server.put("/api/demo/v1/concept/bare", json!({})).await.ok();
    let kept = server.fetch("/api/demo/v1/concept/bare").await.ok();
    assert_eq!((&kept["status"], &kept["data"]), (&printed["status"], &json!({})));
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
    let mut freed = marked.clone();
    freed["metadata"]["finalizers"] = json!("");
    assert_eq!(put_raw(&server, &held, &freed.to_string()).await.code(), 200);
    assert_eq!(server.fetch(&held).await.code(), 404);
}

/// Each transport reads the writes of the other.
#[tokio::test]
async fn both_transports_are_one_service() {
    let server = Server::start().await;
    let owner = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(owned(album("one", None), &owner)).await.unwrap();
    server.write(label("x", "default")).await.unwrap();
    assert_eq!(server.fetch("/api/demo/v2/album/one").await.ok()["owner"]["name"], "korn");
    server.put("/api/demo/v2/album/two", json!({ "title": "Two" })).await.ok();
    let listed = server.list(gvk("demo.v2.Album"), tenancy("", ""), "").await.unwrap();
    assert_eq!(crate::support::names(&listed), ["one", "two"]);
    assert_eq!(server.ask("DELETE", &format!("{ARTISTS}/korn")).await_answer().await.code(), 204);
    crate::support::eventually("the album follows", async || {
        server.read(&id("demo.v2.Album", "one")).await.is_err_and(|e| e.code() == Code::NotFound)
    })
    .await;
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
