//! Routes, methods and names; one service behind both ports.

use serde_json::json;
use tonic::Code;

use super::put_raw;
use crate::support::{
    Server, Setup, album, artist, bad_names, eventually, gvk,
    http::{ARTISTS, PROBLEM},
    id, id_of, label, name_rule, names, owned,
    plugins::Plugins as _,
    tenancy,
};

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
    assert!(
        refused.said().1.starts_with("rpc error: code = FailedPrecondition desc = type prior.v1.Thing is read-only")
    );
    let body = json!({ "data": {} });
    let put = server.ask("PUT", &format!("{things}/one")).json(&body).header("accept", PROBLEM);
    put.await_answer().await.problem(409, "failed-precondition");
    assert_eq!(server.ask("DELETE", &format!("{things}/one")).await_answer().await.code(), 204);
    eventually("the route goes", async || server.fetch(things).await.code() == 404).await;
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
        assert!(answer.said().1.ends_with(&name_rule(&name)), "{answer:?}");
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_the_allowed_ones() {
    let server = Server::start().await;
    let item = format!("{ARTISTS}/korn");
    let dry = format!("{item}/_validate");
    for (path, allowed) in [
        (ARTISTS, "GET, HEAD, POST, OPTIONS"),
        (&item, "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        (&dry, "POST, OPTIONS"),
        ("/v1/types", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
    ] {
        for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "TRACE", "PROPFIND"] {
            if !allowed.contains(method) {
                let answer = server.ask(method, path).await_answer().await;
                assert_eq!((answer.code(), answer.header("allow")), (405, allowed), "{method} {path}");
                if method == "HEAD" {
                    continue;
                }
                let problem = answer.problem(405, "method-not-allowed");
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.contains(allowed) && detail.contains(method), "{method} {path}: {detail}");
            }
        }
        let options = server.ask("OPTIONS", path).await_answer().await;
        assert_eq!((options.said(), options.header("allow")), ((204, ""), allowed), "{path}");
        assert_eq!(options.header("access-control-allow-origin"), "", "no page of another origin may write");
    }
}

#[tokio::test]
async fn a_path_without_a_route_names_the_path_that_was_meant() {
    let server = Server::start().await;
    for (path, wanted) in [
        ("/api/demo/v1/artists", "/api/demo/v1/artist"),
        ("/api/demo/v2/artists/korn", "/api/demo/v2/artist/korn"),
        ("/api/demo/v2/Artist", "/api/demo/v2/artist"),
        ("/api/demo/v3/artist", "/api/demo/v2/artist"),
        ("/artists", "/api/demo/v2/artist"),
        ("/v1/artist/korn", "/api/demo/v1/artist/korn"),
        ("/apis/demo/v2/namespaces/default/artists/korn", "/api/tenancy/v2beta1/namespace"),
        ("/api/demo/v2/festivl", "/api/demo/v2/festival"),
        ("/api/demo/v2", "/api/demo/v2/album"),
    ] {
        let problem = server.fetch(path).await.problem(404, "no-route");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("did you mean ") && detail.contains(wanted), "{path}: {detail}");
    }
    for path in ["/nowhere", "/api/x/y/z"] {
        let problem = server.fetch(path).await.problem(404, "no-route");
        assert!(!problem["detail"].as_str().unwrap().contains("did you mean"), "{problem}");
    }
    let text = server.ask("GET", "/artists").header("accept", "text/plain").await_answer().await;
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    assert!(text.body.contains("did you mean /api/demo/v2/artist or /api/demo/v1/artist?"), "{text:?}");
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
    assert_eq!(names(&listed), ["one", "two"]);
    assert_eq!(server.ask("DELETE", &format!("{ARTISTS}/korn")).await_answer().await.code(), 204);
    eventually("the album follows", async || {
        server.read(&id("demo.v2.Album", "one")).await.is_err_and(|e| e.code() == Code::NotFound)
    })
    .await;
}
